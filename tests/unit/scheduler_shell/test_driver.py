"""The driver: one order of events, answers in time, and no deadlock when effects pile up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from sublet_scheduler.core.effects import AckRelease, Answer, Effect, StepDown
from sublet_scheduler.core.events import Event, NodeGone, ReviewAsked, Tick
from sublet_scheduler.shell.driver import Driver, SteppedDown

from sublet.model.errors import Unavailable
from sublet.model.ids import DecisionId, NodeName
from sublet.model.placement import NoRoom
from tests.builders import ask
from tests.eventually import eventually

HELD = NoRoom(reasons={})


@dataclass
class Script:
    """An engine that answers as it is told and remembers what it was asked."""

    replies: dict[type[object], list[Effect]] = field(default_factory=dict)
    silent: bool = False
    due_at: float | None = None
    always_due: bool = False
    rebuilt: bool = False
    slices: int = 0
    """So many Ticks a pass over the queue takes; it begins with a NodeGone."""
    passing: bool = False
    seen: list[Event] = field(default_factory=list)

    def handle(self, event: Event, *, now: float) -> list[Effect]:  # noqa: ARG002
        self.seen.append(event)
        if isinstance(event, NodeGone):
            self.passing = self.slices > 0
        if isinstance(event, Tick) and not self.always_due:
            self.due_at = None
        if isinstance(event, Tick):
            self.slices -= 1
            self.passing = self.slices > 0
        if isinstance(event, ReviewAsked) and not self.silent:
            return [Answer(event.decision, event.decision, HELD)]
        return self.replies.get(type(event), [])

    def due(self, now: float) -> float | None:  # noqa: ARG002
        return self.due_at


def _nothing() -> None:
    return


def _unobserved(answer: Answer, took_s: float) -> None:
    return


class Outlet:
    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.put_: list[Effect] = []
        self.on_room: Callable[[], None] = _nothing

    def put(self, effect: Effect) -> None:
        self.put_.append(effect)


@dataclass
class Recorder:
    noted: list[tuple[Event, list[Effect]]] = field(default_factory=list)
    rests: int = 0

    def note(self, now: float, event: Event, effects: list[Effect]) -> None:  # noqa: ARG002
        self.noted.append((event, effects))

    def rest(self) -> None:
        self.rests += 1


def driver(engine: Script, outlet: Outlet | None = None, recorder: Recorder | None = None) -> Driver:
    clock = asyncio.get_running_loop().time
    return Driver(
        engine, outlet or Outlet(), clock=clock, observe=_unobserved, recorder=recorder or Recorder()
    )


def review(decision: str = "d") -> ReviewAsked:
    return ReviewAsked(DecisionId(decision), ask())


async def test_a_question_gets_its_own_answer() -> None:
    engine = Script()
    one = driver(engine)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        answers = [await one.ask(review(name), within_s=2) for name in ("a", "b")]
        running.cancel()
    assert [answer.decision for answer in answers] == ["a", "b"]


async def test_a_question_without_an_answer_in_time_is_unavailable() -> None:
    one = driver(Script(silent=True))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        with pytest.raises(Unavailable, match=r"no decision for d within 0\.01 s"):
            await one.ask(review(), within_s=0.01)
        running.cancel()


async def test_while_the_outlet_is_full_only_outcomes_of_effects_are_taken() -> None:
    engine, outlet = Script(), Outlet(full=True)
    one = driver(engine, outlet)
    news, outcome = NodeGone(NodeName("news")), NodeGone(NodeName("outcome"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        await one.submit(news)
        one.report(outcome)
        await eventually(lambda: engine.seen == [outcome])
        outlet.full = False
        outlet.on_room()
        await eventually(lambda: engine.seen == [outcome, news])
        running.cancel()


async def test_effects_go_out_in_order_and_the_flight_recorder_keeps_their_cause() -> None:
    effects: list[Effect] = [AckRelease(NodeName("a")), AckRelease(NodeName("b"))]
    engine, outlet, recorder = Script(replies={NodeGone: effects}), Outlet(), Recorder()
    one = driver(engine, outlet, recorder)
    event = NodeGone(NodeName("n"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        await one.submit(event)
        await eventually(lambda: outlet.put_ == effects)
        running.cancel()
    assert recorder.noted == [(event, effects)]
    assert recorder.rests > 0


async def test_a_tick_comes_when_the_engine_is_due() -> None:
    engine = Script()
    engine.due_at = asyncio.get_running_loop().time() + 0.02
    one = driver(engine)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        await eventually(lambda: engine.seen == [Tick()])
        running.cancel()


async def test_news_come_between_ticks_that_are_always_due() -> None:
    engine = Script(due_at=0.0, always_due=True)
    one = driver(engine)
    news = [NodeGone(NodeName(name)) for name in ("a", "b")]
    for event in news:
        await one.submit(event)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        await eventually(lambda: len(engine.seen) >= 5)
        running.cancel()
    assert engine.seen[:5] == [Tick(), news[0], Tick(), news[1], Tick()]


async def test_a_younger_scheduler_ends_this_one() -> None:
    one = driver(Script(replies={NodeGone: [StepDown(7)]}))
    await one.submit(NodeGone(NodeName("n")))
    with pytest.raises(SteppedDown, match="term 7"):
        await one.run()


async def test_rebuilt_follows_the_engine() -> None:
    engine = Script()
    one = driver(engine)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        engine.rebuilt = True
        await one.submit(NodeGone(NodeName("n")))
        async with asyncio.timeout(2):
            await one.rebuilt.wait()
        engine.rebuilt = False
        await one.submit(NodeGone(NodeName("n")))
        await eventually(lambda: not one.rebuilt.is_set())
        running.cancel()


async def test_reviews_are_answered_between_the_slices_of_a_pass_and_all_else_after_it() -> None:
    engine = Script(slices=3)
    one = driver(engine)
    begins, news = NodeGone(NodeName("begins")), NodeGone(NodeName("news"))
    await one.submit(begins)
    await one.submit(news)
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(one.ask(review(name), within_s=2)) for name in ("a", "b")]
        await asyncio.sleep(0)
        running = group.create_task(one.run())
        await asyncio.wait(asking)
        await eventually(lambda: engine.seen[-1] == news)
        running.cancel()
    kinds = [type(event).__name__ for event in engine.seen]
    assert kinds == ["NodeGone", "Tick", "ReviewAsked", "Tick", "ReviewAsked", "Tick", "NodeGone"]


async def test_reviews_and_events_keep_the_order_in_which_they_came() -> None:
    engine = Script()
    one = driver(engine)
    async with asyncio.TaskGroup() as group:
        await one.submit(NodeGone(NodeName("first")))
        asking = group.create_task(one.ask(review(), within_s=2))
        await asyncio.sleep(0)
        await one.submit(NodeGone(NodeName("last")))
        running = group.create_task(one.run())
        await asking
        await eventually(lambda: len(engine.seen) == 3)
        running.cancel()
    assert [type(event).__name__ for event in engine.seen] == ["NodeGone", "ReviewAsked", "NodeGone"]
