"""One task owns the engine: events in one order, timers at their time, effects to the outbox."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

import structlog

from sublet.model.ids import NodeName
from sublet.runtime.clock import monotonic_s
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import BreakerChanged, CardEffect, Effect, Event, Unnamed
from sublet_healthd.core.judge import Tick
from sublet_healthd.shell.outbox import Outbox

log = structlog.get_logger()

INBOX_EVENTS = 1_000
"""When it is full, feeds wait: they lag, and lose nothing."""
RECENT_EVENTS = 2_000
BREATH_EVENTS = 20
"""Events handled before other tasks get a turn."""

Observe = Callable[[Event, Sequence[Effect], float], None]
"""Told the event, what came of it, and how many seconds the judge took."""


class Driver:
    """`recent` is the flight recorder."""

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        *,
        unix_ms: Callable[[], int],
        observe: Observe,
        breaker: Callable[[BreakerChanged], None],
    ) -> None:
        self._engine = engine
        self._breaker = breaker
        self._outbox = outbox
        self._unix_ms = unix_ms
        self._observe = observe
        self._inbox: asyncio.Queue[tuple[Event, asyncio.Future[None] | None]] = asyncio.Queue(
            maxsize=INBOX_EVENTS
        )
        self.recent: deque[tuple[int, Event, list[Effect]]] = deque(maxlen=RECENT_EVENTS)

    async def submit(self, event: Event) -> None:
        await self._inbox.put((event, None))

    async def settle(self, event: Event) -> None:
        """Hand an event in and return when a verdict that it changed is stored."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._inbox.put((event, done))
        await done

    async def run(self) -> None:
        handled = 0
        while True:
            due_ms, now_ms = self._engine.due_ms(), self._unix_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._handle(Tick(), None)
            else:
                try:
                    async with asyncio.timeout(None if due_ms is None else (due_ms - now_ms) / 1000):
                        event, done = await self._inbox.get()
                except TimeoutError:
                    continue
                self._handle(event, done)
            handled += 1
            if handled % BREATH_EVENTS == 0:
                await asyncio.sleep(0)

    def _handle(self, event: Event, done: asyncio.Future[None] | None) -> None:
        now_ms, since_s = self._unix_ms(), monotonic_s()
        effects = self._engine.handle(event, now_ms=now_ms)
        self.recent.append((now_ms, event, effects))
        self._observe(event, effects, monotonic_s() - since_s)
        by_node: defaultdict[NodeName, list[CardEffect]] = defaultdict(list)
        for effect in effects:
            if isinstance(effect, Unnamed):
                log.warning("signal.unnamed", node=effect.signal.node, code=effect.signal.code)
            elif isinstance(effect, BreakerChanged):
                self._breaker(effect)
            else:
                by_node[effect.verdict.node].append(effect)
        last = next(reversed(by_node), None)
        for node, some in by_node.items():
            self._outbox.put(node, some, done=done if node == last else None)
        if last is None and done is not None and not done.done():
            done.set_result(None)
