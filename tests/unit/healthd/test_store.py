"""Verdicts have one writer: whoever takes over fences the one before."""

from dataclasses import replace

import pytest
from sublet_healthd.shell.retry import Pauses
from sublet_healthd.shell.store import Superseded, VerdictStore

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import subjects
from sublet.model.health import HealthState, Verdict
from sublet.wire.health import verdict_in
from tests.unit.healthd.words import NODE, A, B

QUICK = Pauses(first_s=0.01, most_s=0.01)
HEALTHY = Verdict(node=NODE, card=A, state=HealthState.HEALTHY, schedulable=True, withheld=False, seq=1)
ILL = Verdict(node=NODE, card=A, state=HealthState.CONDEMNED, schedulable=False, withheld=False, seq=2)


async def stored(bus: MemoryBus, card: str = A) -> Verdict:
    entry = await bus.get(subjects.VERDICTS_BUCKET, subjects.verdict_key(NODE, card))
    assert entry is not None
    return verdict_in(entry.value)


async def test_after_a_take_over_the_one_before_writes_nothing_again() -> None:
    bus = MemoryBus(LAYOUT)
    before, after = VerdictStore(bus, pauses=QUICK), VerdictStore(bus, pauses=QUICK)
    await before.take_over()
    await before.write(HEALTHY)
    assert [one.seq for one in await after.take_over()] == [1]
    with pytest.raises(Superseded):
        await before.write(ILL)
    await after.write(ILL)
    assert ((await stored(bus)).seq, (await stored(bus)).term) == (2, 2)


async def test_a_last_word_of_the_one_before_on_a_new_card_is_written_over() -> None:
    bus = MemoryBus(LAYOUT)
    before, after = VerdictStore(bus, pauses=QUICK), VerdictStore(bus, pauses=QUICK)
    await before.take_over()
    await before.write(HEALTHY)
    await after.take_over()
    late = Verdict(node=NODE, card=B, state=HealthState.HEALTHY, schedulable=True, withheld=False)
    await before.write(late)
    await after.write(Verdict(node=NODE, card=B, state=HealthState.LOST, schedulable=False, withheld=False))
    assert (await stored(bus, B)).state is HealthState.LOST


async def test_without_an_election_what_another_process_wrote_ends_this_one() -> None:
    bus = MemoryBus(LAYOUT)
    one, other = VerdictStore(bus, pauses=QUICK), VerdictStore(bus, pauses=QUICK)
    await one.load()
    await one.write(HEALTHY)
    await other.load()
    await other.write(ILL)
    with pytest.raises(Superseded):
        await one.write(Verdict(node=NODE, card=A, state=HealthState.HELD, schedulable=False, withheld=False))


async def test_a_verdict_that_is_dropped_leaves_the_bus_and_may_come_again() -> None:
    bus = MemoryBus(LAYOUT)
    store = VerdictStore(bus, pauses=QUICK)
    await store.write(ILL)
    await store.drop(ILL)
    assert await store.load() == []
    await store.drop(ILL)
    await store.write(ILL)
    assert [one.card for one in await store.load()] == [ILL.card]


async def test_a_verdict_that_another_wrote_is_not_dropped() -> None:
    bus = MemoryBus(LAYOUT)
    one, other = VerdictStore(bus, pauses=QUICK), VerdictStore(bus, pauses=QUICK)
    await one.write(ILL)
    await other.load()
    await other.write(replace(ILL, seq=ILL.seq + 1))
    with pytest.raises(Superseded):
        await one.drop(ILL)
