"""What a source has not handed over yet: bounded, in order, and nothing left out in silence."""

import asyncio

from sublet.cards.arrivals import Arrivals, Backlog
from sublet.cards.port import Observation
from sublet.model.health import SignalKind
from sublet.model.ids import CardId
from sublet.model.level import SUPPRESSED

A, B = CardId("GPU-a"), CardId("GPU-b")


def xid(code: int, card: CardId = A) -> Observation:
    return Observation(card=card, kind=SignalKind.XID, code=code)


def taken(backlog: Backlog) -> list[tuple[int | str, int]]:
    found = []
    while (one := backlog.take()) is not None:
        found.append((one.code or one.name, one.count))
    return found


def test_below_its_limit_a_backlog_keeps_each_in_order() -> None:
    backlog = Backlog(4)
    for code in (31, 79, 31):
        backlog.put(xid(code))
    assert taken(backlog) == [(31, 1), (79, 1), (31, 1)]


def test_a_full_backlog_counts_on_to_the_newest_one_alike() -> None:
    backlog = Backlog(3)
    for code in (31, 79, 31, 31, 79):
        backlog.put(xid(code))
    assert taken(backlog) == [(31, 1), (79, 2), (31, 2)]


def test_what_is_left_out_is_told_with_its_number() -> None:
    backlog = Backlog(2)
    for code in (1, 2, 3, 4):
        backlog.put(xid(code))
    assert taken(backlog) == [(3, 1), (4, 1), (SUPPRESSED, 2)]


async def test_threads_may_put_while_a_loop_waits() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())

    def put_all() -> None:
        for code in range(1, 101):
            arrivals.put(xid(code))

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(put_all))
        found = [await arrivals.get() for _ in range(100)]
    assert [one and one.code for one in found] == list(range(1, 101))


async def test_after_the_end_nobody_waits_any_more() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    arrivals.put(xid(1))
    arrivals.end()
    assert await arrivals.get() == xid(1)
    assert await arrivals.get() is None
    assert await arrivals.get() is None
