"""The flight recorder: what an engine was told can be told again, and leads to the same decisions."""

import json
from collections import OrderedDict
from fractions import Fraction
from operator import attrgetter
from typing import Any

import pytest
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.candidates import Index
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.flight.codec import UNREADABLE, from_json, to_json
from sublet_scheduler.core.flight.file import read_flight
from sublet_scheduler.core.flight.image import PARTS, engine_of, image_of
from sublet_scheduler.core.flight.recorder import BEATS, Recorder
from sublet_scheduler.core.flight.replay import Step, replay
from sublet_scheduler.core.ranking import Levels, Ranks
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.shapes import Policies
from sublet_scheduler.core.state import Rules

from sublet.model.card import Heartbeat
from sublet.model.claim import Policy
from sublet.model.errors import BadRequest
from sublet.model.ids import NodeName
from tests.builders import ask, card, container, pod
from tests.unit.scheduler.busy import busy
from tests.unit.scheduler.world import World


def differing(lines: list[str]) -> list[Step]:
    return [step for step in replay(read_flight(lines)) if step.differs]


def made_again(world: World) -> Engine:
    """An engine of what a flight would hold of the world's."""
    image = image_of(world.engine)
    again = {path: from_json(json.loads(json.dumps(to_json(value)))) for path, value in image.items()}
    return engine_of(world.rules, again)


def same(one: Any, other: Any, path: str = "") -> None:
    """Whether two engines remember the same, in the same order, whatever objects they have."""
    assert type(one) is type(other), path
    if isinstance(one, dict):
        assert list(one) == list(other), path
        for key in one:
            same(one[key], other[key], f"{path}[{key!r}]")
    elif isinstance(one, Index):
        same(
            {name: getattr(one, name) for name in one.__slots__},
            {n: getattr(other, n) for n in one.__slots__},
        )
    elif isinstance(one, Levels | Ranks):
        same(vars(one), vars(other), path)
    else:
        assert one == other, path


def test_every_attribute_of_the_engine_is_remembered_or_derived() -> None:
    """Whoever adds one says which, in `core/flight/image.py`."""
    engine = World().engine
    paths = {part.path for part in PARTS}
    for part in PARTS:
        owner = attrgetter(part.path)(engine)
        has = set(getattr(owner, "__dict__", {}) or getattr(owner, "__dataclass_fields__", {}))
        parts = {path.rpartition(".")[2] for path in paths if path.rpartition(".")[0] == part.path}
        known = [attrgetter(path)(engine) for path in paths]
        shared = {name for name in has if any(getattr(owner, name) is one for one in known)}
        assert has - parts - shared == {*part.remembered, *part.derived}, part.path
    assert {path for path in paths if "." not in path} == set(vars(engine))


@pytest.mark.parametrize("policy", Policy)
def test_an_engine_made_of_an_image_remembers_the_same(policy: Policy) -> None:
    world = busy(Rules(policies=Policies(policy, policy)))
    engine = made_again(world)
    for part in PARTS:
        for name in part.remembered:
            path = f"{part.path}.{name}"
            if name != "tables":
                same(attrgetter(path)(world.engine), attrgetter(path)(engine), path)
    assert engine.due(world.now) == world.engine.due(world.now)


@pytest.mark.parametrize("stretch", [20, 10_000])
def test_a_flight_is_told_again_with_the_same_decisions(stretch: int) -> None:
    world = busy(stretch=stretch)
    lines = list(world.recorder.lines())
    steps = list(replay(read_flight(lines)))
    assert any(step.decided for step in steps)
    assert [step for step in steps if step.differs] == []


def test_a_flight_begins_anew_when_it_is_long_and_the_engine_rests() -> None:
    engine = Engine(Rules())
    recorder = Recorder(engine, release="1", events=3)
    for at in range(5):
        recorder.note(0.0, ev.NodeGone(NodeName(f"n{at}")), [])
    recorder.rest()
    assert len(read_flight(recorder.lines()).told) == 5
    for at in range(3):
        recorder.note(0.0, ev.NodeGone(NodeName(f"m{at}")), [])
    recorder.rest()
    assert len(read_flight(recorder.lines()).told) == 3


def test_a_recorder_is_bounded_though_the_engine_never_rests() -> None:
    recorder = Recorder(Engine(Rules()), release="1", events=10)
    for _ in range(1_000):
        recorder.note(0.0, ev.Tick(), [])
        assert len(list(recorder.lines())) < 10 * 4 + 100


def test_heartbeats_fill_a_flight_more_slowly_than_what_decides() -> None:
    engine = Engine(Rules())
    recorder = Recorder(engine, release="1", events=2)
    beat = Heartbeat(node=NodeName("n1"), boot_id="b", epoch="e", seq=1, at_ms=0)
    for _ in range(2 * 2 * BEATS - 1):
        recorder.note(0.0, ev.HeartbeatSeen(beat), [])
    assert len(read_flight(recorder.lines()).told) == 2 * 2 * BEATS - 1


