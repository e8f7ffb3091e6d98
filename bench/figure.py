"""One measured number and how it is written down."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

BOUND = re.compile(r"([≥≤]) ([\d,.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`aim` is a bound in the same unit, as "≤ 64 MiB", and may say more behind it."""

    what: str
    value: float
    unit: str
    aim: str = ""

    def row(self) -> str:
        return f"| {self.what} | {_short(self.value)} {self.unit} | {self.aim} | {self._verdict()} |"

    def _verdict(self) -> str:
        bound = BOUND.match(self.aim)
        if bound is None:
            return ""
        aim = float(bound[2].replace(",", ""))
        return "met" if (self.value >= aim if bound[1] == "≥" else self.value <= aim) else "missed"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A measurement that this machine cannot make, and why."""

    why: str


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of all do not exceed."""
    ordered = sorted(samples)
    at = max(0, -(-len(ordered) * percent // 100) - 1)
    return ordered[int(at)]


def spread(
    what: str, samples: Sequence[float], unit: str, *, aim: str = "", median_aim: str = ""
) -> list[Figure]:
    """Median and 99th percentile; `aim` is for the latter."""
    return [
        Figure(what=f"{what}, p50", value=percentile(samples, 50), unit=unit, aim=median_aim),
        Figure(what=f"{what}, p99", value=percentile(samples, 99), unit=unit, aim=aim),
    ]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
