"""Lanes: order within a key, none between keys."""

import asyncio

import pytest
from sublet_scheduler.shell.lane import Lane

from tests.eventually import eventually


async def test_work_of_one_key_is_done_in_order_and_another_key_overtakes_it() -> None:
    lane: Lane[str] = Lane(workers=2, on_done=lambda: None)
    gate = asyncio.Event()
    done: list[str] = []

    async def perform(item: str) -> None:
        if item == "a1":
            await gate.wait()
        done.append(item)

    for key, item in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        lane.put(key, item)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(lane.run(perform))
        await eventually(lambda: done == ["b1"])
        gate.set()
        await eventually(lambda: done == ["b1", "a1", "a2"] and lane.size == 0)
        running.cancel()


async def test_no_more_is_done_at_once_than_there_are_workers() -> None:
    lane: Lane[int] = Lane(workers=3, on_done=lambda: None)
    at_once = most = 0

    async def perform(_: int) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    for number in range(20):
        lane.put(str(number), number)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(lane.run(perform))
        await eventually(lambda: lane.size == 0)
        running.cancel()
    assert most == 3


async def test_an_error_of_the_work_ends_the_lane() -> None:
    lane: Lane[int] = Lane(workers=1, on_done=lambda: None)

    async def perform(_: int) -> None:
        raise ValueError("broken")

    lane.put("a", 1)
    with pytest.raises(ExceptionGroup) as caught:
        await lane.run(perform)
    assert caught.group_contains(ValueError, match="broken")
