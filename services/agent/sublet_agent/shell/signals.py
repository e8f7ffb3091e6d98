"""Raw health observations on their way to the bus: in order, each once, none dropped in silence."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import structlog

from sublet.bus.port import Bus
from sublet.cards.arrivals import suppressed
from sublet.cards.port import Observation
from sublet.contract import subjects
from sublet.model.card import Card
from sublet.model.errors import BadRequest, NotFound, Unavailable
from sublet.model.health import Signal, SignalKind
from sublet.model.ids import CardId, NodeName
from sublet.model.level import SUPPRESSED
from sublet.runtime.clock import monotonic_s
from sublet.wire.health import signal_out
from sublet_agent.core.bucket import Held
from sublet_agent.shell.intake import Intake

log = structlog.get_logger()

LIMIT = 1_000
_AGAIN_S = 1.0


class SignalBox:
    """Holds up to `limit` signals while the bus is away.

    What comes too fast waits in `Intake` and is counted together there (`Signal.count`). A full box counts a
    signal on to the last one like it; one that is like none drops the oldest, counted in `dropped`, logged,
    and told in a level `signals_suppressed` once the bus is back. A probe that went well is told once:
    heartbeats say that somebody still looks, and everything else a probe says is news.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        node: NodeName,
        boot_id: str,
        epoch: str,
        unix_ms: Callable[[], int],
        clock: Callable[[], float] = monotonic_s,
        busy: Callable[[CardId], bool] = lambda _card: False,
        limit: int = LIMIT,
    ) -> None:
        self._intake = Intake(busy)
        self._clock = clock
        self._left_out: Counter[CardId | None] = Counter()
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
        self._timed = False
        """Whether `run` will look by itself at what came too fast."""
        self._seq = count(1)
        self.sent = 0
        self.dropped = 0

    def put(self, observation: Observation) -> None:
        if not self._is_news(observation):
            return
        held = self._intake.take(observation, at_ms=self._unix_ms(), now_s=self._clock())
        if held is not None:
            self._hold(held)
        if held is not None or not self._timed:
            self._arrived.set()

    def _hold(self, held: Held[Observation]) -> None:
        signal = held.value.signal(
            node=self._node,
            boot_id=self._boot_id,
            epoch=self._epoch,
            seq=next(self._seq),
            at_ms=held.at_ms,
        )
        told = str(held.count) if signal.name == SUPPRESSED else signal.value
        signal = replace(signal, count=held.count, value=told)
        if len(self._held) < self._limit:
            self._held.append(signal)
        else:
            self._squeeze(signal)

    def tell_anew(self) -> None:
        """Take no probe for told any more: the bus may have lost it."""
        self._well.clear()

    def tell_levels(self) -> None:
        """Tell again what every level is."""
        for level in self._intake.levels():
            self._hold(Held(level, self._unix_ms(), 1))
        self._arrived.set()

    @property
    def folded(self) -> int:
        return self._intake.folded

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
            await self._wait()
            for held in self._intake.due(self._clock()):
                self._hold(held)
            while self._held:
                if not await self._send(self._held[0]):
                    await asyncio.sleep(_AGAIN_S)
                elif len(self._held) < self._limit and self._left_out:
                    self._tell_left_out()

    async def _wait(self) -> None:
        """Until something arrives, or what came too fast is due."""
        due_s = self._intake.due_s()
        self._timed = due_s is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if due_s is None else max(0.0, due_s - self._clock())):
                await self._arrived.wait()
        self._timed = False
        self._arrived.clear()

    def _tell_left_out(self) -> None:
        card, count = self._left_out.popitem()
        self._hold(Held(suppressed(card, count), self._unix_ms(), count))

    async def _send(self, signal: Signal) -> bool:
        subject = subjects.signal_subject(signal.node, signal.card)
        try:
            await self._bus.publish(subject, signal_out(signal), once_id=once_id(signal), within_s=5.0)
        except (Unavailable, NotFound) as error:
            log.debug("signal.unsent", subject=subject, error=str(error))
            return False
        except BadRequest as error:  # the bus will never take it, and those behind it shall not wait
            log.error("signal.unsendable", subject=subject, error=str(error))
            self.dropped += signal.count
        else:
            self.sent += 1
        if self._held and self._held[0] is signal:
            self._held.popleft()
        return True

    def _squeeze(self, signal: Signal) -> None:
        for place in range(len(self._held) - 1, 0, -1):  # the first may be on its way
            if _like(self._held[place]) == _like(signal):
                self._held[place] = replace(signal, count=self._held[place].count + signal.count)
                return
        oldest = self._held.popleft()
        self._held.append(signal)
        self.tell_anew()
        self.dropped += oldest.count
        if not self._left_out:
            log.warning("signal.dropped", dropped=self.dropped)
        self._left_out[oldest.card] += oldest.count


class Announcer:
    """Says who the cards are, in which boot they were seen and how they were polled last."""

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
        self._box.tell_levels()


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
