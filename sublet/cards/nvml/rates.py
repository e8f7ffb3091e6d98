"""What counters say over time: errors of links that are new, and links slower than they could be. Pure."""

from collections import deque
from dataclasses import dataclass
from math import ceil

WINDOW_S = 60.0
REPLAYS_PER_LANE = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
"""Replays a minute and lane that a link of each generation may have (a bit error rate of 1e-12)."""
LOAD_PERCENT = 50
"""A card that does less may lower its link's generation to save power."""
CRCS_PER_S = 100
"""NVLink checksum errors repaired at less than this rate are ordinary."""
STORM_BEGINS, STORM_ENDS = 10, 5
"""Corrected memory errors a minute: from so many on it is a storm, until they are fewer than so many."""
WEEK_S = 604_800.0
RETIRED_BY_TWO_BITS, RETIRED_A_WEEK = 15, 1
"""A card that has retired more pages for double-bit errors, and more than the second number within a week, is
wearing out (DCGM's rule)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """One poll; None is what the card does not have."""

    width: int | None = None
    width_most: int | None = None
    generation: int | None = None
    generation_most: int | None = None
    busy_percent: int | None = None
    pcie_replays: int | None = None
    nvlink_replays: int | None = None
    nvlink_crcs: int | None = None
    ecc_corrected: int | None = None
    retired_by_two_bits: int | None = None


class Window:
    """How much a counter grew within the last `window_s`; one that fell began anew."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._grown: deque[tuple[float, int]] = deque()
        self._last: tuple[float, int] | None = None
        self.rate_per_s = 0.0
        """Since the poll before."""

    def grown(self, value: int, now_s: float) -> int:
        if self._last is not None:
            then_s, then = self._last
            more = value - then if value >= then else value
            self.rate_per_s = more / (now_s - then_s) if now_s > then_s else 0.0
            if more:
                self._grown.append((now_s, more))
        self._last = (now_s, value)
        while self._grown and self._grown[0][0] <= now_s - self._window_s:
            self._grown.popleft()
        return sum(more for _, more in self._grown)


class Rates:
    """The levels of one card that only time shows."""

    def __init__(self) -> None:
        self._pcie, self._replays, self._crcs = Window(), Window(), Window()
        self._corrected, self._retired = Window(), Window(WEEK_S)
        self._storm = False

    def levels(self, now: Counters, now_s: float) -> dict[str, str]:
        links = _pcie(now, self._replays_a_minute(now, now_s)) | self._nvlink(now, now_s)
        return links | self._ecc(now, now_s) | self._pages(now, now_s)

    def _replays_a_minute(self, now: Counters, now_s: float) -> int:
        return 0 if now.pcie_replays is None else self._pcie.grown(now.pcie_replays, now_s)

    def _nvlink(self, now: Counters, now_s: float) -> dict[str, str]:
        """Every replay or recovery counts, checksum errors only in a storm."""
        if now.nvlink_replays is None and now.nvlink_crcs is None:
            return {}
        errors = self._replays.grown(now.nvlink_replays or 0, now_s)
        crcs = self._crcs.grown(now.nvlink_crcs or 0, now_s)
        return {"nvlink_errors": str(errors + (crcs if self._crcs.rate_per_s >= CRCS_PER_S else 0))}

    def _ecc(self, now: Counters, now_s: float) -> dict[str, str]:
        if now.ecc_corrected is None:
            return {}
        errors = self._corrected.grown(now.ecc_corrected, now_s)
        self._storm = errors >= (STORM_ENDS if self._storm else STORM_BEGINS)
        return {"ecc_correctable_storm": "true" if self._storm else "false"}

    def _pages(self, now: Counters, now_s: float) -> dict[str, str]:
        """Says only that the limit is reached: the number of all pages has a limit of its own."""
        if now.retired_by_two_bits is None:
            return {}
        week = self._retired.grown(now.retired_by_two_bits, now_s)
        worn = now.retired_by_two_bits > RETIRED_BY_TWO_BITS and week > RETIRED_A_WEEK
        return {"retired_limit": "true"} if worn else {}


def _pcie(now: Counters, replays: int) -> dict[str, str]:
    """A card that tells neither width nor replays has no such level."""
    narrow = _less(now.width, now.width_most)
    slow = _less(now.generation, now.generation_most) and (now.busy_percent or 0) >= LOAD_PERCENT
    if now.width is None and now.pcie_replays is None:
        return {}
    return {"pcie_degraded": "true" if narrow or slow or replays > _expected(now) else "false"}


def _less(value: int | None, most: int | None) -> bool:
    return value is not None and most is not None and value < most


def _expected(now: Counters) -> int:
    most = max(REPLAYS_PER_LANE)
    lane = REPLAYS_PER_LANE.get(now.generation or most, REPLAYS_PER_LANE[most])
    return ceil(lane * (now.width or 16))
