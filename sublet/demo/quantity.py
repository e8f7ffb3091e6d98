"""Kubernetes quantities such as `500m`, `16Gi` and `2`, as exact numbers."""

import re
from fractions import Fraction

_FORM = re.compile(r"^(?P<number>[+-]?(\d+\.?\d*|\.\d+))(?P<suffix>[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]?)$")
_FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}


def quantity(text: str | float) -> Fraction:
    """The exact value; ValueError for what is no quantity."""
    found = _FORM.match(str(text))
    if not found:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix = found["number"], found["suffix"]
    if suffix in _FACTORS:
        return Fraction(number) * _FACTORS[suffix]
    return Fraction(number + suffix)  # an exponent, which Fraction reads by itself
