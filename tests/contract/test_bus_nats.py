"""What only a real server can do to a bus: freeze, be absent at the start, lose an answer."""

import asyncio
import gc
from contextlib import aclosing
from pathlib import Path

import nats
import pytest

from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT, Bucket, Layout
from sublet.bus.port import BusState, Entry, Reset, Synced, Upserted
from sublet.contract import subjects
from sublet.demo.natsserver import NatsServer
from sublet.model.errors import BadRequest, NotFound, Unavailable
from tests.contract.stages import BRISK, nats_stage, reachable, take

pytest_plugins = ["tests.natsserver"]

LEDGER = subjects.LEDGER_BUCKET


async def test_a_frozen_server_is_noticed_and_taken_up_again(tmp_path: Path) -> None:
    async with nats_stage(tmp_path) as stage, aclosing(stage.bus.follow(LEDGER)) as changes:
        assert await take(changes, 1) == [Synced()]
        stage.server.freeze()
        await reachable(stage.bus, False)
        with pytest.raises(Unavailable):
            await stage.bus.get(LEDGER, "node.n1")
        stage.server.thaw()
        revision = await stage.bus.put(LEDGER, "node.n1", b"1", within_s=5)
        assert await take(changes, 1) == [Upserted(entry=Entry(key="node.n1", value=b"1", revision=revision))]


async def test_a_write_whose_answer_was_lost_is_not_taken_for_another_writer(tmp_path: Path) -> None:
    async with nats_stage(tmp_path) as stage:
        revision = await stage.bus.create(LEDGER, "node.n1", b"1")
        stage.server.freeze()
        async with asyncio.TaskGroup() as group:
            write = group.create_task(
                stage.bus.update(LEDGER, "node.n1", b"2", revision, within_s=8), name="write"
            )
            await reachable(stage.bus, False)  # the first attempt is in the server's socket by now
            stage.server.thaw()
        entry = await stage.bus.get(LEDGER, "node.n1", within_s=8)  # the link may be coming back
        assert entry == Entry(key="node.n1", value=b"2", revision=write.result())
        assert write.result() == revision + 1


async def test_a_bus_that_closes_at_any_moment_of_connecting_leaves_nothing_open(
    nats_server: NatsServer,
) -> None:
    """A socket still open warns when it is collected, and no warning is let pass."""
    for turns in range(60):
        async with open_bus(nats_server.url, name="brief", layout=LAYOUT, timing=BRISK):
            for _ in range(turns):
                await asyncio.sleep(0)
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_bus_opens_before_its_server_is_there(nats_server: NatsServer) -> None:
    await nats_server.kill()
    async with open_bus(nats_server.url, name="early", layout=LAYOUT, timing=BRISK) as bus:
        assert bus.state() == BusState(connected=False, connections=0)
        with pytest.raises(Unavailable, match="no connection"):
            await bus.get(LEDGER, "node.n1")
        async with asyncio.TaskGroup() as group:
            read = group.create_task(bus.get(LEDGER, "node.n1", within_s=5))
            await nats_server.start()
        assert read.result() is None


async def test_a_bucket_created_anew_under_a_living_connection_is_noticed(tmp_path: Path) -> None:
    async with nats_stage(tmp_path) as stage, aclosing(stage.bus.follow(LEDGER)) as changes:
        await stage.bus.put(LEDGER, "node.n1", b"1")
        await take(changes, 2)
        await remove_stream(stage.server.url, f"KV_{LEDGER}")
        async with asyncio.TaskGroup() as group:
            reset = group.create_task(take(changes, 2))
            await stage.bus.ensure_layout(LAYOUT)
        assert reset.result() == [Reset(), Synced()]


