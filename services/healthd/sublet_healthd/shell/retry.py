"""Tries until it works: what must be written is never given up, only delayed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from sublet.kube.errors import Throttled
from sublet.model.errors import NotFound, SubletError, Unavailable

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Doubling from `first_s` to `most_s`."""

    first_s: float = 0.5
    most_s: float = 10.0


async def keep_trying(
    what: str,
    step: Callable[[], Awaitable[T]],
    *,
    pauses: Pauses,
    on: tuple[type[SubletError], ...] = (Unavailable, Throttled),
) -> T:
    """Call `step` until it answers with something else than `on`; each call has its own time limit."""
    pause_s = pauses.first_s
    while True:
        try:
            return await step()
        except on as error:
            log.warning("effect.postponed", what=what, error=str(error), pause_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, pauses.most_s)


BUS_AWAY: tuple[type[SubletError], ...] = (Unavailable, NotFound)
"""A bucket that is missing is made anew by the next connection."""
