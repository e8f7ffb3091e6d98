"""What a service knows is set aside from garbage collection only while it runs, and only once it is known."""

import asyncio
import gc

from sublet.runtime.garbage import keep_settled
from tests.eventually import eventually


async def test_nothing_is_set_aside_before_the_service_knows_what_stays() -> None:
    known = asyncio.Event()
    task = asyncio.create_task(keep_settled(known.wait))
    try:
        await asyncio.sleep(0)
        assert gc.get_freeze_count() == 0
        known.set()
        await eventually(lambda: gc.get_freeze_count() > 0)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_collector_is_left_as_it_was_found() -> None:
    known = asyncio.Event()
    known.set()
    before = gc.get_threshold()
    task = asyncio.create_task(keep_settled(known.wait))
    await eventually(lambda: gc.get_freeze_count() > 0)
    assert gc.get_threshold() != before
    task.cancel()
    await asyncio.wait([task])

    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
