"""What is told of all that sources observe: each fault once, each level when it changes, none too fast."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sublet.cards.arrivals import suppressed
from sublet.cards.port import Observation
from sublet.model.health import SignalKind
from sublet.model.ids import CardId
from sublet.model.level import SUPPRESSED
from sublet_agent.core.bucket import Bucket, Held
from sublet_agent.core.levels import Levels
from sublet_agent.core.twins import Twins

MOST_CARDS = 256
"""Names beyond so many share the node's bucket: no node has as many cards."""
ACTION = "recovery_action"
POLLED = (SignalKind.LEVEL, SignalKind.RECOVERY_ACTION)


class Intake:
    """`busy` says whether a pod has a card. `now_s` is monotonic time, `at_ms` that of the world."""

    def __init__(self, busy: Callable[[CardId], bool]) -> None:
        self._twins = Twins()
        self._levels: Levels[Observation] = Levels(busy)
        self._buckets: dict[CardId | None, Bucket[Observation]] = {}

    def take(self, one: Observation, *, at_ms: int, now_s: float) -> Held[Observation] | None:
        """What to tell of it at once; None when it is no news, or waits until it is `due`."""
        card, bucket = self._place(one.card)
        count = one.count
        if card is not None and one.kind is SignalKind.XID:
            count = self._twins.news(
                card, one.code, one.source, text=one.raw, count=count, at_ms=at_ms, gi=one.gi
            )
        elif card is not None and one.kind in POLLED and one.name != SUPPRESSED:
            value = self._levels.value(card, one.name, one.value)
            one = one if value == one.value else replace(one, value=value)
            count = count if self._levels.is_news(card, one.name or ACTION, value, one) else 0
        return bucket.offer(_key(one), one, count=count, at_ms=at_ms, now_s=now_s) if count else None

    def _place(self, card: CardId | None) -> tuple[CardId | None, Bucket[Observation]]:
        if card not in self._buckets and len(self._buckets) >= MOST_CARDS:
            card = None
        if (bucket := self._buckets.get(card)) is None:
            bucket = self._buckets[card] = Bucket(lambda count: suppressed(card, count))
        return card, bucket

    def due(self, now_s: float) -> Iterator[Held[Observation]]:
        """What waited and is to be told now."""
        for bucket in self._buckets.values():
            yield from bucket.due(now_s)

    def due_s(self) -> float | None:
        """When something is due; None when nothing waits."""
        times = [bucket.due_s() for bucket in self._buckets.values()]
        return min((time for time in times if time is not None), default=None)

    def levels(self) -> Iterator[Observation]:
        """Each level as it was told last."""
        return self._levels.again()

    @property
    def folded(self) -> int:
        """How many came too fast and were counted together with others."""
        return sum(bucket.folded for bucket in self._buckets.values())


def _key(one: Observation) -> tuple[object, ...]:
    """Of a level only the newest value counts."""
    value = "" if one.kind in POLLED else one.value
    return (one.kind, one.code, one.name, value, one.pci, one.gi, one.ci)
