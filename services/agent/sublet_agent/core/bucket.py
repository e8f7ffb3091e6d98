"""A token bucket for each card: what comes too fast is counted together and told later, never left out."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

BURST = 20
"""So many signals of one card are told at once."""
PER_S = 2.0
"""And so many a second for as long as more come."""
KINDS = 64
"""The most different things that wait for one card; others are told by their number alone."""


@dataclass(slots=True)
class Held(Generic[T]):
    """`count` alike, of which `value` is the newest, seen at `at_ms`."""

    value: T
    at_ms: int
    count: int


class Bucket(Generic[T]):
    """Tells in the order in which things were last seen, so that what was last true is told last.

    `overflow` makes what stands for a number of things that found no place.
    """

    def __init__(self, overflow: Callable[[int], T]) -> None:
        self._overflow = overflow
        self._tokens = float(BURST)
        self._at_s: float | None = None
        self._held: OrderedDict[Hashable, Held[T]] = OrderedDict()
        self._left_out = 0
        self._left_out_ms = 0
        self.folded = 0
        """How many were not told one by one."""

    def offer(self, key: Hashable, value: T, *, count: int, at_ms: int, now_s: float) -> Held[T] | None:
        """What to tell now; None when it waits."""
        if (held := self._held.get(key)) is not None:
            held.value, held.at_ms = value, at_ms
            held.count += count
            self._held.move_to_end(key)
            self.folded += count
            return None
        self._refill(now_s)
        if not self.waiting and self._tokens >= 1:
            self._tokens -= 1
            return Held(value, at_ms, count)
        if len(self._held) < KINDS:
            self._held[key] = Held(value, at_ms, count)
        else:
            self._left_out += count
            self._left_out_ms = at_ms
            self.folded += count
        return None

    def due(self, now_s: float) -> Iterator[Held[T]]:
        """What waited and may be told now."""
        self._refill(now_s)
        while self._tokens >= 1 and self.waiting:
            self._tokens -= 1
            if self._held:
                yield self._held.popitem(last=False)[1]
            else:
                left_out, self._left_out = self._left_out, 0
                yield Held(self._overflow(left_out), self._left_out_ms, left_out)

    @property
    def waiting(self) -> bool:
        return bool(self._held) or self._left_out > 0

    def due_s(self) -> float | None:
        """When `due` has something; None when nothing waits."""
        if not self.waiting or self._at_s is None:
            return None
        return self._at_s + max(0.0, 1 - self._tokens) / PER_S

    def _refill(self, now_s: float) -> None:
        if self._at_s is not None:
            self._tokens = min(float(BURST), self._tokens + max(0.0, now_s - self._at_s) * PER_S)
        self._at_s = now_s
