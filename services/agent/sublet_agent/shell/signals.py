"""Raw health observations on their way to the bus: in order, each once, none dropped in silence."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import structlog

from sublet.bus.port import Bus
from sublet.cards.port import Observation
from sublet.contract import subjects
from sublet.model.card import Card
from sublet.model.errors import NotFound, Unavailable
from sublet.model.health import Signal, SignalKind
from sublet.model.ids import CardId, NodeName
from sublet.wire.health import signal_out

log = structlog.get_logger()

LIMIT = 1_000
_AGAIN_S = 1.0


class SignalBox:
    """Holds up to `limit` signals while the bus is away.

    A full box counts a signal on to the last one like it (`Signal.count`); one that is like none drops the
    oldest, counted in `dropped` and logged. A probe that went well is told once: heartbeats say that
    somebody still looks, and everything else a probe says is news.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        node: NodeName,
        boot_id: str,
        epoch: str,
        unix_ms: Callable[[], int],
        limit: int = LIMIT,
    ) -> None:
        self._bus = bus
        self._node = node
        self._boot_id = boot_id
        self._epoch = epoch
        self._unix_ms = unix_ms
        self._limit = limit
        self._held: deque[Signal] = deque()
        self._well: set[CardId | None] = set()
        """Cards whose last probe went well."""
        self._arrived = asyncio.Event()
        self._seq = count(1)
        self.sent = 0
        self.dropped = 0

    def put(self, observation: Observation) -> None:
        if not self._is_news(observation):
            return
        signal = observation.signal(
            node=self._node,
            boot_id=self._boot_id,
            epoch=self._epoch,
            seq=next(self._seq),
            at_ms=self._unix_ms(),
        )
        if len(self._held) < self._limit:
            self._held.append(signal)
        else:
            self._squeeze(signal)
        self._arrived.set()

    def tell_anew(self) -> None:
        """Take nothing for told any more: the bus may have lost it."""
        self._well.clear()

    def _is_news(self, observation: Observation) -> bool:
        card = observation.card
        if observation.kind is not SignalKind.PROBE:
            return True
        if observation.value != "ok":
            self._well.discard(card)
            return True
        known = card in self._well
        self._well.add(card)
        return not known

    @property
    def waiting(self) -> int:
        return len(self._held)

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._held:
                if not await self._send(self._held[0]):
                    await asyncio.sleep(_AGAIN_S)

    async def _send(self, signal: Signal) -> bool:
        subject = subjects.signal_subject(signal.node, signal.card)
        try:
            await self._bus.publish(subject, signal_out(signal), once_id=once_id(signal), within_s=5.0)
        except (Unavailable, NotFound) as error:
            log.debug("signal.unsent", subject=subject, error=str(error))
            return False
        if self._held and self._held[0] is signal:
            self._held.popleft()
        self.sent += 1
        return True

    def _squeeze(self, signal: Signal) -> None:
        for place in range(len(self._held) - 1, 0, -1):  # the first may be on its way
            if _like(self._held[place]) == _like(signal):
                self._held[place] = replace(signal, count=self._held[place].count + 1)
                return
        self._held.popleft()
        self._held.append(signal)
        self.tell_anew()
        self.dropped += 1
        log.warning("signal.dropped", dropped=self.dropped)


class Announcer:
    """Says who the cards are and in which boot they were seen."""

    def __init__(self, box: SignalBox, *, boot_id: str, driver: Callable[[], str]) -> None:
        self._box = box
        self._boot_id = boot_id
        self._driver = driver

    def announce(self, cards: tuple[Card, ...]) -> None:
        self._box.tell_anew()
        self._box.put(Observation(card=None, kind=SignalKind.BOOT, source="agent", boot_id=self._boot_id))
        for card in cards:
            self._box.put(
                Observation(
                    card=card.id,
                    kind=SignalKind.CARD,
                    source="agent",
                    pci=card.pci or "",
                    serial=card.serial or "",
                    model=card.model,
                    driver=self._driver(),
                )
            )


def once_id(signal: Signal) -> str:
    """The same for every attempt to send one signal, different for any other signal."""
    parts = (
        signal.node,
        signal.boot_id,
        signal.card or subjects.MISSING,
        signal.kind,
        signal.code,
        signal.name,
        signal.epoch,
        signal.seq,
    )
    return "/".join(map(str, parts))


def _like(signal: Signal) -> tuple[object, ...]:
    return (signal.card, signal.kind, signal.code, signal.name, signal.value, signal.gi, signal.ci)
