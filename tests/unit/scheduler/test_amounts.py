"""Amounts stay exact from the claim to the grant, and what is larger than any node waits for a larger one."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sublet_scheduler.core import events as ev

from sublet.contract.dialects.amounts import MOST_MEMORY
from sublet.model.card import Card
from sublet.model.claim import Policy
from sublet.model.ids import NodeName
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from tests.builders import card, cards, container, inventory, pod, sidecar
from tests.unit.scheduler.nodes import EVERYTHING, Nodes
from tests.unit.scheduler.world import World

GIB = 1024
MIB = st.integers(1, MOST_MEMORY)
POLICIES = st.sampled_from(list(Policy))


def of_mib(name: str, memory_mib: int, index: int = 0) -> Card:
    return replace(card(name, index=index), memory_mib=memory_mib)


def node(policy: Policy, *held: Card) -> Nodes:
    nodes = Nodes(node_policy=policy, card_policy=policy)
    nodes.add("n1", *held, allocatable=dict.fromkeys(EVERYTHING, 2**53))
    return nodes


def granted(nodes: Nodes, manifest: dict[str, Any]) -> list[tuple[str, int | None]]:
    outcome = nodes.ask(manifest)
    assert isinstance(outcome, Placement), outcome
    return [(one.card, one.memory_mib) for grants in outcome.containers.values() for one in grants]


@settings(deadline=None, max_examples=60)
@given(POLICIES, MIB, MIB)
def test_memory_is_given_to_the_mib_and_never_beyond(policy: Policy, has_mib: int, asked_mib: int) -> None:
    nodes = node(policy, of_mib("A", has_mib))
    manifest = pod("p", container(gpu_memory=asked_mib))
    if asked_mib > has_mib:
        outcome = nodes.ask(manifest)
        assert isinstance(outcome, NoRoom)
        assert outcome.reasons[Reason.LARGER_THAN_ANY_NODE] == 1
        assert f"{asked_mib} MiB are asked for" in outcome.message
        assert f"has {has_mib} MiB" in outcome.message
        return
    assert granted(nodes, manifest) == [("A", asked_mib)]
    nodes.use("A", asked_mib)
    left = has_mib - asked_mib
    assert nodes.hold(container(gpu_memory=left + 1))
    if left:
        assert granted(nodes, pod("p", container(gpu_memory=left))) == [("A", left)]


@settings(deadline=None, max_examples=60)
@given(POLICIES, st.lists(st.integers(1, 10**6), min_size=1, max_size=4), st.integers(1, 100))
def test_a_percentage_is_of_the_card_that_is_chosen_and_rounded_down(
    policy: Policy, sizes: list[int], percent: int
) -> None:
    nodes = node(policy, *(of_mib(f"c{at}", mib, at) for at, mib in enumerate(sizes)))
    [(name, given_mib)] = granted(nodes, pod("p", container(gpu_memory_percent=percent)))
    assert given_mib == sizes[int(name[1:])] * percent // 100


@settings(deadline=None, max_examples=60)
@given(POLICIES, st.lists(st.integers(1, 10**6), min_size=2, max_size=4), st.integers(1, 100))
def test_each_of_several_cards_gives_its_own_percentage(
    policy: Policy, sizes: list[int], percent: int
) -> None:
    nodes = node(policy, *(of_mib(f"c{at}", mib, at) for at, mib in enumerate(sizes)))
    found = granted(nodes, pod("p", container(gpu=len(sizes), gpu_memory_percent=percent)))
    assert found == [(f"c{at}", mib * percent // 100) for at, mib in enumerate(sizes)]


@pytest.mark.parametrize("policy", list(Policy))
def test_a_card_of_unknown_memory_among_others_takes_whole_claims_only(policy: Policy) -> None:
    nodes = node(policy, card("A", index=0, gib=None), card("B", index=1))
    assert granted(nodes, pod("p", container(gpu_memory=GIB))) == [("B", GIB)]
    nodes.use("B", GIB)
    assert granted(nodes, pod("p", container(gpu=1))) == [("A", None)]
    assert nodes.hold(container(gpu_memory=10 * GIB)) == {
        Reason.UNKNOWN_MEMORY: 1,
        Reason.INSUFFICIENT_MEMORY: 1,
    }


def test_a_request_is_the_largest_step_or_the_sum_of_what_runs_together() -> None:
    nodes = node(Policy.BINPACK, card("A"))
    init = (container("setup", gpu_memory=6 * GIB), sidecar("side", gpu_memory=GIB))
    nodes.place(container("main", gpu_memory=4 * GIB), init=init)
    assert nodes.hold(container("main", gpu_memory=5 * GIB), init=init)[Reason.LARGER_THAN_ANY_NODE] == 1


# -- larger than any node known


def small() -> World:
    world = World()
    world.node("n1", *cards("n1", 2))
    return world


def too_large(name: str = "large") -> dict[str, Any]:
    return pod(name, container(gpu_memory=11 * GIB))


def test_what_is_larger_than_any_node_is_not_tried_again_when_others_leave() -> None:
    world = small()
    first = world.create(pod("first", container(gpu=1)))
    large = world.create(too_large())
    world.wait(1)
    tries = world.engine.state.placer.tries
    world.change(first, phase="Succeeded", settled=True)
    world.wait(60)
    assert world.engine.state.placer.tries == tries
    assert world.granted(large) == []


def test_it_is_placed_when_a_larger_node_comes() -> None:
    world = small()
    large = world.create(too_large())
    world.wait(1)
    tries = world.engine.state.placer.tries
    world.node("n2", *cards("n2", 2))
    world.wait(1)
    assert world.engine.state.placer.tries == tries, "a node of the same size is no larger one"
    world.node("n3", card("n3-0", gib=12))
    world.wait(1)
    assert world.granted(large) == ["n3-0"]


def test_it_is_placed_when_the_only_node_that_could_take_it_comes_again() -> None:
    world = small()
    world.node("n3", card("n3-0", gib=12))
    world.send(ev.NodeGone(NodeName("n3")))
    world.send(ev.InventoryGone(NodeName("n3")))
    del world.nodes[NodeName("n3")], world.inventories[NodeName("n3")]
    large = world.create(too_large())
    world.wait(1)
    assert world.granted(large) == []
    world.node("n4", card("n4-0", gib=12))
    world.wait(1)
    assert world.granted(large) == ["n4-0"]


def test_it_is_placed_when_a_card_comes_back() -> None:
    world = small()
    world.send(ev.InventorySeen(inventory("n1", *cards("n1", 1))))
    both = world.create(pod("both", container(gpu=2)))
    world.wait(1)
    assert world.granted(both) == []
    world.send(ev.InventorySeen(inventory("n1", *cards("n1", 2))))
    world.wait(1)
    assert len(world.granted(both)) == 2


def test_it_is_placed_when_a_node_gets_larger_cards() -> None:
    world = small()
    large = world.create(too_large())
    world.wait(1)
    world.node("n1", card("n1-0", gib=24))
    world.wait(1)
    assert world.granted(large) == ["n1-0"]


def test_the_host_counts_as_well() -> None:
    world = small()
    asked = container("main", gpu_memory=GIB, cpu="65")
    large = world.create(pod("large", asked))
    world.wait(1)
    assert world.granted(large) == []
    more = replace(world.nodes[NodeName("n1")], cpu_milli=96_000)
    world.nodes[NodeName("n1")] = more
    world.send(ev.NodeSeen(more))
    world.wait(1)
    assert world.granted(large) == ["n1-0"]


def test_a_fleet_without_cards_is_no_reason_to_give_up() -> None:
    world = World()
    uid = world.create(pod("p", container(gpu_memory=GIB)))
    world.wait(1)
    world.node("n1", card("A"))
    world.wait(1)
    assert world.granted(uid) == ["A"]


def test_it_keeps_the_sentence_with_both_numbers() -> None:
    world = small()
    large = world.create(too_large())
    world.wait(120)
    record = world.engine.state.records[large]
    assert record.no_room
    assert "11264 MiB are asked for on one card" in record.no_room.message
    assert "the largest card known has 10240 MiB" in record.no_room.message
