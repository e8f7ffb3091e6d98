"""Run a service's loops side by side until it is told to stop; no loop is ever lost silently."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from sublet.model.errors import LoopEnded

Loop = Callable[[], Awaitable[None]]

log = structlog.get_logger()


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set; call it inside the running loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def serve(
    loops: Mapping[str, Loop], *, stop: asyncio.Event, drain: Sequence[Callable[[], Awaitable[None]]] = ()
) -> None:
    """Run every loop until `stop` is set, then call `drain` in order, then end the loops.

    `drain` is where a service becomes not ready, stops to accept and finishes what is in flight.
    If a loop raises or returns early, the others are cancelled and an ExceptionGroup says which.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_forever(name, loop), name=name) for name, loop in loops.items()]
        log.info("service.started", loops=sorted(loops))
        await stop.wait()
        log.info("service.stopping")
        for step in drain:
            await step()
        for task in tasks:
            task.cancel()
    log.info("service.stopped")


async def _forever(name: str, loop: Loop) -> None:
    await loop()
    raise LoopEnded(f"loop {name!r} returned", hint="It must run until it is cancelled")


async def every(seconds: float, step: Loop, *, first_at_once: bool = True) -> None:
    """Call `step` every `seconds`, for ever; the pause is counted from the end of a step."""
    if not first_at_once:
        await asyncio.sleep(seconds)
    while True:
        await step()
        await asyncio.sleep(seconds)
