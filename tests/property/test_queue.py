"""Laws of the queue: no pod behind makes those ahead wait longer; no lower priority starves a higher one."""

from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings

from sublet.model.ids import PodUid
from tests.builders import cards, container, pod
from tests.unit.scheduler.world import World

SHAPES: list[dict[str, Any]] = [
    {"gpu_memory": 1024},
    {"gpu_memory": 3 * 1024},
    {"gpu_memory": 6 * 1024, "gpu_core": 40},
    {"gpu_memory": 2048, "cpu": "20"},
    {"gpu_core": 60},
    {"gpu": 1},
    {"gpu": 2},
    {"gpu": 2, "gpu_memory": 5 * 1024},
]
shapes = st.sampled_from(SHAPES)


def fleet() -> World:
    world = World()
    world.node("n1", *cards("n1", 2))
    world.node("n2", *cards("n2", 3), cpu_milli=48_000)
    return world


def create(world: World, name: str, shape: dict[str, Any], priority: int = 0) -> PodUid:
    return world.create(pod(name, container(**shape), priority=priority))


def run_what_is_released(world: World) -> None:
    for uid in list(world.released):
        if uid in world.pods and world.pods[uid].node is None:
            world.bind(uid)


def end(world: World, uid: PodUid) -> None:
    world.change(uid, phase="Succeeded", settled=True)


@pytest.mark.timeout(120)
@settings(max_examples=100, deadline=None)
@given(
    running=st.lists(shapes, min_size=3, max_size=12),
    head=shapes,
    behind=st.lists(st.tuples(shapes, st.integers(-1, 0)), max_size=10),
    seed=st.integers(0, 10**6),
)
def test_who_is_ahead_starts_when_those_it_waited_for_have_left_whoever_came_since(
    running: list[dict[str, Any]], head: dict[str, Any], behind: list[tuple[dict[str, Any], int]], seed: int
) -> None:
    world = fleet()
    for at, shape in enumerate(running):
        create(world, f"a{at}", shape)
    for uid in sorted(world.engine.state.waiting):
        world.delete(uid)
    waits = create(world, "m-head", head)
    plan = world.engine.holds.of(waits)
    assume(plan is not None)
    assert plan is not None
    run_what_is_released(world)
    for at, (shape, priority) in enumerate(behind):
        create(world, f"z{at}", shape, priority)
        run_what_is_released(world)
    leaving = sorted(plan.leaving)
    Random(seed).shuffle(leaving)
    for key in leaving:
        if world.pods[PodUid(key)].gated:
            world.delete(PodUid(key))
        else:
            end(world, PodUid(key))
    assert world.granted(waits)


@pytest.mark.timeout(120)
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(shapes, st.integers(0, 2)), min_size=6, max_size=20), st.integers(0, 10**6))
def test_every_pod_gets_its_turn_while_others_keep_coming(
    asked: list[tuple[dict[str, Any], int]], seed: int
) -> None:
    """Pods end one after another, and for each that ends a small one of the lowest priority arrives."""
    world, dice = fleet(), Random(seed)
    wanted = [create(world, f"m{at}", shape, priority) for at, (shape, priority) in enumerate(asked)]
    seen: set[PodUid] = set()
    for round_ in range(200):
        run_what_is_released(world)
        seen |= world.released.keys()
        if seen >= set(wanted):
            return
        alive = sorted(uid for uid, one in world.pods.items() if one.node and not one.ended)
        end(world, dice.choice(alive))
        create(world, f"z{round_}", {"gpu_memory": 1024}, -1)
    raise AssertionError(f"never placed: {sorted(set(wanted) - seen)}")
