"""One task owns the engine: it takes events in one order, answers reviews and hands effects out.

Watches `submit`, webhook calls `ask`, performed effects `report`; nobody else touches the engine, so it needs
no locks and what it did can be replayed from what the recorder is told.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import structlog

from sublet.model.errors import SubletError, Unavailable
from sublet.model.ids import DecisionId
from sublet.model.placement import Placement
from sublet.model.reasons import Refusal
from sublet_scheduler.core.effects import Answer, Effect, StepDown
from sublet_scheduler.core.events import Event, ReviewAsked, Tick

log = structlog.get_logger()

INBOX_EVENTS = 1_000
"""When it is full, watches wait: they lag, and lose nothing."""
BREATH_EVENTS = 20
"""Events handled before other tasks get a turn."""


class Deciding(Protocol):
    """The engine as the driver sees it."""

    @property
    def rebuilt(self) -> bool: ...

    def handle(self, event: Event, *, now: float) -> list[Effect]: ...

    @property
    def passing(self) -> bool: ...

    def due(self, now: float) -> float | None: ...


class Recording(Protocol):
    """The flight recorder as the driver sees it."""

    def note(self, now: float, event: Event, effects: list[Effect]) -> None: ...

    def rest(self) -> None: ...


class Outlet(Protocol):
    """Where effects go. While it is `full`, the driver takes no new events but only outcomes of effects;
    it calls `on_room` when an effect is done."""

    on_room: Callable[[], None]

    @property
    def full(self) -> bool: ...

    def put(self, effect: Effect) -> None: ...


class SteppedDown(SubletError):
    """Another scheduler writes the ledger: this process must end."""


class Driver:
    def __init__(
        self,
        engine: Deciding,
        outlet: Outlet,
        *,
        clock: Callable[[], float],
        observe: Callable[[Answer, float], None],
        recorder: Recording,
    ) -> None:
        """`observe` is told of each answer and the seconds it took from its question."""
        self._engine = engine
        self._outlet = outlet
        self._clock = clock
        self._observe = observe
        self._recorder = recorder
        self._inbox: asyncio.Queue[tuple[int, Event]] = asyncio.Queue(maxsize=INBOX_EVENTS)
        self._head: tuple[int, Event] | None = None
        """The first of the inbox, once it was looked at."""
        self._reviews: deque[tuple[int, ReviewAsked]] = deque()  # no more than the webhook has in work
        self._came = 0
        """Numbers what comes: reviews and events keep one order, but in a pass over the queue."""
        self._outcomes: deque[Event] = deque()  # at most one for each effect on its way
        self._asked: dict[DecisionId, asyncio.Future[Answer]] = {}
        self._ticked = False
        """The last event was a Tick; however many more are due, what waits in the inbox comes between."""
        self._wake = asyncio.Event()
        outlet.on_room = self._wake.set
        self.rebuilt = asyncio.Event()
        """Set while the engine knows all that pods and ledger say."""

    async def submit(self, event: Event) -> None:
        self._came += 1
        await self._inbox.put((self._came, event))
        self._wake.set()

    def report(self, event: Event) -> None:
        """The outcome of an effect; taken before anything else, also while the outlet is full."""
        self._outcomes.append(event)
        self._wake.set()

    async def ask(self, review: ReviewAsked, *, within_s: float) -> Answer:
        """Put a review to the engine.

        Raises:
            Unavailable: no answer within `within_s` seconds; a reservation made all the same expires.
        """
        since = self._clock()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[review.decision] = future
        try:
            async with asyncio.timeout(within_s):
                self._came += 1
                self._reviews.append((self._came, review))
                self._wake.set()
                answer = await future
        except TimeoutError:
            raise Unavailable(f"no decision for {review.decision} within {within_s} s") from None
        finally:
            del self._asked[review.decision]
        took_s = self._clock() - since
        self._observe(answer, took_s)
        _log_decision(review, answer, took_s)
        return answer

    async def run(self) -> None:
        handled = 0
        while True:
            event = self._next()
            if event is None:
                await self._rest()
                continue
            self._handle(event)
            handled += 1
            if handled % BREATH_EVENTS == 0 or self._engine.passing:
                await asyncio.sleep(0)

    def _next(self) -> Event | None:
        if self._engine.passing:
            return self._in_a_pass()
        if self._outcomes:
            return self._outcomes.popleft()
        due = self._engine.due(self._clock())
        news = not self._outlet.full and (self._head or self._reviews or not self._inbox.empty())
        if due is not None and due <= self._clock() and not (self._ticked and news):
            self._ticked = True
            return Tick()
        self._ticked = False
        return self._first_come() if news else None

    def _in_a_pass(self) -> Event:
        """Slices of the pass and reviews by turns; all else comes after it, since it would end it at once."""
        self._ticked = not (self._ticked and self._reviews and not self._outlet.full)
        return Tick() if self._ticked else self._reviews.popleft()[1]

    def _first_come(self) -> Event:
        if self._head is None and not self._inbox.empty():
            self._head = self._inbox.get_nowait()
        if self._head is None or (self._reviews and self._reviews[0][0] < self._head[0]):
            return self._reviews.popleft()[1]
        (_, event), self._head = self._head, None
        return event

    async def _rest(self) -> None:
        """Until something comes or is due."""
        self._recorder.rest()
        self._wake.clear()
        now = self._clock()
        due = self._engine.due(now)
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                await self._wake.wait()
        except TimeoutError:
            return

    def _handle(self, event: Event) -> None:
        now = self._clock()
        effects = self._engine.handle(event, now=now)
        self._recorder.note(now, event, effects)
        for effect in effects:
            if isinstance(effect, Answer):
                self._answer(effect)
            elif isinstance(effect, StepDown):
                raise SteppedDown(
                    f"a scheduler of term {effect.term} writes the ledger",
                    hint="Only one may; this one ends and starts anew",
                )
            else:
                self._outlet.put(effect)
        if self._engine.rebuilt:
            self.rebuilt.set()
        else:
            self.rebuilt.clear()

    def _answer(self, answer: Answer) -> None:
        future = self._asked.get(answer.decision)
        if future is not None and not future.done():
            future.set_result(answer)


def _log_decision(review: ReviewAsked, answer: Answer, took_s: float) -> None:
    """The one line of a decision."""
    outcome = answer.outcome
    line = log.bind(
        decision=answer.id,
        pod=str(review.ask.pod),
        dialects=review.ask.dialects,
        dry_run=review.dry_run,
        duration_ms=round(took_s * 1000, 3),
    )
    if isinstance(outcome, Placement):
        line.info("decision.placed", node=outcome.node)
    elif isinstance(outcome, Refusal):
        line.info("decision.refused", code=outcome.code)
    else:
        line.info("decision.held", reasons={str(reason): n for reason, n in outcome.reasons.items()})
