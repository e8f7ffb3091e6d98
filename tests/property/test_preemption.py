"""Laws of preemption: who goes is lower and needed, who is guarded stays, and the pod gets its place."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from sublet.model.ids import PodUid
from tests.builders import cards, container, pod
from tests.unit.scheduler.world import World

SHAPES: list[dict[str, Any]] = [
    {"gpu_memory": 2048},
    {"gpu_memory": 5120, "gpu_core": 30},
    {"gpu_memory": 9000},
    {"gpu": 1},
    {"gpu": 2},
    {"gpu_core": 60, "cpu": "20"},
]
shapes = st.sampled_from(SHAPES)


@pytest.mark.timeout(120)
@settings(max_examples=150, deadline=None)
@given(
    running=st.lists(st.tuples(shapes, st.integers(0, 2), st.booleans()), min_size=2, max_size=12),
    wanted=shapes,
    priority=st.integers(1, 3),
)
def test_victims_are_lower_and_needed_and_make_room(
    running: list[tuple[dict[str, Any], int, bool]], wanted: dict[str, Any], priority: int
) -> None:
    world = World()
    world.node("n1", *cards("n1", 2))
    world.node("n2", *cards("n2", 2))
    for at, (shape, rank, guarded) in enumerate(running):
        uid = world.create(pod(f"a{at}", container(**shape), priority=rank))
        if uid in world.released:
            world.bind(uid)
            if guarded:
                world.protected.add(uid)
    for uid in sorted(world.engine.state.waiting):
        if uid in world.pods:  # one that had no node yet may have been evicted for another meanwhile
            world.delete(uid)
    world.terminated()
    world.log.clear()
    high = world.create(pod("high", container(**wanted), priority=priority))
    going = sorted(uid for uid, one in world.pods.items() if one.deleting)
    for uid in going:
        asked = world.pods[uid].ask
        assert asked is not None
        assert asked.priority < priority
        assert uid not in world.protected
    if not going:
        assert high in world.released or not _would_make_room(world, high, priority)
        return
    _all_were_needed(world, high, going)
    world.terminated()
    assert high in world.released


def _would_make_room(world: World, high: PodUid, priority: int) -> bool:
    """Whether the pod would fit if all lower pods went that nothing guards."""
    for uid, one in list(world.pods.items()):
        if one.node and one.ask and one.ask.priority < priority and uid not in world.protected:
            world.change(uid, phase="Failed", settled=True)
            world.delete(uid)
    return high in world.released


def _all_were_needed(world: World, high: PodUid, going: list[PodUid]) -> None:
    """The pod does not fit before the last of them has gone."""
    for uid in going[:-1]:
        world.change(uid, phase="Failed", settled=True)
        world.delete(uid)
        assert high not in world.released
