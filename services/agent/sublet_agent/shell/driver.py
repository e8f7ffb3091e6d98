"""Feeds the engine one event at a time, so that it needs no locks, and does what it wants, in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count

import structlog

from sublet.model.errors import Unavailable
from sublet_agent.core import event as ev
from sublet_agent.core.engine import Engine
from sublet_agent.core.identity import Identity

log = structlog.get_logger()


class Driver:
    """It keeps the last events as a flight recorder, written to the log when the engine fails.

    `perform` must not wait for the network: what does goes to a loop of its own, so that a
    slow bus never delays a container.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        perform: Callable[[ev.Effect], Awaitable[None]],
        clock: Callable[[], float],
        pulse: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._perform = perform
        self._clock = clock
        self._pulse = pulse
        self._inbox: asyncio.Queue[ev.Event] = asyncio.Queue(maxsize=1_000)  # full: feeds wait
        self._numbers = count(1)
        self._waiting: dict[ev.Ask, asyncio.Future[str]] = {}
        self._recent: deque[tuple[float, ev.Event]] = deque(maxlen=50)

    async def submit(self, event: ev.Event) -> None:
        await self._inbox.put(event)

    def offer(self, event: ev.Event) -> None:
        """Submit from where nothing may wait; a full inbox drops it, which only a hint may risk."""
        try:
            self._inbox.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("event.dropped", kind=type(event).__name__)

    async def ask(self, who: Identity, *, within_s: float) -> None:
        """Return when a container of `who` may start.

        Raises:
            Unavailable: not now, with the reason; or no answer within `within_s` seconds.
        """
        ask = ev.Ask(next(self._numbers))
        answer = self._waiting[ask] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within_s):
                await self.submit(ev.StartAsked(ask, who))
                refusal = await answer
        except TimeoutError:
            raise Unavailable(f"no decision about {who.slot} within {within_s} s") from None
        finally:
            del self._waiting[ask]
        if refusal:
            raise Unavailable(refusal)

    async def run(self) -> None:
        await self._carry_out(self._engine.begin())
        while True:
            event = await self._inbox.get()
            self._pulse()
            await self._carry_out(self._handle(event))

    def _handle(self, event: ev.Event) -> list[ev.Effect]:
        now = self._clock()
        self._recent.append((now, event))
        try:
            return self._engine.handle(event, now=now)
        except Exception:
            log.error("engine.failed", recent=[repr(one) for one in self._recent])
            raise

    async def _carry_out(self, effects: list[ev.Effect]) -> None:
        unkept = False
        for effect in effects:
            if unkept and isinstance(effect, ev.ShowSlots):
                continue  # slots whose specs are not there are not shown
            trouble = await self._try(effect)
            match effect:
                case ev.Started(ask, record):
                    if not trouble:
                        await self._tell(ev.Prepared(record))
                    self._answer(ask, trouble)
                case ev.Refused(ask, reason):
                    self._answer(ask, reason)
                case ev.KeepSlotCount() if trouble:
                    unkept = True
                    await self._tell(ev.SlotsUnkept())
                case ev.KeepVerdicts() if trouble:
                    await self._tell(ev.VerdictsUnkept())
                case _:
                    pass

    async def _try(self, effect: ev.Effect) -> str:
        """Perform it; what went wrong, empty for nothing."""
        try:
            await self._perform(effect)
        except OSError as error:
            log.error("effect.failed", kind=type(effect).__name__, error=str(error))
            return f"the agent could not write what it needs: {error}"
        return ""

    async def _tell(self, event: ev.Event) -> None:
        """Let the engine know what became of an effect before it hears of anything else."""
        await self._carry_out(self._handle(event))

    def _answer(self, ask: ev.Ask, refusal: str) -> None:
        """`refusal` is empty for yes."""
        waiting = self._waiting.get(ask)
        if waiting is not None and not waiting.done():
            waiting.set_result(refusal)
