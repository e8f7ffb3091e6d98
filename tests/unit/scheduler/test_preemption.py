"""Preemption on cards: who goes for a pod of higher priority, and who does not."""

from typing import Any

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import Rules

from sublet.contract import keys
from sublet.model.ids import PodUid
from sublet.model.reasons import Reason
from tests.builders import card, cards, container, pod
from tests.unit.scheduler.world import World


def fleet(*nodes: int, rules: Rules | None = None) -> World:
    world = World(rules or Rules())
    for at, count in enumerate(nodes, 1):
        world.node(f"n{at}", *cards(f"n{at}", count))
    return world


def gib(amount: int, name: str, priority: int = 0, **spec: Any) -> dict[str, Any]:
    return pod(name, container(gpu_memory=amount * 1024), priority=priority, **spec)


def runs(world: World, manifest: dict[str, Any], created_s: float = 0.0) -> PodUid:
    uid = world.create(manifest, created_s=created_s)
    world.bind(uid)
    return uid


def evicted(world: World) -> list[PodUid]:
    return [uid for effect in world.effects(ef.EvictPods) for uid, _ in effect.victims]


def test_a_lower_pod_is_evicted_and_its_card_goes_to_the_higher_one() -> None:
    world = fleet(1)
    low = runs(world, gib(10, "low"))
    high = world.create(gib(10, "high", 5))
    assert evicted(world) == [low]
    assert world.stage(high) is Stage.WAITING
    world.terminated()
    assert world.granted(high) == ["n1-0"]


def test_the_place_is_held_for_the_pod_that_evicts_until_its_victims_are_gone() -> None:
    world = fleet(1)
    runs(world, gib(6, "low"))
    high = world.create(gib(10, "high", 5))
    other = world.create(gib(4, "other", 1))
    assert world.stage(other) is Stage.WAITING
    world.terminated()
    assert world.granted(high)
    assert world.stage(other) is Stage.WAITING


def test_nobody_is_evicted_twice_or_beyond_need() -> None:
    world = fleet(2)
    for at in range(4):
        runs(world, gib(5, f"low-{at}"))
    world.create(gib(5, "high", 5))
    assert len(evicted(world)) == 1
    world.wait(5)
    world.create(gib(1, "later"))
    assert len(evicted(world)) == 1


def test_equal_and_higher_priorities_are_left_alone() -> None:
    world = fleet(1)
    runs(world, gib(10, "equal", 5))
    world.create(gib(10, "newcomer", 5))
    assert evicted(world) == []


def test_the_fewest_victims_are_chosen() -> None:
    world = fleet(1, 1)
    for at in range(3):
        runs(world, gib(3, f"small-{at}"))
    large = runs(world, gib(9, "large"))
    world.create(gib(8, "high", 5))
    assert evicted(world) == [large]


def test_of_as_many_victims_the_youngest_go() -> None:
    world = fleet(3)
    ages = {"old": 10.0, "young": 30.0, "middle": 20.0}
    uids = {name: runs(world, gib(10, name), created_s=age) for name, age in ages.items()}
    world.create(gib(10, "high", 5))
    assert evicted(world) == [uids["young"]]


def test_of_as_many_victims_the_lowest_priority_goes() -> None:
    world = fleet(2)
    runs(world, gib(10, "three", 3), created_s=99.0)
    two = runs(world, gib(10, "two", 2), created_s=1.0)
    world.create(gib(10, "high", 5))
    assert evicted(world) == [two]


def test_who_never_preempts_waits() -> None:
    world = fleet(1)
    runs(world, gib(10, "low"))
    polite = world.create(gib(10, "polite", 5, preemptionPolicy="Never"))
    assert evicted(world) == []
    assert world.stage(polite) is Stage.WAITING


def test_without_preemption_nobody_is_evicted() -> None:
    world = fleet(1, rules=Rules(preemption=False))
    runs(world, gib(10, "low"))
    world.create(gib(10, "high", 5))
    assert evicted(world) == []


def test_a_pod_that_its_budget_protects_stays_and_another_goes() -> None:
    world = fleet(2)
    first, second = runs(world, gib(10, "first"), 2.0), runs(world, gib(10, "second"), 1.0)
    world.protected = {first}
    high = world.create(gib(10, "high", 5))
    assert evicted(world) == [first, second]
    world.terminated()
    assert world.granted(high) == ["n1-1"]
    assert world.stage(first) is Stage.RELEASED


def test_a_protected_pod_is_tried_again_later() -> None:
    world = fleet(1)
    low = runs(world, gib(10, "low"))
    world.protected = {low}
    world.create(gib(10, "high", 5))
    assert evicted(world) == [low]
    world.wait(20)
    assert evicted(world) == [low]
    world.protected.clear()
    world.wait(15)
    assert evicted(world) == [low, low]


def test_none_is_evicted_where_that_would_not_make_room() -> None:
    world = fleet(1)
    runs(world, gib(5, "low"))
    runs(world, gib(5, "equal", 5))
    world.create(pod("high", container(gpu=1), priority=5))
    assert evicted(world) == []


def test_pods_that_leave_anyhow_are_waited_for() -> None:
    world = fleet(2)
    leaving = runs(world, gib(10, "leaving"))
    runs(world, gib(10, "stays"))
    world.change(leaving, deleting=True)
    high = world.create(gib(10, "high", 5))
    assert evicted(world) == []
    world.terminated()
    assert world.granted(high)


def test_a_pod_with_room_elsewhere_evicts_nobody() -> None:
    world = fleet(1, 1)
    runs(world, gib(10, "low"))
    assert world.granted(world.create(gib(10, "high", 5)))
    assert evicted(world) == []


def test_several_cards_are_cleared_on_one_node() -> None:
    world = World()
    world.node("n1", card("a"), card("b", index=1), card("c", index=2))
    one = runs(world, gib(9, "one"))
    two = runs(world, gib(9, "two"))
    runs(world, gib(9, "kept", 9))
    high = world.create(pod("high", container(gpu=2), priority=5))
    assert sorted(evicted(world)) == sorted([one, two])
    world.terminated()
    assert len(world.granted(high)) == 2


def test_a_lower_pod_that_is_released_later_can_still_be_evicted() -> None:
    world = fleet(1)
    world.hold_patches = True
    low = world.create(gib(10, "low"))
    high = world.create(gib(10, "high", 5))
    assert evicted(world) == []
    world.hold_patches = False
    world.settle()
    assert evicted(world) == [low]
    world.terminated()
    assert world.granted(high)


def test_the_pod_is_told_who_goes_for_it() -> None:
    world = fleet(1)
    runs(world, gib(10, "low"))
    high = world.create(gib(10, "high", 5))
    record = world.engine.state.records[high]
    assert record.no_room is not None
    assert record.no_room.reasons == {Reason.PREEMPTING: 1}
    assert "evicted for it: default/low" in record.no_room.message


def test_a_new_leader_waits_for_victims_that_are_on_their_way_out() -> None:
    world = fleet(2)
    runs(world, gib(10, "one"))
    runs(world, gib(10, "two"))
    high = world.create(gib(10, "high", 5))
    assert len(evicted(world)) == 1
    world.restart()
    assert len(evicted(world)) == 1
    world.terminated()
    assert world.granted(high)


def test_gangs_evict_nobody() -> None:
    world = fleet(2)
    runs(world, gib(10, "low"))
    for at in range(2):
        gang = {keys.GANG: "g", keys.GANG_SIZE: "2"}
        world.create(pod(f"m{at}", container(gpu=1), priority=9, annotations=gang))
    assert evicted(world) == []
