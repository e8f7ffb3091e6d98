"""A gang is whole or absent, whatever happens between the ledger's writes."""

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from sublet_scheduler.core import effects as ef
from sublet_scheduler.core.records import Stage

from sublet.contract import keys
from sublet.model.ids import PodUid
from tests.builders import cards, container, pod, verdict
from tests.unit.scheduler.world import World

STEPS = [
    "member",
    "member",
    "single",
    "store",
    "store",
    "patch",
    "delete",
    "judge",
    "restart",
    "wait",
    "settle",
    "end",
]


def take(world: World, kinds: tuple[type, ...], which: int) -> None:
    """Perform one of the effects that are on their way, out of turn."""
    held = [one for one in world.held if isinstance(one, kinds)]
    if held:
        effect = held[which % len(held)]
        world.held.remove(effect)
        if isinstance(effect, ef.WriteLedger):
            world.store(effect.entry)
        elif isinstance(effect, ef.ReleasePod | ef.MarkWaiting):
            world.patch(effect)


def act(world: World, step: str, which: int, at: int) -> None:
    pods = sorted(world.pods)
    match step:
        case "member":
            size = 2 + which % 2
            gang = {keys.GANG: f"g{size}", keys.GANG_SIZE: str(size)}
            world.create(pod(f"m{at}", container(gpu=1 + which % 2), annotations=gang))
        case "single":
            world.create(pod(f"s{at}", container(gpu_memory=(1 + which) * 2048)))
        case "store":
            take(world, (ef.WriteLedger,), which)
        case "patch":
            take(world, (ef.ReleasePod, ef.MarkWaiting), which)
        case "delete" if pods:
            world.delete(pods[which % len(pods)])
        case "judge":
            world.judge(verdict("n1", f"n1-{which % 2}", bad=at % 2 == 0, seq=at + 2))
        case "restart":
            world.restart()
        case "wait":
            world.wait(31.0)
        case "settle":
            world.hold_writes = world.hold_patches = False
            world.settle()
            world.hold_writes = world.hold_patches = True
        case "end":
            released = [uid for uid in pods if uid in world.released and not world.pods[uid].ended]
            if released:
                uid = released[which % len(released)]
                if world.pods[uid].node is None:
                    world.bind(uid)
                world.change(uid, phase="Failed" if which % 2 else "Succeeded", settled=True)
        case _:
            pass


@pytest.mark.timeout(120)
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=25))
def test_no_member_runs_before_the_ledger_shows_cards_for_all(steps: Sequence[tuple[str, int]]) -> None:
    """`World` refuses such a release. In the end no part of a gang is left holding cards."""
    world = World()
    world.node("n1", *cards("n1", 2))
    world.node("n2", *cards("n2", 2))
    world.hold_writes = world.hold_patches = True
    for at, (step, which) in enumerate(steps):
        act(world, step, which, at)
    world.hold_writes = world.hold_patches = False
    world.settle()
    for _ in range(3):
        world.wait(31.0)
    assert not [uid for uid in world.pods if _holds_in_vain(world, uid)]


def _holds_in_vain(world: World, uid: PodUid) -> bool:
    record = world.engine.state.records[uid]
    return record.stage in (Stage.COMMITTING, Stage.RELEASING, Stage.FENCING)
