"""Waits for what another thread or process does, where nothing can be awaited."""

import asyncio
from collections.abc import Callable


async def eventually(holds: Callable[[], bool], *, within_s: float = 5.0) -> None:
    """Return once `holds`; a TimeoutError says that it never did."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110  # nobody sets an event for what C code and threads do
            await asyncio.sleep(0.005)
