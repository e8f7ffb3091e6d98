"""What keeps a node from being managed, as far as the node itself can see it."""

from collections.abc import Iterable, Mapping

from sublet.contract import dialects, keys
from sublet.model.reasons import Reason

_SAME_CARDS = (f"{keys.NVIDIA_GPU}.", "amd.com/")
"""How the vendors' plugins name shared cards and slices, beyond what a dialect reads."""


def is_foreign(resource: str) -> bool:
    """Whether a plugin that serves `resource` hands out the cards that we hand out."""
    return resource.startswith(_SAME_CARDS) or any(one.names(resource) for one in dialects.ALL)


def problems(of_source: tuple[str, ...], served: Mapping[str, int], held: Iterable[str]) -> tuple[str, ...]:
    """The findings in a stable order; `of_source` are those of the card source, such as MigUnsupported.

    A plugin that left counts as long as containers hold what it gave them (`held`): they run on its cards.
    """
    there = {name for name, devices in served.items() if devices} | set(held)
    foreign = any(is_foreign(name) for name in there)
    return tuple(sorted({*of_source, *((Reason.FOREIGN_PLUGIN.value,) if foreign else ())}))
