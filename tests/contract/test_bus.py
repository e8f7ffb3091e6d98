"""What every bus promises; runs on the twin in memory and on a real nats-server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from sublet.bus.layout import LAYOUT, Bucket, Layout
from sublet.bus.port import BucketMissing, Deleted, Entry, Message, Outcome, Reset, Synced, Upserted
from sublet.contract import subjects
from sublet.model.errors import Conflict, Unavailable
from tests.contract.stages import Stage, memory_stage, nats_stage, running, take

LEDGER = subjects.LEDGER_BUCKET
EVENTS = subjects.EVENTS_STREAM
CARD_A = "sublet.v1.health.n1.GPU-a"
CARD_B = "sublet.v1.health.n1.GPU-b"
ALL = ["sublet.v1.health.>"]


@pytest_asyncio.fixture(autouse=True)
async def no_task_is_left_over() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


@pytest_asyncio.fixture(params=[memory_stage, nats_stage], ids=["memory", "nats"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    async with request.param(tmp_path) as made:
        yield made


class Inbox:
    """A handler that keeps what it got and answers as told, then `DONE`."""

    def __init__(self, *answers: Outcome | Unavailable) -> None:
        self._answers = list(answers)
        self._got: asyncio.Queue[Message] = asyncio.Queue()

    async def __call__(self, message: Message) -> Outcome:
        self._got.put_nowait(message)
        answer = self._answers.pop(0) if self._answers else Outcome.DONE
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    async def take(self, count: int) -> list[bytes]:
        async with asyncio.timeout(5):
            return [(await self._got.get()).body for _ in range(count)]

    async def take_until(self, last: bytes) -> list[bytes]:
        taken = await self.take(1)
        while taken[-1] != last:
            taken += await self.take(1)
        return taken


def consume(stage: Stage, inbox: Inbox, *, name: str = "healthd") -> Coroutine[object, object, None]:
    return stage.bus.consume(EVENTS, ALL, name=name, handler=inbox, later_s=0.01)


async def publish(stage: Stage, *bodies: bytes, subject: str = CARD_A) -> None:
    for body in bodies:
        await stage.bus.publish(subject, body, once_id=f"{subject} {body.decode()}")


# messages


async def test_the_same_id_is_stored_once(stage: Stage) -> None:
    for body in (b"x", b"y"):
        await stage.bus.publish(CARD_A, body, once_id="same")
    await publish(stage, b"end")
    inbox = Inbox()
    async with running(consume(stage, inbox)):
        assert await inbox.take(2) == [b"x", b"end"]


async def test_headers_travel_with_the_message(stage: Stage) -> None:
    await stage.bus.publish(CARD_A, b"x", once_id="1", headers={"ce-id": "é%20".encode().hex()})
    async with aclosing(stage.bus.subscribe(EVENTS, ALL, since=0, follow=False)) as stored:
        [message] = [message async for message in stored]
    assert message.headers["ce-id"] == "é%20".encode().hex()
    assert (message.subject, message.body, message.sequence) == (CARD_A, b"x", 1)


async def test_messages_of_one_subject_come_in_order(stage: Stage) -> None:
    bodies = [str(number).encode() for number in range(250)]
    await publish(stage, *bodies)
    inbox = Inbox()
    async with running(consume(stage, inbox)):
        assert await inbox.take(250) == bodies


async def test_a_consumer_gets_only_the_subjects_it_named(stage: Stage) -> None:
    await publish(stage, b"pod", subject="sublet.v1.pod.n1.-")
    await publish(stage, b"health")
    inbox = Inbox()
    async with running(consume(stage, inbox)):
        assert await inbox.take(1) == [b"health"]


async def test_later_means_again(stage: Stage) -> None:
    await publish(stage, b"x")
    inbox = Inbox(Outcome.LATER, Outcome.LATER)
    async with running(consume(stage, inbox)):
        assert await inbox.take(3) == [b"x", b"x", b"x"]


async def test_a_handler_that_cannot_reach_something_gets_the_message_again(stage: Stage) -> None:
    await publish(stage, b"x")
    inbox = Inbox(Unavailable("the API server is away"))
    async with running(consume(stage, inbox)):
        assert await inbox.take(2) == [b"x", b"x"]


async def test_poison_is_counted_and_never_comes_again(stage: Stage) -> None:
    await publish(stage, b"bad", b"good")
    inbox = Inbox(Outcome.POISON)
    async with running(consume(stage, inbox)):
        assert await inbox.take(2) == [b"bad", b"good"]
        assert stage.bus.state().poisoned == {"healthd": 1}
    async with running(consume(stage, inbox)):
        await publish(stage, b"next")
        assert await inbox.take(1) == [b"next"]


async def test_a_consumer_goes_on_where_it_was(stage: Stage) -> None:
    await publish(stage, b"1", b"2")
    first, second = Inbox(), Inbox()
    async with running(consume(stage, first)):
        await first.take(2)
        await publish(stage, b"3")
        await first.take(1)
    await publish(stage, b"4")
    async with running(consume(stage, second)):
        assert (await second.take(1))[0] in (b"3", b"4")  # the last answer may have been on its way
    async with running(consume(stage, other := Inbox(), name="other")):
        assert await other.take(4) == [b"1", b"2", b"3", b"4"]


async def test_a_consumer_outlives_its_server(stage: Stage) -> None:
    inbox = Inbox()
    async with running(consume(stage, inbox)):
        await publish(stage, b"1")
        assert await inbox.take(1) == [b"1"]
        await stage.go_down()
        await stage.come_back()
        await publish(stage, b"2", b"3")
        assert await inbox.take_until(b"3") in ([b"2", b"3"], [b"1", b"2", b"3"])  # at least once


async def test_a_consumer_outlives_the_data_of_its_server(stage: Stage) -> None:
    inbox = Inbox()
    async with running(consume(stage, inbox)):
        await publish(stage, b"1", b"2")
        await inbox.take(2)
        await stage.go_down()
        await stage.come_back(data_lost=True)
        await publish(stage, b"3")
        assert await inbox.take(1) == [b"3"]


async def test_the_lag_of_a_consumer_is_what_it_has_not_seen(stage: Stage) -> None:
    await publish(stage, b"1", b"2", b"3")
    lags: asyncio.Queue[int] = asyncio.Queue()

    async def note_lag(message: Message) -> Outcome:
        lags.put_nowait(stage.bus.state().lag["healthd"])
        return Outcome.DONE

    async with running(stage.bus.consume(EVENTS, ALL, name="healthd", handler=note_lag)):
        async with asyncio.timeout(5):
            assert [await lags.get() for _ in range(3)] == [2, 1, 0]


async def test_an_error_of_a_handler_is_not_hidden(stage: Stage) -> None:
    await publish(stage, b"x")

    async def broken(message: Message) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await stage.bus.consume(EVENTS, ALL, name="healthd", handler=broken)


# outside subscribers


async def test_a_subscriber_reads_what_is_stored_and_ends(stage: Stage) -> None:
    await publish(stage, b"1", b"2", b"3")
    async with aclosing(stage.bus.subscribe(EVENTS, ALL, since=1, follow=False)) as stored:
        assert [(message.sequence, message.body) async for message in stored] == [(2, b"2"), (3, b"3")]
    async with aclosing(stage.bus.subscribe(EVENTS, ["sublet.v1.pod.>"], since=0, follow=False)) as stored:
        assert [message async for message in stored] == []


async def test_a_subscriber_sees_each_message_once_across_a_restart(stage: Stage) -> None:
    await publish(stage, b"1", b"2")
    async with aclosing(stage.bus.subscribe(EVENTS, ALL, since=0)) as live:
        seen = await take(live, 1)
        await stage.go_down()
        await stage.come_back()
        await publish(stage, b"3")
        seen += await take(live, 2)
    assert [message.body for message in seen] == [b"1", b"2", b"3"]


async def test_a_subscriber_reads_a_stream_created_anew_from_its_start(stage: Stage) -> None:
    await publish(stage, b"1", b"2")
    async with aclosing(stage.bus.subscribe(EVENTS, ALL, since=0)) as live:
        await take(live, 2)
        await stage.go_down()
        await stage.come_back(data_lost=True)
        await publish(stage, b"3")
        assert [message.body for message in await take(live, 1)] == [b"3"]


# what is unreachable


async def test_while_the_bus_is_down_everything_says_so_at_once(stage: Stage) -> None:
    await stage.go_down()
    assert not stage.bus.state().connected
    calls: list[Awaitable[object]] = [
        publish(stage, b"x"),
        stage.bus.get(LEDGER, "node.n1"),
        stage.bus.put(LEDGER, "node.n1", b"x"),
        stage.bus.update(LEDGER, "node.n1", b"x", 1),
        stage.bus.entries(LEDGER),
        stage.bus.ensure_layout(LAYOUT),
    ]
    for call in calls:
        async with asyncio.timeout(0.5):
            with pytest.raises(Unavailable):
                await call


async def test_a_publisher_may_wait_for_the_bus_to_come_back(stage: Stage) -> None:
    await stage.go_down()
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.bus.publish(CARD_A, b"x", once_id="1", within_s=5))
        await stage.come_back()
    async with aclosing(stage.bus.subscribe(EVENTS, ALL, since=0, follow=False)) as stored:
        assert [message.body async for message in stored] == [b"x"]


async def test_what_was_acknowledged_survives_a_kill(stage: Stage) -> None:
    await publish(stage, b"1")
    revision = await stage.bus.put(LEDGER, "node.n1", b"grants")
    await stage.go_down()
    await stage.come_back()
    assert await stage.bus.get(LEDGER, "node.n1") == Entry(key="node.n1", value=b"grants", revision=revision)
    assert stage.bus.state().connections == 2


async def test_a_layout_may_be_asked_for_again_and_may_grow(stage: Stage) -> None:
    await stage.bus.put(LEDGER, "node.n1", b"kept")
    extra = Bucket(name="sublet-extra", max_bytes=1 << 20, max_value_bytes=1 << 10, why="a test")
    wider = tuple(replace(bucket, max_bytes=2 * bucket.max_bytes) for bucket in LAYOUT.buckets)
    for layout in (
        LAYOUT,
        replace(LAYOUT, buckets=(*wider, extra)),
        replace(LAYOUT, buckets=(*wider, extra)),
    ):
        await stage.bus.ensure_layout(layout)
    assert await stage.bus.get("sublet-extra", "x") is None
    assert await stage.bus.get(LEDGER, "node.n1") is not None


# keys


async def test_an_absent_key_is_none_and_an_absent_bucket_is_an_error(stage: Stage) -> None:
    assert await stage.bus.get(LEDGER, "node.n1") is None
    for call in (
        stage.bus.get("sublet-nothing", "node.n1"),
        stage.bus.put("sublet-nothing", "node.n1", b""),
        stage.bus.update("sublet-nothing", "node.n1", b"", 1),
        stage.bus.entries("sublet-nothing"),
    ):
        with pytest.raises(BucketMissing):
            await call


async def test_create_takes_only_an_absent_key(stage: Stage) -> None:
    await stage.bus.create(LEDGER, "node.n1", b"1")
    with pytest.raises(Conflict):
        await stage.bus.create(LEDGER, "node.n1", b"2")
    await stage.bus.delete(LEDGER, "node.n1")
    assert await stage.bus.get(LEDGER, "node.n1") is None
    await stage.bus.create(LEDGER, "node.n1", b"3")


async def test_update_takes_only_the_revision_that_was_read(stage: Stage) -> None:
    first = await stage.bus.create(LEDGER, "node.n1", b"1")
    second = await stage.bus.update(LEDGER, "node.n1", b"2", first)
    assert second > first
    with pytest.raises(Conflict):
        await stage.bus.update(LEDGER, "node.n1", b"3", first)
    with pytest.raises(Conflict):
        await stage.bus.delete(LEDGER, "node.n1", revision=first)
    await stage.bus.delete(LEDGER, "node.n1", revision=second)
    with pytest.raises(Conflict):
        await stage.bus.update(LEDGER, "node.n1", b"4", second)
    with pytest.raises(Conflict):
        await stage.bus.delete(LEDGER, "node.n1", revision=second)


async def test_of_many_writers_with_one_revision_one_wins(stage: Stage) -> None:
    revision = await stage.bus.create(LEDGER, "node.n1", b"0")

    async def write(number: int) -> int:
        try:
            await stage.bus.update(LEDGER, "node.n1", str(number).encode(), revision)
        except Conflict:
            return 0
        return number

    won = [number for number in await asyncio.gather(*map(write, range(1, 21))) if number]
    entry = await stage.bus.get(LEDGER, "node.n1")
    assert entry is not None
    assert [str(number).encode() for number in won] == [entry.value]


async def test_of_many_creators_after_a_delete_one_wins(stage: Stage) -> None:
    await stage.bus.create(LEDGER, "node.n1", b"0")
    await stage.bus.delete(LEDGER, "node.n1")

    async def create() -> bool:
        try:
            await stage.bus.create(LEDGER, "node.n1", b"x")
        except Conflict:
            return False
        return True

    assert sorted(await asyncio.gather(*(create() for _ in range(10)))) == [False] * 9 + [True]


async def test_entries_match_by_whole_words(stage: Stage) -> None:
    for key in ("heartbeat.n1", "heartbeat.n10", "inventory.n1", "_meta"):
        await stage.bus.put(LEDGER, key, key.encode())
    assert list(await stage.bus.entries(LEDGER, "heartbeat.*")) == ["heartbeat.n1", "heartbeat.n10"]
    assert list(await stage.bus.entries(LEDGER, "heartbeat.n1")) == ["heartbeat.n1"]
    assert len(await stage.bus.entries(LEDGER)) == 4


async def test_entries_are_complete_while_others_write(stage: Stage) -> None:
    keys = [f"node.n{number}" for number in range(300)]
    await asyncio.gather(*(stage.bus.put(LEDGER, key, b"0") for key in keys))
    stop = asyncio.Event()

    async def rewrite() -> None:
        while not stop.is_set():
            for start in range(0, 300, 50):
                await asyncio.gather(
                    *(stage.bus.put(LEDGER, key, b"1", within_s=5) for key in keys[start : start + 50])
                )
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(rewrite())
        for _ in range(10):
            assert sorted(await stage.bus.entries(LEDGER, within_s=5)) == sorted(keys)
        stop.set()


# following keys


async def test_a_follower_gets_everything_then_each_change(stage: Stage) -> None:
    one = await stage.bus.put(LEDGER, "node.n1", b"1")
    async with aclosing(stage.bus.follow(LEDGER)) as changes:
        entry = Entry(key="node.n1", value=b"1", revision=one)
        assert await take(changes, 2) == [Upserted(entry=entry), Synced()]
        two = await stage.bus.put(LEDGER, "node.n2", b"2")
        assert await take(changes, 1) == [Upserted(entry=Entry(key="node.n2", value=b"2", revision=two))]
        await stage.bus.delete(LEDGER, "node.n1")
        [gone] = await take(changes, 1)
        assert isinstance(gone, Deleted)
        assert gone.key == "node.n1"
        assert gone.revision > two


async def test_a_follower_sees_only_the_keys_it_named(stage: Stage) -> None:
    async with aclosing(stage.bus.follow(LEDGER, "node.n1")) as changes:
        assert await take(changes, 1) == [Synced()]
        await stage.bus.put(LEDGER, "node.n10", b"x")
        revision = await stage.bus.put(LEDGER, "node.n1", b"1")
        assert await take(changes, 1) == [Upserted(entry=Entry(key="node.n1", value=b"1", revision=revision))]


async def test_a_follower_of_many_keys_misses_none_while_they_are_written(stage: Stage) -> None:
    keys = {f"node.n{number}" for number in range(200)}
    async with aclosing(stage.bus.follow(LEDGER)) as changes, asyncio.TaskGroup() as group:
        for key in keys:
            group.create_task(stage.bus.put(LEDGER, key, b"x", within_s=5))
        seen = {change.entry.key for change in await take(changes, 201) if isinstance(change, Upserted)}
    assert seen == keys


async def test_a_follower_learns_what_happened_while_it_was_cut_off(stage: Stage) -> None:
    for key in ("node.n1", "node.n2"):
        await stage.bus.put(LEDGER, key, b"1")
    async with aclosing(stage.bus.follow(LEDGER)) as changes:
        await take(changes, 3)
        await stage.go_down()
        await stage.come_back()
        revision = await stage.bus.put(LEDGER, "node.n2", b"2")
        assert await take(changes, 1) == [Upserted(entry=Entry(key="node.n2", value=b"2", revision=revision))]


async def test_a_follower_is_told_that_a_bucket_was_created_anew(stage: Stage) -> None:
    for number in range(20):
        await stage.bus.put(LEDGER, f"node.n{number}", b"1")
    async with aclosing(stage.bus.follow(LEDGER)) as changes:
        await take(changes, 21)
        await stage.go_down()
        await stage.come_back(data_lost=True)
        assert await take(changes, 2) == [Reset(), Synced()]
        assert await stage.bus.put(LEDGER, "node.n1", b"again") == 1
        assert await take(changes, 1) == [Upserted(entry=Entry(key="node.n1", value=b"again", revision=1))]


async def test_a_follower_waits_for_a_bucket_that_does_not_exist_yet(stage: Stage) -> None:
    extra = Bucket(name="sublet-extra", max_bytes=1 << 20, max_value_bytes=1 << 10, why="a test")
    async with aclosing(stage.bus.follow("sublet-extra")) as changes:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(take(changes, 1))
            await stage.bus.ensure_layout(Layout(streams=(), buckets=(extra,)))
        assert first.result() == [Synced()]


async def test_the_states_of_the_connection_can_be_followed(stage: Stage) -> None:
    async with aclosing(stage.bus.connections()) as states:
        assert await take(states, 1) == [True]
        await stage.go_down()
        assert await take(states, 1) == [False]
        await stage.come_back()
        assert await take(states, 1) == [True]
