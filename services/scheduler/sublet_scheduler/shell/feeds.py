"""Follows what agents and healthd keep on the bus, and hands it to the engine as events.

A payload that names another node or card than its key is dropped and counted: an agent may speak for its own
node only.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import structlog

from sublet.bus.port import Bus, Change, Deleted, Entry, Upserted
from sublet.contract import subjects
from sublet.model.errors import BadRequest
from sublet.wire.health import verdict_in
from sublet.wire.node import heartbeat_in, inventory_in, occupancy_in
from sublet_scheduler.core.events import (
    Event,
    HeartbeatSeen,
    InventoryGone,
    InventorySeen,
    OccupancySeen,
    VerdictGone,
    VerdictSeen,
)
from sublet_scheduler.shell.cards import Cards

log = structlog.get_logger()

Submit = Callable[[Event], Awaitable[None]]


class Feeds:
    """`dropped` is told the bucket of every message that nobody should have written."""

    def __init__(
        self,
        bus: Bus,
        submit: Submit,
        cards: Cards,
        *,
        dropped: Callable[[str], None],
        unix_ms: Callable[[], int],
    ) -> None:
        self._bus = bus
        self._submit = submit
        self._cards = cards
        self._dropped = dropped
        self._unix_ms = unix_ms

    async def follow_nodes(self) -> None:
        await self._follow(subjects.INVENTORY_BUCKET, self._node_event)

    async def follow_verdicts(self) -> None:
        await self._follow(subjects.VERDICTS_BUCKET, self._verdict_event)

    async def _follow(self, bucket: str, read: Callable[[Change], Event | None]) -> None:
        async with aclosing(self._bus.follow(bucket)) as changes:
            async for change in changes:
                try:
                    event = read(change)
                except BadRequest as error:
                    self._dropped(bucket)
                    log.warning("message.dropped", bucket=bucket, error=str(error))
                    continue
                if isinstance(event, InventorySeen):
                    self._cards.set(event.inventory.node, event.inventory.cards)
                if event is not None:
                    await self._submit(event)

    def _node_event(self, change: Change) -> Event | None:
        match change:
            case Upserted(entry=entry):
                return self._read_node_entry(entry)
            case Deleted(key=key):
                kind, node = subjects.parse_node_key(key)
                return InventoryGone(node) if kind == subjects.INVENTORY else None
            case _:  # a bucket made anew says nothing; agents write again, and silence is noticed
                return None

    def _verdict_event(self, change: Change) -> Event | None:
        match change:
            case Upserted(entry=entry):
                node, card = subjects.parse_verdict_key(entry.key)
                verdict = verdict_in(entry.value)
                if (verdict.node, verdict.card) != (node, card):
                    raise BadRequest(f"{entry.key} holds a verdict on {verdict.node}/{verdict.card}")
                return VerdictSeen(verdict)
            case Deleted(key=key):
                return VerdictGone(*subjects.parse_verdict_key(key))
            case _:
                return None

    def _read_node_entry(self, entry: Entry) -> Event:
        kind, node = subjects.parse_node_key(entry.key)
        said: InventorySeen | HeartbeatSeen | OccupancySeen
        if kind == subjects.INVENTORY:
            said = InventorySeen(inventory_in(entry.value))
            about = said.inventory.node
        elif kind == subjects.HEARTBEAT:
            said = self._heartbeat(entry.value)
            about = said.beat.node
        else:
            said = OccupancySeen(occupancy_in(entry.value))
            about = said.occupancy.node
        if about != node:
            raise BadRequest(f"{entry.key} holds the word of {about}")
        return said

    def _heartbeat(self, value: bytes) -> HeartbeatSeen:
        beat = heartbeat_in(value)
        return HeartbeatSeen(beat, age_s=max(0.0, (self._unix_ms() - beat.at_ms) / 1000))
