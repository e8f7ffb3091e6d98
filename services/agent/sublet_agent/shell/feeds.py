"""What the engine hears of cards, verdicts and the ledger; each feed runs for ever and survives the bus."""

from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace

import structlog

from sublet.bus.port import Bus, Deleted, Entry, Reset, Synced, Upserted
from sublet.cards.kernellog import KernelLog
from sublet.cards.port import CardReader, CardSource, Observation
from sublet.contract import subjects
from sublet.contract.kernelline import place
from sublet.model.card import Card
from sublet.model.errors import BadRequest, NotFound, Unavailable
from sublet.model.health import SignalKind
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import NodeLedger
from sublet.wire.health import healthd_heartbeat_in, verdict_in
from sublet.wire.ledger import ledger_meta_in, node_ledger_in
from sublet_agent.core import event as ev
from sublet_agent.core.edits import Node
from sublet_agent.shell.driver import Driver
from sublet_agent.shell.mailbox import Mailbox
from sublet_agent.shell.publisher import Publisher
from sublet_agent.shell.signals import SignalBox

log = structlog.get_logger()

_READ_WITHIN_S = 2.0


async def feed_cards(source: CardReader, driver: Driver) -> None:
    async with aclosing(source.changes()) as changes:
        async for _ in changes:
            found = await source.discover()
            for warning in found.warnings:
                log.warning("cards.doubted", why=warning)
            log.info("cards.seen", cards=[card.id for card in found.cards], problems=found.problems)
            await driver.submit(
                ev.CardsSeen(
                    cards=found.cards,
                    nodes={
                        each.id: _nodes(source, each.id)
                        for card in found.cards
                        for each in (card, *card.offered)
                    },
                    driver=found.driver,
                    problems=found.problems,
                )
            )


def _nodes(source: CardReader, card: CardId) -> tuple[Node, ...]:
    return tuple(
        Node(host_path=one.host_path, container_path=one.container_path, permissions=one.permissions)
        for one in source.device_nodes(card)
    )


async def feed_signals(source: CardSource, box: SignalBox) -> None:
    async with aclosing(source.signals()) as signals:
        async for observation in signals:
            box.put(observation)


async def feed_kernel_log(kernel_log: KernelLog, cards: Callable[[], Iterable[Card]], box: SignalBox) -> None:
    """A line names a card by where it sits; where none of ours sits, healthd may know more."""
    async with aclosing(kernel_log.signals()) as signals:
        async for observation in signals:
            box.put(replace(observation, card=_sitting_at(observation, cards())))


def _sitting_at(observation: Observation, cards: Iterable[Card]) -> CardId | None:
    """None also for what is said of a switch."""
    if observation.kind is not SignalKind.XID:
        return None
    return next((card.id for card in cards if card.pci and place(card.pci) == observation.pci), None)


async def feed_verdicts(bus: Bus, node: NodeName, driver: Driver) -> None:
    """A bucket that is new or empty says nothing: what was last judged stays until it is judged anew."""
    async with aclosing(bus.follow(subjects.VERDICTS_BUCKET, subjects.verdict_keys(node))) as changes:
        async for change in changes:
            try:
                match change:
                    case Upserted(entry=entry):
                        await driver.submit(ev.VerdictSeen(verdict_in(entry.value)))
                    case Deleted(key=key):
                        await driver.submit(ev.VerdictGone(subjects.parse_verdict_key(key)[1]))
                    case Reset() | Synced():
                        pass
            except BadRequest as error:
                log.warning("verdict.unreadable", error=str(error))


class HealthdSeen:
    """When healthd last said that it judges; 0 until it did."""

    def __init__(self) -> None:
        self.at_ms = 0

    async def follow(self, bus: Bus) -> None:
        key = subjects.HEALTHD_HEARTBEAT_KEY
        async with aclosing(bus.follow(subjects.HEALTHD_BUCKET, key)) as changes:
            async for change in changes:
                if isinstance(change, Upserted):
                    try:
                        self.at_ms = healthd_heartbeat_in(change.entry.value)
                    except BadRequest as error:
                        log.warning("healthd_heartbeat.unreadable", error=str(error))


async def feed_ledger(bus: Bus, node: NodeName, driver: Driver, publisher: Publisher) -> None:
    """A ledger that was made anew tells of a bus that has lost everything, ours included."""
    seen = False
    key = subjects.ledger_key(node)
    async with aclosing(bus.follow(subjects.LEDGER_BUCKET, key)) as changes:
        async for change in changes:
            match change:
                case Upserted(entry=entry):
                    seen = True
                    try:
                        ledger = _entry_of(node, entry)
                    except BadRequest as error:
                        log.error("ledger.unreadable", key=key, error=str(error))
                        continue
                    await driver.submit(ev.LedgerSeen(ledger))
                case Deleted(revision=revision):
                    await driver.submit(ev.LedgerSeen(_empty(node, revision)))
                case Reset():
                    seen = False
                    await driver.submit(ev.LedgerForgotten())
                    await driver.submit(ev.BusReached())
                    publisher.refresh()
                case Synced():
                    if not seen:
                        await driver.submit(ev.LedgerSeen(_empty(node, 0)))


async def feed_ledger_meta(bus: Bus, driver: Driver) -> None:
    async with aclosing(bus.follow(subjects.LEDGER_BUCKET, subjects.LEDGER_META_KEY)) as changes:
        async for change in changes:
            match change:
                case Upserted(entry=entry):
                    try:
                        await driver.submit(ev.MetaSeen(ledger_meta_in(entry.value)))
                    except BadRequest as error:
                        log.error("ledger.unreadable", key=entry.key, error=str(error))
                case Deleted() | Reset():
                    await driver.submit(ev.MetaSeen(None))
                case Synced():
                    pass


async def feed_connections(bus: Bus, driver: Driver, publisher: Publisher) -> None:
    async with aclosing(bus.connections()) as states:
        async for reachable in states:
            log.info("bus.reached" if reachable else "bus.lost")
            if reachable:
                publisher.refresh()
                await driver.submit(ev.BusReached())


async def read_ledger(bus: Bus, node: NodeName, asked: Mailbox[int], driver: Driver) -> None:
    """Answer the engine's wish to know the ledger past the watch; if it cannot be, the engine asks again."""
    while True:
        generation = await asked.take()
        try:
            meta = await bus.get(subjects.LEDGER_BUCKET, subjects.LEDGER_META_KEY, within_s=_READ_WITHIN_S)
            entry = await bus.get(subjects.LEDGER_BUCKET, subjects.ledger_key(node), within_s=_READ_WITHIN_S)
            event = ev.LedgerRead(
                generation=generation,
                meta=ledger_meta_in(meta.value) if meta else None,
                entry=_entry_of(node, entry) if entry else _empty(node, 0),
            )
        except (Unavailable, NotFound, BadRequest) as error:
            log.debug("ledger.unread", error=str(error))
            continue
        await driver.submit(event)


def _entry_of(node: NodeName, entry: Entry) -> NodeLedger:
    """Raises BadRequest where it cannot be read, or is another node's."""
    ledger = node_ledger_in(entry.value, revision=entry.revision)
    if ledger.node != node:
        raise BadRequest(f"{entry.key} holds the entry of {ledger.node}")
    return ledger


def _empty(node: NodeName, revision: int) -> NodeLedger:
    return NodeLedger(node=node, term=0, revision=revision)
