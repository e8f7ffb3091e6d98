"""The ledger on the bus: terms, fences, unclear writes, and a bus that goes and comes back empty."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from sublet_scheduler.core.effects import WriteLedger
from sublet_scheduler.core.events import (
    Event,
    LedgerListed,
    LedgerLost,
    LedgerSeen,
    LedgerWriteFailed,
    LedgerWritten,
)
from sublet_scheduler.shell.driver import SteppedDown
from sublet_scheduler.shell.ledger import Ledger

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract.subjects import LEDGER_BUCKET, LEDGER_META_KEY, ledger_key
from sublet.model.errors import Unavailable
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import LedgerMeta, NodeLedger
from sublet.wire.ledger import ledger_meta_in, ledger_meta_out, node_ledger_out
from tests.eventually import eventually

N1 = NodeName("n1")


class LossyBus(MemoryBus):
    """Loses the next requests, or the answers to them."""

    lose_requests = 0
    lose_answers = 0

    async def update(
        self, bucket: str, key: str, value: bytes, revision: int, *, within_s: float | None = None
    ) -> int:
        self._arrived()
        stored = await super().update(bucket, key, value, revision, within_s=within_s)
        return self._answered(stored)

    async def create(self, bucket: str, key: str, value: bytes, *, within_s: float | None = None) -> int:
        self._arrived()
        stored = await super().create(bucket, key, value, within_s=within_s)
        return self._answered(stored)

    def _arrived(self) -> None:
        if self.lose_requests:
            self.lose_requests -= 1
            raise Unavailable("the request was lost")

    def _answered(self, revision: int) -> int:
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable("the answer was lost")
        return revision


@dataclass
class Watched:
    bus: LossyBus
    events: list[Event] = field(default_factory=list)
    conflicts: int = 0
    newest: WriteLedger | None = None
    rebuilt: asyncio.Event = field(default_factory=asyncio.Event)
    rebuilt_term: int = 1

    def __post_init__(self) -> None:
        self.ledger = Ledger(
            self.bus,
            self.submit,
            self.events.append,
            rebuilt=self.rebuilt,
            rebuilt_under=lambda term: self.rebuilt.is_set() and term == self.rebuilt_term,
            is_awaited=lambda write: write is self.newest,
            conflicted=self.conflicted,
        )

    async def submit(self, event: Event) -> None:
        self.events.append(event)

    def conflicted(self) -> None:
        self.conflicts += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        loops = (self.ledger.follow, self.ledger.hold, self.ledger.complete)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop()) for loop in loops]
            yield
            for task in tasks:
                task.cancel()

    async def until(self, holds: Callable[[Event], bool]) -> Event:
        await eventually(lambda: any(holds(event) for event in self.events))
        return next(event for event in self.events if holds(event))

    async def listed(self) -> LedgerListed:
        found = await self.until(lambda event: isinstance(event, LedgerListed))
        assert isinstance(found, LedgerListed)
        return found

    async def meta(self) -> LedgerMeta:
        entry = await self.bus.get(LEDGER_BUCKET, LEDGER_META_KEY)
        assert entry is not None
        return ledger_meta_in(entry.value)

    async def write(self, entry: NodeLedger) -> Event:
        before = len(self.events)
        self.newest = WriteLedger(entry)
        await self.ledger.write(self.newest)
        return next(e for e in self.events[before:] if isinstance(e, LedgerWritten | LedgerWriteFailed))


@pytest.fixture
async def watched() -> Watched:
    return Watched(LossyBus(LAYOUT))


def entry(*, term: int = 1, revision: int = 0, closed: str = "") -> NodeLedger:
    cards = (CardId(closed),) if closed else ()
    return NodeLedger(node=N1, term=term, revision=revision, closed=cards)


async def put(watched: Watched, one: NodeLedger) -> int:
    return await watched.bus.put(LEDGER_BUCKET, ledger_key(N1), node_ledger_out(one))


async def put_meta(watched: Watched, meta: LedgerMeta) -> None:
    await watched.bus.put(LEDGER_BUCKET, LEDGER_META_KEY, ledger_meta_out(meta))


async def test_the_first_scheduler_has_term_one_of_an_incomplete_ledger(watched: Watched) -> None:
    async with watched.running():
        assert await watched.listed() == LedgerListed(term=1, complete=False)


async def test_the_next_scheduler_takes_a_higher_term_and_keeps_what_is_complete(watched: Watched) -> None:
    await put_meta(watched, LedgerMeta(epoch="e", complete=True, term=5))
    await put(watched, entry(term=5))
    async with watched.running():
        assert await watched.listed() == LedgerListed(term=6, complete=True)
        seen = [event for event in watched.events if isinstance(event, LedgerSeen)]
        assert seen[0].entry.term == 5
    assert await watched.meta() == LedgerMeta(epoch="e", complete=True, term=6)


async def test_a_lost_answer_to_taking_the_term_only_burns_its_number(watched: Watched) -> None:
    watched.bus.lose_answers = 1
    async with watched.running():
        assert (await watched.listed()).term == 2
    assert (await watched.meta()).term == 2


async def test_the_ledger_is_declared_complete_only_when_it_was_rebuilt(watched: Watched) -> None:
    async with watched.running():
        await watched.listed()
        assert not (await watched.meta()).complete
        watched.rebuilt.set()
        await eventually(lambda: not watched.ledger._incomplete.is_set())
        assert (await watched.meta()).complete


async def test_what_was_rebuilt_under_an_earlier_term_completes_nothing(watched: Watched) -> None:
    """The engine has not heard yet that the bucket was made anew."""
    watched.rebuilt.set()
    async with watched.running():
        await watched.listed()
        await eventually(lambda: not watched.ledger._incomplete.is_set())
        watched.events.clear()
        watched.bus.go_down()
        watched.bus.come_back(data_lost=True)
        assert await watched.listed() == LedgerListed(term=2, complete=False)
        assert not await watched.ledger._declare_complete()
        watched.rebuilt_term = 2
        assert await watched.ledger._declare_complete()


async def test_the_term_is_above_that_of_every_entry(watched: Watched) -> None:
    """An older scheduler still wrote when the bucket had been made anew."""
    await put(watched, entry(term=7))
    async with watched.running():
        assert await watched.listed() == LedgerListed(term=8, complete=False)
    assert (await watched.meta()).term == 8


async def test_a_write_is_stored_at_the_revision_it_was_made_for(watched: Watched) -> None:
    made = await watched.write(entry())
    assert isinstance(made, LedgerWritten)
    changed = await watched.write(entry(revision=made.revision, closed="GPU-0"))
    assert isinstance(changed, LedgerWritten)
    assert changed.revision > made.revision


async def test_a_write_that_somebody_beat_fails_with_what_stands_there(watched: Watched) -> None:
    revision = await put(watched, entry(closed="GPU-1"))
    failed = await watched.write(entry(closed="GPU-0"))
    assert failed == LedgerWriteFailed(N1, entry(closed="GPU-1", revision=revision))
    assert watched.conflicts == 1


async def test_a_write_whose_answer_was_lost_counts_as_what_it_was(watched: Watched) -> None:
    watched.bus.lose_answers = 1
    assert isinstance(await watched.write(entry()), LedgerWritten)


async def test_a_write_that_did_not_arrive_fails_with_what_stands_there(watched: Watched) -> None:
    watched.bus.lose_requests = 1
    assert await watched.write(entry()) == LedgerWriteFailed(N1, NodeLedger(node=N1, term=0))


async def test_the_outcome_of_a_write_that_the_engine_gave_up_is_not_told(watched: Watched) -> None:
    given_up = watched.newest = WriteLedger(entry())
    watched.bus.go_down()
    async with asyncio.TaskGroup() as group:
        group.create_task(watched.ledger.write(given_up))
        await asyncio.sleep(0)
        watched.newest = WriteLedger(entry(closed="GPU-0"))
        watched.bus.come_back()
    await watched.ledger.write(given_up)
    assert not watched.events


async def test_an_entry_of_a_younger_scheduler_ends_this_one(watched: Watched) -> None:
    async with watched.running():
        await watched.listed()
        await put(watched, entry(term=9))
        with pytest.raises(SteppedDown, match="term 9"):
            await watched.write(entry())


async def test_a_younger_scheduler_in_the_meta_entry_ends_this_one(watched: Watched) -> None:
    async def overtaken() -> None:
        async with watched.running():
            await watched.listed()
            meta = await watched.meta()
            await put_meta(watched, LedgerMeta(epoch=meta.epoch, complete=False, term=8))
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await overtaken()
    assert caught.group_contains(SteppedDown, match="term 8")


async def test_a_bus_that_comes_back_is_taken_over_again_under_the_same_term(watched: Watched) -> None:
    async with watched.running():
        await watched.listed()
        watched.events.clear()
        watched.bus.go_down()
        await watched.until(lambda event: event == LedgerLost())
        watched.bus.come_back()
        assert (await watched.listed()).term == 1


async def test_a_bucket_made_anew_is_another_ledger(watched: Watched) -> None:
    async with watched.running():
        await watched.listed()
        before = await watched.meta()
        watched.events.clear()
        watched.bus.go_down()
        watched.bus.come_back(data_lost=True)
        assert await watched.listed() == LedgerListed(term=2, complete=False)
        assert (await watched.meta()).epoch != before.epoch


async def test_an_entry_that_is_not_what_its_key_says_is_not_told(watched: Watched) -> None:
    other = NodeLedger(node=NodeName("n2"), term=1)
    await watched.bus.put(LEDGER_BUCKET, ledger_key(N1), node_ledger_out(other))
    await watched.bus.put(LEDGER_BUCKET, ledger_key("n3"), b"\xff")
    async with watched.running():
        await watched.listed()
    assert not [event for event in watched.events if isinstance(event, LedgerSeen)]
