"""The public subscriber on a real nats-server, and its parts on the twin."""

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

import sublet.client
from sublet.bus.events import publish_event
from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.bus.port import Bus
from sublet.client import PublicEvent
from sublet.client.subscriber import read_events
from sublet.contract import cloudevents, subjects
from sublet.demo.natsserver import NatsServer
from sublet.model.errors import BadRequest, Unavailable
from tests.contract.stages import BRISK, reachable, take

pytest_plugins = ["tests.natsserver"]

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


async def tell(
    bus: Bus, sequence: int, *, kind: str = "health", node: str = "n.1", card: str = "GPU-1"
) -> None:
    event = cloudevents.describe(
        kind, "changed", event_id=f"{card}-{sequence}", node=node, about=card, time=NOON, sequence=sequence
    )
    body = json.dumps({"seq": sequence}).encode()
    await publish_event(bus, subjects.subject(kind, node, card), event, body, within_s=5)


async def test_an_event_arrives_as_it_was_published() -> None:
    bus = MemoryBus(LAYOUT)
    await tell(bus, 1)
    await tell(bus, 1)
    async with aclosing(read_events(bus, ["sublet.v1.*.*.*"], since=0, follow=False)) as events:
        assert [event async for event in events] == [
            PublicEvent(
                id="GPU-1-1",
                type="dev.sublet.health.changed.v1",
                source="/cluster/-/node/n.1",
                subject="GPU-1",
                time=NOON,
                sequence=1,
                position=1,
                kind="health",
                node=subjects.parse_subject("sublet.v1.health.n_1.GPU-1").node,
                card=subjects.parse_subject("sublet.v1.health.n_1.GPU-1").card,
                data={"seq": 1},
                traceparent="00-53cc2b8c6a9350a403325d57277ef641-53cc2b8c6a9350a4-00",
            )
        ]


async def test_what_is_not_an_event_is_skipped() -> None:
    bus = MemoryBus(LAYOUT)
    headers = cloudevents.to_headers(
        cloudevents.describe("pod", "held", event_id="1", node=None, about="ns/p", time=NOON, sequence=1)
    )
    await bus.publish("sublet.v1.pod.n1.-", b"{}", once_id="no headers")
    await bus.publish("sublet.v1.pod.n1.-", b"{", once_id="no json", headers=headers)
    await bus.publish("sublet.v1.pod.n1.-", b"[]", once_id="no object", headers=headers)
    await bus.publish("sublet.v1.pod.-.-", b"{}", once_id="good", headers=headers)
    async with aclosing(read_events(bus, ["sublet.v1.pod.*.*"], since=0, follow=False)) as events:
        assert [(event.position, event.node, event.card) async for event in events] == [(4, None, None)]


async def test_the_filters_choose_kind_node_and_card(nats_server: NatsServer) -> None:
    async with open_bus(nats_server.url, name="test", layout=LAYOUT, timing=BRISK) as bus:
        await tell(bus, 1)
        await tell(bus, 2, kind="card")
        await tell(bus, 3, node="n2")
        await tell(bus, 4, card="GPU-2")

    async def read(**wanted: str) -> list[int]:
        kinds = [wanted.pop("kind")] if "kind" in wanted else None
        found = sublet.client.events(nats_server.url, kinds=kinds, **wanted, since=0, follow=False)
        return [event.sequence async for event in found]

    assert await read() == [1, 2, 3, 4]
    assert await read(kind="health") == [1, 3, 4]
    assert await read(node="n.1") == [1, 2, 4]
    assert await read(kind="health", node="n.1", card="GPU-1") == [1]


async def test_a_subscriber_goes_on_after_a_restart_without_loss_or_repetition(
    nats_server: NatsServer,
) -> None:
    async with (
        open_bus(nats_server.url, name="test", layout=LAYOUT, timing=BRISK) as bus,
        aclosing(sublet.client.events(nats_server.url, kinds=["health"], since=0)) as events,
    ):
        await tell(bus, 1)
        await tell(bus, 2)
        seen = await take(events, 1)
        await nats_server.kill()
        await reachable(bus, False)
        await nats_server.start()
        await tell(bus, 3)
        seen += await take(events, 2)
        assert [event.sequence for event in seen] == [1, 2, 3]
        again = sublet.client.events(nats_server.url, since=seen[1].position, follow=False)
        assert [event.sequence async for event in again] == [3]


async def test_a_reader_that_walks_away_leaves_nothing_behind(nats_server: NatsServer) -> None:
    async with open_bus(nats_server.url, name="test", layout=LAYOUT, timing=BRISK) as bus:
        await tell(bus, 1)
    async for event in sublet.client.events(nats_server.url, since=0):
        assert event.sequence == 1
        break
    left = asyncio.all_tasks() - {asyncio.current_task()}
    _, alive = await asyncio.wait(left, timeout=5) if left else (left, set())
    assert not alive


async def test_a_wrong_question_is_refused_before_anything_is_opened() -> None:
    unknown: tuple[list[str], ...] = (["helth"], [])
    for kinds in unknown:
        with pytest.raises(BadRequest, match="kinds"):
            await anext(sublet.client.events("nats://127.0.0.1:1", kinds=kinds))
    with pytest.raises(BadRequest, match="zone"):
        await anext(sublet.client.events("nats://127.0.0.1:1", since=NOON.replace(tzinfo=None)))


async def test_reading_what_is_stored_needs_a_server(nats_server: NatsServer) -> None:
    await nats_server.kill()
    with pytest.raises(Unavailable, match="no connection"):
        await anext(sublet.client.events(nats_server.url, since=0, follow=False))
