"""Sorts effects by where they go: a slow API server delays no ledger write, an absent bus no pod."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import structlog

from sublet.model.ids import NodeName
from sublet_scheduler.core.effects import (
    AckRelease,
    Announce,
    AnnounceCard,
    Answer,
    ClusterEffect,
    Effect,
    EvictPods,
    FindPod,
    FreeStuckPin,
    MakeBallast,
    MakePlaceholder,
    MarkWaiting,
    PublicEffect,
    ReleasePod,
    RemoveBallast,
    RemovePlaceholder,
    Report,
    ResizeBallast,
    StepDown,
    WriteLedger,
    WriteTotals,
)
from sublet_scheduler.shell.lane import Lane

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Fact:
    """A public fact, when it became one (Unix ms), and its number, which only rises, also over restarts."""

    effect: PublicEffect
    at_ms: int
    seq: int


FULL_EFFECTS = 2_000
"""From here on the driver waits for outcomes before it takes new events."""
PUBLIC_MOST = 20_000
"""Public facts that may wait for the bus; beyond it the newest are dropped and counted."""


class Outbox:
    """Effects on their way: `ledger` keeps order by node, `cluster` by pod or node, `public` by subject."""

    def __init__(
        self,
        *,
        on_fact: Callable[[PublicEffect], None],
        unix_ms: Callable[[], int],
    ) -> None:
        """`on_fact` is told of every public fact, whether or not the bus takes it."""
        self._on_fact = on_fact
        self._unix_ms = unix_ms
        self._seq = 0
        self.ledger: Lane[WriteLedger] = Lane(workers=8, on_done=self._freed)
        self.cluster: Lane[ClusterEffect] = Lane(workers=8, on_done=self._freed)
        self.public: Lane[Fact] = Lane(workers=4, on_done=self._freed)
        self._newest: dict[NodeName, WriteLedger] = {}
        self.dropped = 0
        self.on_room: Callable[[], None] = _nobody
        """Called whenever an effect is done; set by whoever waits for room."""

    def _freed(self) -> None:
        self.on_room()

    @property
    def full(self) -> bool:
        return self.ledger.size + self.cluster.size >= FULL_EFFECTS

    def is_awaited(self, write: WriteLedger) -> bool:
        """Whether the engine has asked for no other write of that entry since."""
        return self._newest.get(write.entry.node) is write

    def put(self, effect: Effect) -> None:
        match effect:
            case WriteLedger(entry):
                self._newest[entry.node] = effect
                self.ledger.put(entry.node, effect)
            case ReleasePod() | MarkWaiting() | FindPod() | FreeStuckPin():
                self.cluster.put(effect.uid, effect)
            case EvictPods():
                self.cluster.put(f"evictions/{effect.uid}", effect)
            case WriteTotals() | AckRelease():
                self.cluster.put(f"node/{effect.node}", effect)
            case MakeBallast() | ResizeBallast() | RemoveBallast():
                self.cluster.put(f"ballast/{effect.node}", effect)
            case MakePlaceholder(name=name):
                self.cluster.put(f"placeholder/{name}", effect)
            case RemovePlaceholder(_, ref):
                self.cluster.put(f"placeholder/{ref.name}", effect)
            case Report():  # an Event for people, which no absent bus may hold up, and an audit event
                self.cluster.put(f"report/{effect.ref or effect.node}", effect)
                self._put_public(effect)
            case Announce() | AnnounceCard():
                self._put_public(effect)
            case Answer() | StepDown():
                raise TypeError(f"{effect} is the driver's own")
            case _:
                assert_never(effect)

    def _put_public(self, effect: PublicEffect) -> None:
        self._on_fact(effect)
        if self.public.size >= PUBLIC_MOST:
            self.dropped += 1
            log.warning("fact.dropped", fact=type(effect).__name__, dropped=self.dropped)
            return
        key = f"{effect.node}/{effect.card}" if isinstance(effect, AnnounceCard) else str(effect.ref)
        now_ms = self._unix_ms()
        self._seq = max(self._seq + 1, now_ms * 1000)
        self.public.put(key, Fact(effect, now_ms, self._seq))


def _nobody() -> None:
    """Nobody waits yet."""
