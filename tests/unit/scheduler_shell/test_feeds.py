"""What agents and healthd say becomes events, but only about their own node and card."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from sublet_scheduler.core.events import (
    Event,
    HeartbeatSeen,
    InventoryGone,
    InventorySeen,
    VerdictGone,
    VerdictSeen,
)
from sublet_scheduler.shell.cards import Cards
from sublet_scheduler.shell.feeds import Feeds

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import subjects
from sublet.model.card import Heartbeat
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardGrant, Placement
from sublet.wire.health import verdict_out
from sublet.wire.node import heartbeat_out, inventory_out
from tests.builders import cards, inventory, verdict
from tests.eventually import eventually

NODES = subjects.INVENTORY_BUCKET
VERDICTS = subjects.VERDICTS_BUCKET


@dataclass
class Heard:
    bus: MemoryBus
    known: Cards = field(default_factory=Cards)
    events: list[Event] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.feeds = Feeds(
            self.bus, self.submit, self.known, dropped=self.dropped.append, unix_ms=lambda: 60_000
        )

    async def submit(self, event: Event) -> None:
        self.events.append(event)

    @asynccontextmanager
    async def following(self, loop: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        async def run() -> None:
            await loop()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(run())
            yield
            task.cancel()


@pytest.fixture
async def heard() -> Heard:
    return Heard(MemoryBus(LAYOUT))


async def test_inventories_are_told_and_their_cards_known(heard: Heard) -> None:
    said = inventory("n1", *cards("n1", 2))
    await heard.bus.put(NODES, subjects.inventory_key("n1"), inventory_out(said))
    async with heard.following(heard.feeds.follow_nodes):
        await eventually(lambda: heard.events == [InventorySeen(said)])
        await heard.bus.delete(NODES, subjects.inventory_key("n1"))
        await eventually(lambda: heard.events[1:] == [InventoryGone(NodeName("n1"))])
    grant = CardGrant(card=CardId("n1-1"), index=1, memory_mib=1, core_percent=0)
    found = heard.known.of(Placement(node=NodeName("n1"), containers={"main": (grant,)}))
    assert found == {"n1-1": said.cards[1]}


async def test_a_card_of_which_nobody_told_is_what_its_grant_says() -> None:
    grant = CardGrant(card=CardId("GPU-9"), index=3, memory_mib=1, core_percent=0)
    [found] = Cards().of(Placement(node=NodeName("n1"), containers={"main": (grant,)})).values()
    assert (found.id, found.index, found.memory_mib) == ("GPU-9", 3, None)


async def test_a_heartbeat_is_told_with_its_age_by_both_clocks(heard: Heard) -> None:
    beat = Heartbeat(node=NodeName("n1"), boot_id="b", epoch="e", seq=1, at_ms=20_000)
    ahead = replace(beat, node=NodeName("n2"), at_ms=90_000)
    for one in (beat, ahead):
        await heard.bus.put(NODES, subjects.heartbeat_key(one.node), heartbeat_out(one))
    async with heard.following(heard.feeds.follow_nodes):
        await eventually(
            lambda: heard.events == [HeartbeatSeen(beat, age_s=40.0), HeartbeatSeen(ahead, age_s=0.0)]
        )


async def test_an_agent_that_speaks_for_another_node_is_dropped_and_counted(heard: Heard) -> None:
    lie = inventory_out(inventory("n2", *cards("n2", 1)))
    await heard.bus.put(NODES, subjects.inventory_key("n1"), lie)
    await heard.bus.put(NODES, subjects.occupancy_key("n1"), b"\xff")
    async with heard.following(heard.feeds.follow_nodes):
        await eventually(lambda: heard.dropped == [NODES, NODES])
    assert not heard.events


async def test_verdicts_are_told_unless_they_are_about_another_card(heard: Heard) -> None:
    bad = verdict("n1", "GPU-0", bad=True)
    await heard.bus.put(VERDICTS, subjects.verdict_key("n1", "GPU-0"), verdict_out(bad))
    await heard.bus.put(VERDICTS, subjects.verdict_key("n1", "GPU-1"), verdict_out(bad))
    async with heard.following(heard.feeds.follow_verdicts):
        await eventually(lambda: heard.events == [VerdictSeen(bad)] and heard.dropped == [VERDICTS])
        await heard.bus.delete(VERDICTS, subjects.verdict_key("n1", "GPU-0"))
        await eventually(lambda: heard.events[1:] == [VerdictGone(NodeName("n1"), CardId("GPU-0"))])
