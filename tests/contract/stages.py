"""The buses that pass the contract, each with a hand on its server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT, Layout
from sublet.bus.link import Timing
from sublet.bus.memory import MemoryBus
from sublet.bus.port import Bus
from sublet.demo.natsserver import NatsServer

T = TypeVar("T")

BRISK = Timing(
    attempt_within_s=0.5,
    probe_every_s=0.1,
    probe_within_s=0.3,
    retry_first_s=0.01,
    retry_most_s=0.05,
    missing_retry_s=0.02,
    pull_wait_s=1.0,
    pull_heartbeat_s=0.4,
)


class Stage(Protocol):
    """One bus and the power over what is behind it."""

    bus: Bus

    async def go_down(self) -> None: ...

    async def come_back(self, *, data_lost: bool = False) -> None: ...


class MemoryStage:
    def __init__(self, bus: MemoryBus) -> None:
        self.bus: Bus = bus
        self._memory = bus

    async def go_down(self) -> None:
        self._memory.go_down()

    async def come_back(self, *, data_lost: bool = False) -> None:
        self._memory.come_back(data_lost=data_lost)


class NatsStage:
    def __init__(self, bus: Bus, server: NatsServer) -> None:
        self.bus = bus
        self.server = server

    async def go_down(self) -> None:
        await self.server.kill()
        await reachable(self.bus, False)

    async def come_back(self, *, data_lost: bool = False) -> None:
        if data_lost:
            self.server.lose_data()
        await self.server.start()
        await reachable(self.bus, True)


@asynccontextmanager
async def memory_stage(folder: Path, layout: Layout | None = LAYOUT) -> AsyncIterator[Stage]:
    yield MemoryStage(MemoryBus(layout))


@asynccontextmanager
async def nats_stage(folder: Path, layout: Layout | None = LAYOUT) -> AsyncIterator[NatsStage]:
    server = NatsServer(folder / "nats")
    await server.start()
    try:
        async with open_bus(server.url, name="test", layout=layout, timing=BRISK) as bus:
            await reachable(bus, True)
            yield NatsStage(bus, server)
    finally:
        await server.stop()


async def reachable(bus: Bus, wanted: bool) -> None:
    async with asyncio.timeout(5), aclosing(bus.connections()) as states:
        async for connected in states:
            if connected is wanted:
                return


async def take(source: AsyncGenerator[T, None], count: int) -> list[T]:
    """The next `count` of a source that goes on."""
    taken: list[T] = []
    async with asyncio.timeout(5):
        while len(taken) < count:
            taken.append(await anext(source))
    return taken


@asynccontextmanager
async def running(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """`work` beside the block; it must not end by itself."""
    task = asyncio.create_task(work)
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