async def test_a_layout_refused_by_the_server_does_not_keep_the_bus_down(nats_server: NatsServer) -> None:
    overlapping = LAYOUT.streams[0]
    async with open_bus(nats_server.url, name="first", layout=LAYOUT, timing=BRISK) as bus:
        await reachable(bus, True)
        await remove_stream(nats_server.url, LAYOUT.streams[0].name)
        await make_stream(nats_server.url, "SOMEBODY", list(overlapping.subjects))
    async with open_bus(nats_server.url, name="second", layout=LAYOUT, timing=BRISK) as bus:
        await reachable(bus, True)
        assert await bus.get(LEDGER, "node.n1") is None


async def test_an_error_of_the_block_passes_through_as_it_is(nats_server: NatsServer) -> None:
    async def work() -> None:
        async with open_bus(nats_server.url, name="test", timing=BRISK) as bus:
            await reachable(bus, True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()


async def test_closing_does_not_wait_for_readers(nats_server: NatsServer) -> None:
    clock = asyncio.get_running_loop().time
    async with open_bus(nats_server.url, name="test", layout=LAYOUT, timing=BRISK) as bus:
        async with aclosing(bus.follow(LEDGER)) as changes:
            assert await take(changes, 1) == [Synced()]
        async with aclosing(bus.subscribe(subjects.EVENTS_STREAM, ["sublet.v1.pod.>"], since=0)) as live:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(live)
        began = clock()
    assert clock() - began < 0.5


async def test_a_message_beyond_the_servers_limit_is_the_callers_mistake(nats_server: NatsServer) -> None:
    async with open_bus(nats_server.url, name="test", layout=LAYOUT, timing=BRISK) as bus:
        with pytest.raises(BadRequest, match="bytes"):
            await bus.put(LEDGER, "node.n1", bytes(2 << 20), within_s=5)
        with pytest.raises(BadRequest, match="exceeds maximum"):
            await bus.put(LEDGER, "node.n1", bytes((1 << 20) - 1024), within_s=5)
        with pytest.raises(BadRequest, match="not a key"):
            await bus.put(LEDGER, "node n1", b"", within_s=5)


async def test_a_full_bucket_refuses_and_keeps_what_it_holds(nats_server: NatsServer) -> None:
    small = Bucket(name="small", max_bytes=1500, max_value_bytes=1024, why="a test")
    async with open_bus(
        nats_server.url, name="test", layout=Layout(streams=(), buckets=(small,)), timing=BRISK
    ) as bus:
        await bus.put("small", "a", bytes(900), within_s=5)
        with pytest.raises(Unavailable, match="maximum bytes exceeded"):
            await bus.put("small", "b", bytes(900), within_s=0.2)
        assert await bus.get("small", "a") is not None


async def test_a_server_that_cannot_start_says_where_to_look(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    with pytest.raises(Unavailable, match="never started"):
        _ = server.url
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats" / "data").write_text("a file where a folder belongs")
    with pytest.raises(Unavailable, match=r"server\.log"):
        await server.start()


async def remove_stream(url: str, name: str) -> None:
    await _ask(url, f"$JS.API.STREAM.DELETE.{name}", b"")


async def make_stream(url: str, name: str, wanted: list[str]) -> None:
    body = f'{{"name": "{name}", "subjects": {str(wanted).replace(chr(39), chr(34))}}}'
    await _ask(url, f"$JS.API.STREAM.CREATE.{name}", body.encode())


async def _ask(url: str, api: str, body: bytes) -> None:
    """An operator's own hand on the server, beside the bus."""
    client = await nats.connect(url, allow_reconnect=False)
    answer = await client.request(api, body, timeout=2)
    await client.close()
    if b'"error"' in answer.data:
        raise NotFound(answer.data.decode())


async def test_a_bus_that_is_closed_while_it_connects_is_closed(nats_server: NatsServer) -> None:
    """Whatever the connection waits for just then: a cancel that meets an answer must not be lost."""
    for turns in range(60):
        async with asyncio.timeout(2), open_bus(nats_server.url, name="hasty", timing=BRISK):
            for _ in range(turns):
                await asyncio.sleep(0)
