"""What the bus brings: signals, what agents keep there, the ledger, and the loss of our own bucket."""

from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime

import structlog

from sublet.bus.port import Bus, Change, Deleted, Entry, Message, Outcome, Reset, Synced, Upserted
from sublet.contract import subjects
from sublet.model.card import Heartbeat, Inventory
from sublet.model.errors import BadRequest
from sublet.model.health import Signal
from sublet.model.placement import NodeLedger, Occupancy
from sublet.wire.health import signal_in
from sublet.wire.ledger import ledger_meta_in, node_ledger_in
from sublet.wire.node import heartbeat_in, inventory_in, occupancy_in
from sublet_healthd.core.event import CaughtUp, Event, LedgerLost, VerdictsLost
from sublet_healthd.shell.driver import Driver
from sublet_healthd.shell.retry import BUS_AWAY, Pauses, keep_trying
from sublet_healthd.shell.store import VerdictStore

log = structlog.get_logger()

CONSUMER = "healthd"
IN_HAND_S = 150.0
"""More than twice the time after which the bus delivers again what was not acknowledged."""
IN_HAND_SIGNALS = 10_000
"""Of more than that the oldest wait until they are delivered again."""

Ignored = Callable[[str], None]


class Feeds:
    """`ignored` is told where a message was that was left out: unreadable, or not its sender's to say."""

    def __init__(
        self,
        bus: Bus,
        driver: Driver,
        store: VerdictStore,
        *,
        ignored: Ignored,
        pauses: Pauses,
        unix_ms: Callable[[], int],
    ) -> None:
        self._bus = bus
        self._driver = driver
        self._store = store
        self._ignored = ignored
        self._pauses = pauses
        self._unix_ms = unix_ms

    async def signals(self) -> None:
        await keep_trying("signals.catch_up", self._catch_up, pauses=self._pauses, on=BUS_AWAY)
        everything = [subjects.pattern(subjects.SIGNAL)]
        await self._bus.consume(subjects.SIGNALS_STREAM, everything, name=CONSUMER, handler=self._on_signal)

    async def _catch_up(self) -> None:
        """The bus delivers what an earlier life had in hand when it was killed only after a minute; it is
        still in the stream, and telling it twice changes nothing."""
        since = datetime.fromtimestamp(self._unix_ms() / 1000 - IN_HAND_S, UTC)
        everything = [subjects.pattern(subjects.SIGNAL)]
        stored = self._bus.subscribe(subjects.SIGNALS_STREAM, everything, since=since, follow=False)
        signals: deque[Signal] = deque(maxlen=IN_HAND_SIGNALS)
        async with aclosing(stored) as messages:
            async for message in messages:
                try:
                    signal = _signal(message)
                except BadRequest:
                    continue  # counted when it is delivered
                if signal is not None:
                    signals.append(signal)
        await self._driver.submit(CaughtUp(tuple(signals)))

    async def _on_signal(self, message: Message) -> Outcome:
        """Acknowledged once the verdict that follows from it is stored."""
        try:
            signal = _signal(message)
        except BadRequest as error:
            self._drop("unreadable", subjects.SIGNALS_STREAM, message.subject, error)
            return Outcome.POISON
        if signal is None:
            self._drop("foreign_node", subjects.SIGNALS_STREAM, message.subject, None)
            return Outcome.DONE
        await self._driver.settle(signal)
        return Outcome.DONE

    async def inventory(self) -> None:
        """Heartbeats count from the first that comes; what lay there before may be of any age."""
        synced = False
        async with aclosing(self._bus.follow(subjects.INVENTORY_BUCKET)) as changes:
            async for change in changes:
                synced = synced or isinstance(change, Synced)
                said = (
                    self._read(subjects.INVENTORY_BUCKET, change.entry, _said)
                    if isinstance(change, Upserted)
                    else None
                )
                if said is not None and (synced or not isinstance(said, Heartbeat)):
                    await self._driver.submit(said)

    async def ledger(self) -> None:
        async with aclosing(self._bus.follow(subjects.LEDGER_BUCKET)) as changes:
            async for change in changes:
                event = self._ledger_event(change)
                if event is not None:
                    await self._driver.submit(event)

    def _ledger_event(self, change: Change) -> Event | None:
        match change:
            case Reset() | Deleted(key=subjects.LEDGER_META_KEY):
                return LedgerLost()
            case Upserted(entry=entry):
                return self._read(subjects.LEDGER_BUCKET, entry, _ledger)
            case Deleted(key=key, revision=revision):
                gone = Entry(key=key, value=b"", revision=revision)
                return self._read(subjects.LEDGER_BUCKET, gone, _ledger)
            case _:
                return None

    async def verdicts(self) -> None:
        """Our own bucket: when it was created anew, everything is written again."""
        async with aclosing(self._bus.follow(subjects.VERDICTS_BUCKET)) as changes:
            async for change in changes:
                if isinstance(change, Reset):
                    log.warning("verdicts.lost")
                    self._store.forget()
                    await self._driver.submit(VerdictsLost())

    def _read(self, bucket: str, entry: Entry, read: Callable[[Entry], Event | None]) -> Event | None:
        try:
            event = read(entry)
        except BadRequest as error:
            self._drop("unreadable", bucket, entry.key, error)
            return None
        if event is None:
            self._drop("foreign_node", bucket, entry.key, None)
        return event

    def _drop(self, why: str, source: str, where: str, error: BadRequest | None) -> None:
        self._ignored(source)
        log.warning("message.dropped", why=why, where=where, error=str(error) if error else "")


def _signal(message: Message) -> Signal | None:
    """None where the payload speaks for another node or card than its subject."""
    subject = subjects.parse_subject(message.subject)
    signal = signal_in(message.body)
    return signal if (signal.node, signal.card) == (subject.node, subject.card) else None


def _said(entry: Entry) -> Inventory | Heartbeat | Occupancy | None:
    kind, node = subjects.parse_node_key(entry.key)
    said: Inventory | Heartbeat | Occupancy
    if kind == subjects.INVENTORY:
        said = inventory_in(entry.value)
    elif kind == subjects.HEARTBEAT:
        said = heartbeat_in(entry.value)
    else:
        said = occupancy_in(entry.value)
    return said if said.node == node else None


def _ledger(entry: Entry) -> Event | None:
    node = subjects.parse_ledger_key(entry.key)
    if node is None:
        return ledger_meta_in(entry.value)
    if not entry.value:  # deleted: no grants, nothing closed
        return NodeLedger(node=node, term=0, revision=entry.revision)
    ledger = node_ledger_in(entry.value, revision=entry.revision)
    return ledger if ledger.node == node else None
