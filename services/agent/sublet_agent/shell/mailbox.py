"""Hand one value from loop to loop: the newest wins, so it never fills."""

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    def __init__(self) -> None:
        self._values: list[T] = []
        self._arrived = asyncio.Event()

    def put(self, value: T) -> None:
        self._values = [value]
        self._arrived.set()

    async def take(self) -> T:
        await self._arrived.wait()
        self._arrived.clear()
        return self._values.pop()
