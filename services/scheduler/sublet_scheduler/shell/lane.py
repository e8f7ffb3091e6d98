"""Performs effects beside the engine: several at once, those of one key one after another in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lane(Generic[T]):
    """Work that waits or is being done.

    It has no bound of its own: whoever puts looks at `size` first and says what happens when it is large.
    """

    def __init__(self, *, workers: int, on_done: Callable[[], None]) -> None:
        self._workers = workers
        self._on_done = on_done
        self._waiting: dict[str, deque[T]] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()  # each key at most once
        self.size = 0

    def put(self, key: str, item: T) -> None:
        self.size += 1
        if key in self._waiting:
            self._waiting[key].append(item)
        else:
            self._waiting[key] = deque([item])
            self._ready.put_nowait(key)

    async def run(self, perform: Callable[[T], Awaitable[None]]) -> None:
        """Do the work until cancelled; an error of `perform` ends it."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(perform), name=f"lane-{number}")

    async def _work(self, perform: Callable[[T], Awaitable[None]]) -> None:
        while True:
            key = await self._ready.get()
            items = self._waiting[key]
            await perform(items[0])
            items.popleft()
            self.size -= 1
            if items:
                self._ready.put_nowait(key)
            else:
                del self._waiting[key]
            self._on_done()