def test_an_engine_that_decides_otherwise_is_shown_where() -> None:
    world = World()
    world.node("n1", card("A"))
    world.create(pod("one"))
    lines = list(world.recorder.lines())
    at = next(number for number, line in enumerate(lines) if '"what":"placed"' in line)
    lines[at] = lines[at].replace('"node":"n1"', '"node":"elsewhere"')
    [step] = differing(lines)
    assert step.event == "ReviewAsked"
    assert (step.was[-1]["node"], step.decided[-1]["node"]) == ("elsewhere", "n1")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda _: [], "the file is empty"),
        (lambda lines: lines[:-1], "the file ends after"),
        (lambda lines: ["{}", *lines], "line 1 names no format"),
        (
            lambda lines: [lines[0].replace('"schema":1', '"schema":9'), *lines[1:]],
            "schema 9 of release 'test'",
        ),
        (lambda lines: [lines[0], "[", *lines[1:]], "line 2 is no part of a flight: it is not JSON"),
        (lambda lines: [lines[0], '{"t":1,"event":{"is":"Engine"}}'], "line 2 .* does not say"),
        (
            lambda lines: [lines[0], '{"t":1,"event":{"is":"events.Tick","x":1}}'],
            "line 2 .* does not say",
        ),
        (lambda lines: [lines[0], '{"t":1,"event":7}'], "line 2 .* does not say"),
        (lambda lines: [line for line in lines if "state.records" not in line], "another's: state.records"),
    ],
)
def test_what_is_no_flight_of_ours_is_refused_with_its_line(spoil: Any, told: str) -> None:
    world = World()
    world.node("n1", card("A"))
    lines = spoil(list(world.recorder.lines()))
    with pytest.raises(BadRequest, match=told):
        list(replay(read_flight(lines)))


@pytest.mark.parametrize(
    "value",
    [None, True, 7, 0.5, float("-inf"), "x", (1, (2,)), [1], {1, 2}, frozenset({"a"}), Fraction(25, 2),
     b"\x00", {("a", 1): {"is": "x"}}, Stage.WAITING, Policy.SPREAD, card("A", links={"B": "nvlink"})],
    ids=repr,
)  # fmt: skip
def test_every_word_is_read_as_it_was_written(value: object) -> None:
    again = from_json(json.loads(json.dumps(to_json(value))))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    "raw",
    [
        {"is": "records.Stage"},
        {"enum": "records.Stage.GONE"},
        {"enum": "ids.PodRef.x"},
        {"a": 1},
        {"is": "os"},
    ],
)
def test_nothing_but_our_own_words_is_ever_made(raw: object) -> None:
    with pytest.raises(UNREADABLE):
        from_json(raw)


def test_a_type_that_no_flight_knows_is_not_written() -> None:
    with pytest.raises(TypeError, match="object is no word"):
        to_json(object())
    assert to_json(OrderedDict(a=1)) == {"map": [["a", 1]]}


@pytest.mark.parametrize("policy", Policy)
def test_an_engine_made_of_an_image_goes_through_the_queue_in_slices_of_the_same_length(
    policy: Policy,
) -> None:
    """What nodes were asked before the image was made costs the pass nothing, here as there."""
    world = World(Rules(policies=Policies(policy, policy)))
    for at in range(12):
        world.node(f"n{at:02}", card(f"c{at}", gib=10))
        world.create(pod(f"full-{at}", container(gpu_memory=8 * 1024)))
    known = pod("waits", container(gpu_memory=4 * 1024))
    world.create(known)
    again = made_again(world)
    for engine in (world.engine, again):
        placer = engine.state.placer
        before = placer.looks
        assert placer.may_find(ask(known), 1)
        assert placer.may_refuse(ask(known), 1, now=world.now)
        assert placer.looks == before
        assert not placer.may_refuse(ask(pod("new", container(gpu_memory=9 * 1024))), 1, now=world.now)
    told = [one.state.placer.place(ask(known), now=world.now) for one in (world.engine, again)]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("written", "damaged", "complaint"),
    [
        (
            '{"memory":"state.limits.used"',
            '{"memory":"state.limits.used","value":7}',
            "is damaged|fails at event",
        ),
        (
            '{"memory":"state.records"',
            '{"memory":"state.records","items":[["u",{"is":"events.Tick"}]]}',
            "is damaged|fails at",
        ),
    ],
)
def test_a_flight_that_was_changed_by_hand_is_refused_with_the_place(
    written: str, damaged: str, complaint: str
) -> None:
    lines = list(busy().recorder.lines())
    kept = [line for line in lines if not line.startswith(written)]
    assert len(kept) < len(lines)
    with pytest.raises(BadRequest, match=complaint):
        list(replay(read_flight([kept[0], damaged, *kept[1:]])))
