"""Amounts as pods write them: whole numbers of extended resources, and CPU and memory of the host."""

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from sublet.model.reasons import Refusal, RefusalCode

LARGEST = 2**53
"""Above this a JSON reader may round; no resource of a GPU comes near it."""

_SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
    "m": Fraction(1, 10**3),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}
_BINARY = {"MiB": 2**20, "GiB": 2**30}
"""Bytes in the units in which memory is asked for."""
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([a-zA-Z]{0,2}))", re.ASCII)
_STORED = re.compile(r"([1-9]\d{0,17})([kMGTPE])", re.ASCII)
_MOST_DIGITS = 20
"""More than any amount needs; Python refuses to read numbers of thousands of digits."""
_MOST_QUOTED = 80


def whole_number(
    value: object, *, key: str, unit: str, least: int = 1, most: int = LARGEST, stored: bool = False
) -> int | Refusal:
    """Read a resource limit such as ``4096`` that must be a plain whole number from `least` to `most`.

    `stored` is for objects that come from the API server, which writes 50000 as ``50k``.

    Returns a Refusal that quotes key and value as written, and names the unit, for anything else:
    zero where `least` is 1, negative, fractional, a suffix.
    """
    text = value if isinstance(value, str) else str(value)
    if stored and (short := _STORED.fullmatch(text)):
        text = short[1] + "000" * (1 + "kMGTPE".index(short[2]))
    plain = isinstance(value, (int, str)) and not isinstance(value, bool)
    digits = plain and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if digits and least <= int(text) <= most:
        return int(text)
    example = _meant(text, unit)
    if example is None or not least <= example <= most:
        example = min(most, 10)
    return Refusal(
        code=RefusalCode.BAD_QUANTITY,
        message=f"{key}={text[:_MOST_QUOTED]!r} is not a whole number of {unit} from {least} to {most}",
        hint=f"Write a plain number of {unit} without a suffix, for example {key}: {example}",
    )


def _meant(text: str, unit: str) -> int | None:
    """``4096`` for ``4Gi`` where MiB are asked for; None where `text` has no binary suffix or is no whole
    number of `unit`."""
    size, match = _BINARY.get(unit), _QUANTITY.fullmatch(text[:_MOST_QUOTED])
    suffix = match[3] if match else None
    if size is None or match is None or suffix not in _SUFFIXES or not suffix.endswith("i"):
        return None
    amount = Fraction(match[1]) * _SUFFIXES[suffix] / size
    return int(amount) if amount.denominator == 1 else None


def quantity(value: object) -> Fraction:
    """Read a Kubernetes quantity such as ``500m`` or ``2Gi``. Raises ValueError."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if not match or (match[3] or "") not in _SUFFIXES:
        raise ValueError(f"{value!r} is not a Kubernetes quantity")
    return Fraction(match[1] + (match[2] or "")) * Fraction(_SUFFIXES[match[3] or ""])


def cpu_milli(amounts: Mapping[str, object]) -> int:
    """The `cpu` entry in thousandths of a core, rounded up; 0 where absent. Raises ValueError."""
    return _amount(amounts, "cpu", _A_CORE)


def host_memory_mib(amounts: Mapping[str, object]) -> int:
    """The `memory` entry in MiB, rounded up; 0 where absent. Raises ValueError."""
    return _amount(amounts, "memory", _A_BYTE)


_A_CORE = Fraction(1000)
_A_BYTE = Fraction(1, 2**20)


def _amount(amounts: Mapping[str, object], name: str, unit: Fraction) -> int:
    value = amounts.get(name)
    return 0 if value is None else _counted(name, str(value), unit)


@lru_cache(maxsize=4096)  # the same few texts are read for every review and every event of every pod
def _counted(name: str, text: str, unit: Fraction) -> int:
    found = quantity(text)
    if found < 0:
        raise ValueError(f"{name}={text!r} is negative")
    return math.ceil(found * unit)
