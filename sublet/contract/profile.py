"""Names of MIG profiles: as drivers write them, and as resources carry them."""

import re
from math import ceil, floor

_IN_NAME = re.compile(r"\bMIG ((?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z]+(?:\.[a-z]+)*)?)$")
_EIGHTHS = 8
_MIB_PER_GIB = 1024


def profile_key(profile: str) -> str:
    """The profile within a resource's name, where no ``+`` may stand: ``1g.5gb+me`` is ``1g.5gb.me``."""
    return profile.replace("+", ".")


def profile_in(name: str) -> str:
    """The profile that ends a partition's product name, such as ``NVIDIA A30 MIG 1g.6gb``, else nothing."""
    found = _IN_NAME.search(name)
    return profile_key(found[1]) if found else ""


def profile_of(*, slices: int, compute_slices: int, memory_mib: int, card_mib: int) -> str:
    """The profile that a partition of these sizes has: its memory is named as whole eighths of the card's, in
    whole GiB. A compute instance that has only some of its GPU instance's slices says how many."""
    eighths = ceil(_EIGHTHS * memory_mib / card_mib)
    gib = floor(eighths * ceil(card_mib / _MIB_PER_GIB) / _EIGHTHS + 0.5)
    part = f"{compute_slices}c." if compute_slices != slices else ""
    return f"{part}{slices}g.{gib}gb"
