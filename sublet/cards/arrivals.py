"""Observations on their way from a source to the agent: bounded, and what does not fit is counted."""

import asyncio
import contextlib
import threading
from collections import Counter, deque
from dataclasses import replace

from sublet.cards.port import Observation
from sublet.model.health import SignalKind
from sublet.model.ids import CardId
from sublet.model.level import SUPPRESSED

LIMIT = 1_000


class Backlog:
    """Holds up to `limit` observations. A full one counts an observation on to the waiting one like it; one
    that is like none takes the place of the oldest, and a level `signals_suppressed` later says how many of
    its card were left out."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._waiting: deque[list[Observation]] = deque()
        self._newest: dict[tuple[object, ...], list[Observation]] = {}
        self._left_out: Counter[CardId | None] = Counter()

    def put(self, observation: Observation) -> None:
        key = _key(observation)
        if len(self._waiting) >= self._limit:
            if (like := self._newest.get(key)) is not None:
                like[0] = replace(observation, count=like[0].count + observation.count)
                return
            oldest = self._oldest()
            self._left_out[oldest.card] += oldest.count
        held = [observation]
        self._waiting.append(held)
        self._newest[key] = held

    def take(self) -> Observation | None:
        """The oldest; what was left out at the end."""
        if self._waiting:
            return self._oldest()
        if self._left_out:
            return suppressed(*self._left_out.popitem())
        return None

    def _oldest(self) -> Observation:
        held = self._waiting.popleft()
        key = _key(held[0])
        if self._newest.get(key) is held:
            del self._newest[key]
        return held[0]


class Arrivals:
    """A backlog that one task of one event loop waits at; `put` may be called in any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int = LIMIT) -> None:
        self._loop = loop
        self._backlog = Backlog(limit)
        self._lock = threading.Lock()
        self._asked = False
        self._arrived = asyncio.Event()
        self._ended = False

    def put(self, observation: Observation) -> None:
        with self._lock:
            self._backlog.put(observation)
            asked, self._asked = self._asked, True
        if not asked:
            self._wake()

    def end(self) -> None:
        """Let `get` return from now on though nothing waits."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be gone before the thread
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> Observation | None:
        """The oldest; waits for one. None after `end`, when there is none."""
        while (found := self._take()) is None and not self._ended:
            await self._arrived.wait()
            self._arrived.clear()
        return found

    def _take(self) -> Observation | None:
        with self._lock:
            found = self._backlog.take()
            self._asked = self._asked and found is not None
        return found


def suppressed(card: CardId | None, count: int) -> Observation:
    """What stands for `count` observations that nobody could hold."""
    return Observation(
        card=card, kind=SignalKind.LEVEL, name=SUPPRESSED, value=str(count), source="agent", count=count
    )


def _key(one: Observation) -> tuple[object, ...]:
    return (one.card, one.kind, one.code, one.name, one.value, one.source, one.gi, one.ci)
