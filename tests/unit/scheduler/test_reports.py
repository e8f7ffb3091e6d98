"""What users of other schedulers reported as placed wrongly, and as it must be."""

from dataclasses import replace

import pytest
from sublet_scheduler.core import events as ev

from sublet.model.claim import Policy
from sublet.model.health import HealthState
from sublet.model.ids import NodeName, PodUid
from sublet.model.reasons import Reason
from tests.builders import card, cards, container, inventory, pod
from tests.unit.scheduler.nodes import Nodes
from tests.unit.scheduler.world import World

GIB = 1024


def test_sixteen_halves_of_eight_cards_are_two_on_each() -> None:
    world = World()
    world.node("n1", *cards("n1", 8))
    pods = [world.create(pod(f"p{at}", container(gpu_memory_percent=50))) for at in range(16)]
    used = [card for uid in pods for card in world.granted(uid)]
    assert {one: used.count(one) for one in used} == {f"n1-{at}": 2 for at in range(8)}


def test_spreading_takes_the_least_used_card_whatever_its_numa_node() -> None:
    nodes = Nodes(card_policy=Policy.SPREAD)
    nodes.add("n1", *(replace(card(f"c{at}", index=at), numa=at // 2) for at in range(4)))
    for at, percent in enumerate((90, 70, 30, 10)):
        nodes.use(f"c{at}", 10 * GIB * percent // 100, percent)
    assert nodes.place(container(gpu_memory=GIB)) == {"main": ["c3"]}


@pytest.mark.parametrize("policy", Policy)
def test_of_nodes_used_alike_the_one_with_a_joined_pair_takes_two_cards(policy: Policy) -> None:
    nodes = Nodes(node_policy=policy, card_policy=policy)
    nodes.add("n1", card("a0"), card("a1", index=1))
    nodes.add("n2", card("b0", links={"b1": "nvlink"}), card("b1", index=1))
    assert nodes.place(container(gpu=2)) == {"main": ["b0", "b1"]}


def test_more_cards_than_any_node_has_are_told_with_both_numbers() -> None:
    nodes = Nodes()
    nodes.add("n1", card("A"))
    assert nodes.message(container(gpu=2)).startswith(
        "2 cards are asked for on one node; the largest node known has 1"
    )


def test_an_unhealthy_card_costs_a_node_that_card_alone() -> None:
    """It was ill before the scheduler started; three pods fit and the fourth waits."""
    world = World()
    world.node("n1", *(card(f"G{at}", index=at, health=_ill_if(at == 2)) for at in range(4)))
    pods = [world.create(pod(f"p{at}", container(gpu=1))) for at in range(4)]
    assert sorted(card for uid in pods for card in world.granted(uid)) == ["G0", "G1", "G3"]
    reasons = world.engine.state.records[pods[3]].no_room
    assert reasons is not None
    assert reasons.reasons == {Reason.UNHEALTHY: 1, Reason.IN_USE: 3}


def _ill_if(ill: bool) -> HealthState:
    return HealthState.CONDEMNED if ill else HealthState.HEALTHY


def test_cards_that_another_spelling_took_are_taken() -> None:
    """Seven cards are held through nvidia.com/gpu; a share asked for by another name gets the eighth."""
    world = World()
    world.node("n1", *cards("n1", 8))
    held = world.create(pod("seven", container(nvidia=7)))
    share = world.create(pod("share", container(gpu_core=10, gpu_memory=GIB)))
    assert len(world.granted(held)) == 7
    assert set(world.granted(share)) & set(world.granted(held)) == set()


def test_whole_cards_asked_for_at_different_times_are_disjoint_over_a_restart() -> None:
    world = World()
    world.node("n1", *cards("n1", 8))
    pods: list[PodUid] = []
    for name, count in (("two", 2), ("too", 2), ("four", 4)):
        pods.append(world.create(pod(name, container(nvidia=count))))
        world.restart()
    assert sorted(card for uid in pods for card in world.granted(uid)) == [f"n1-{at}" for at in range(8)]


def test_a_card_that_was_taken_out_of_its_node_is_given_to_nobody() -> None:
    world = World()
    world.node("n1", *cards("n1", 2))
    world.send(ev.InventorySeen(inventory("n1", card("n1-0"), seq=2)))
    world.inventories[NodeName("n1")] = (card("n1-0"),)
    first, second = (world.create(pod(name, container(gpu=1))) for name in ("first", "second"))
    assert (world.granted(first), world.granted(second)) == (["n1-0"], [])


def test_a_pod_whose_deletion_was_asked_for_holds_its_card_until_it_ended() -> None:
    world = World()
    world.node("n1", card("A"))
    first = world.create(pod("first", container(gpu=1)))
    world.bind(first)
    world.change(first, deleting=True)
    second = world.create(pod("second", container(gpu=1)))
    assert world.granted(second) == []
    world.change(first, phase="Failed", settled=True)
    world.delete(first)
    assert world.granted(second) == ["A"]
