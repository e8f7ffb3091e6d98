"""The same fault told by the driver and by the kernel's log is one: the second telling is left out."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from sublet.model.ids import CardId

WAYS = frozenset({"nvml", "kmsg"})
SAME_FAULT_MS = 5_000
STORM_MS = 100
"""Within it, equal faults are remembered as one with their number."""
CODES = 64
"""The most codes that are remembered of one card."""
TEXT_DECIDES = frozenset({13, 74, *range(144, 151), 154})
"""Codes whose line says what to do; that telling is passed on even as the second, and judged as the same."""


@dataclass(slots=True)
class _Alone:
    """Faults of one code that were told in one way only: when, and how many."""

    way: str
    times: deque[list[int]] = field(default_factory=deque)

    def forget(self, until_ms: int) -> None:
        while self.times and self.times[0][0] <= until_ms:
            self.times.popleft()

    def match(self, count: int) -> int:
        """How many of `count` are none of these."""
        while self.times and count:
            same = min(self.times[0][1], count)
            self.times[0][1] -= same
            count -= same
            if not self.times[0][1]:
                self.times.popleft()
        return count

    def add(self, count: int, at_ms: int) -> None:
        if self.times and at_ms - self.times[-1][0] < STORM_MS:
            self.times[-1][1] += count
        else:
            self.times.append([at_ms, count])


class Twins:
    """Remembers the faults of the last seconds that were told in one way only."""

    def __init__(self) -> None:
        self._alone: dict[CardId, OrderedDict[tuple[int, int | None], _Alone]] = {}

    def news(
        self, card: CardId, code: int, way: str, *, text: str, count: int, at_ms: int, gi: int | None = None
    ) -> int:
        """How many of the `count` faults are not told yet; `gi` is the MIG instance that they name."""
        if way not in WAYS:
            return count
        codes = self._alone.setdefault(card, OrderedDict())
        alone = codes.get((code, gi))
        if alone is None:
            if len(codes) >= CODES:
                codes.popitem(last=False)
            alone = codes[code, gi] = _Alone(way)
        alone.forget(at_ms - SAME_FAULT_MS)
        left = count if alone.way == way else alone.match(count)
        if left:
            alone.way = way
            alone.add(left, at_ms)
        return count if text and code in TEXT_DECIDES else left
