"""The scheduler on a real nats-server that is killed or loses its data, and a scheduler that is killed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.client.subscriber import Client
from sublet.contract import keys
from sublet.demo.natsserver import NatsServer
from tests.builders import cards, container, pod
from tests.eventually import eventually
from tests.integration.schedulerstage import Stage, cards_of, stage, uid_of

pytest_plugins = ["tests.natsserver"]


@pytest.fixture
async def on(nats_server: NatsServer) -> AsyncIterator[Stage]:
    async with open_bus(nats_server.url, name="test", layout=LAYOUT) as bus:
        await bus.ensure_layout(LAYOUT, within_s=5)
        async with stage(bus) as built:
            yield built


async def test_a_pod_is_released_and_subscribers_hear_of_it(on: Stage, nats_server: NatsServer) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("p", container(gpu=1)))
        released = await on.released("p")
        [granted] = cards_of(released)["main"]
        heard: list[str] = []
        async with asyncio.timeout(5):
            async for event in Client(nats_server.url).events(kinds=["share"], since=0):
                assert event.card == granted
                heard.append(event.data["what"])
                if event.data["what"] == "released":
                    break
        assert heard == ["committed", "released"]


async def test_pods_are_held_while_the_server_is_dead_and_placed_when_it_is_back(
    on: Stage, nats_server: NatsServer
) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler() as running:
        await on.until_totals("n1")
        await on.create(pod("before", container(gpu=1)))
        await on.released("before")
        await nats_server.kill()
        await eventually(lambda: not on.bus.state().connected)
        held = await on.create(pod("during", container(gpu=1)))
        assert {"name": keys.GATE} in held["spec"]["schedulingGates"]
        assert await running.is_ready()
        await nats_server.start()
        await on.released("during")
        assert cards_of(on.pod("during")) != cards_of(on.pod("before"))


async def test_a_server_that_lost_its_data_gets_the_ledger_back_from_the_pods(
    on: Stage, nats_server: NatsServer
) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("p", container(gpu=1)))
        await on.released("p")
        before, meta = await on.ledger("n1"), await on.until_complete()
        await nats_server.kill()
        nats_server.lose_data()
        await nats_server.start()
        await eventually(lambda: on.bus.state().connections > 1)
        await on.say_inventory("n1", *cards("n1", 2), seq=2)
        after = await on.until_ledger("n1", lambda entry: bool(entry.grants))
        assert after.grants == before.grants
        assert (await on.until_complete()).epoch != meta.epoch


async def test_a_scheduler_killed_again_and_again_under_load_doubles_and_loses_nothing(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 4))
    await on.add_node("n2", *cards("n2", 4))
    names = [f"p{number}" for number in range(16)]

    def released() -> int:
        return sum(not on.is_gated(name) for name in names)

    async with on.scheduler() as running:
        await on.until_totals("n1")
        await on.until_totals("n2")
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(on.create(pod(name, container(gpu_memory=5120))))
        running.task.cancel()
    for wanted in (4, 10):
        async with on.scheduler(ready=False) as running:
            await eventually(lambda wanted=wanted: released() >= wanted)  # type: ignore[misc]
            running.task.cancel()
    async with on.scheduler():
        for name in names:
            await on.released(name)
        used = Counter(cards_of(on.pod(name))["main"] for name in names)
        assert sorted(used.values()) == [2] * 8
        granted = [one.uid for node in ("n1", "n2") for one in (await on.ledger(node)).grants]
        assert sorted(granted) == sorted(uid_of(on.pod(name)) for name in names)
