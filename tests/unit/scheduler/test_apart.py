"""`sublet.dev/apart`: replicas of one owner on different cards or nodes while there is room elsewhere."""

from typing import Any

import pytest

from sublet.contract import keys
from sublet.model.claim import Policy
from sublet.model.placement import NoRoom
from sublet.model.reasons import Reason
from tests import builders
from tests.builders import cards, container, pod
from tests.unit.scheduler.nodes import Nodes
from tests.unit.scheduler.world import World

GIB = 1024
POLICIES = [Policy.FRAGMENTATION, Policy.BINPACK]


def replica(apart: str, owner: str = "set-1", gib: int = 2, **more: Any) -> dict[str, Any]:
    annotations = {keys.APART: apart, **more.pop("annotations", {})} if apart else {}
    asked = container("main", gpu_memory=gib * GIB)
    return pod("p", asked, annotations=annotations, owner=("ReplicaSet", owner), **more)


def fleet(*counts: int, policy: Policy = Policy.BINPACK) -> Nodes:
    nodes = Nodes(node_policy=policy, card_policy=policy)
    for at, count in enumerate(counts):
        nodes.add(f"n{at}", *cards(f"n{at}", count))
    return nodes


def put(nodes: Nodes, *manifests: dict[str, Any]) -> list[str]:
    """The card of each pod, one after another; a dash where there is no room."""
    found = []
    for manifest in manifests:
        ask = builders.ask(manifest)
        outcome = nodes.placer.place(ask, now=0.0)
        if isinstance(outcome, NoRoom):
            found.append("-")
            continue
        nodes.keep(ask, outcome)
        found.append(outcome.containers["main"][0].card)
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_without_the_wish_replicas_share_a_card(policy: Policy) -> None:
    assert len(set(put(fleet(2, 2, policy=policy), *[replica("")] * 3))) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_replicas_take_a_card_each_and_then_share_evenly(policy: Policy) -> None:
    found = put(fleet(2, 2, policy=policy), *[replica("cards")] * 6)
    assert sorted(found[:4]) == ["n0-0", "n0-1", "n1-0", "n1-1"]
    assert len(set(found[4:])) == 2, "what is too many lies on two cards and not on one"


@pytest.mark.parametrize("policy", POLICIES)
def test_replicas_take_a_node_each_and_then_the_emptiest_of_them(policy: Policy) -> None:
    found = put(fleet(2, 2, 2, policy=policy), *[replica("nodes")] * 6)
    assert sorted(card[:2] for card in found[:3]) == ["n0", "n1", "n2"]
    assert sorted(card[:2] for card in found[3:]) == ["n0", "n1", "n2"]
    assert len(set(found)) == 6, "two of one node do not share a card that has a neighbour free"


def test_the_pods_of_another_owner_are_no_reason_to_keep_away() -> None:
    nodes = fleet(1, 1)
    assert put(nodes, replica("nodes", "a"), replica("nodes", "b")) == ["n0-0", "n0-0"]
    assert put(nodes, replica("nodes", "a"), replica("nodes", "b")) == ["n1-0", "n1-0"]


def test_a_pod_without_an_owner_has_no_replicas() -> None:
    nodes = fleet(1, 1)
    alone = pod("p", container(gpu_memory=GIB), annotations={keys.APART: "nodes"})
    assert put(nodes, alone, alone) == ["n0-0", "n0-0"]


def test_it_is_a_wish_and_no_condition() -> None:
    nodes = fleet(1)
    assert put(nodes, *[replica("nodes", gib=5)] * 3) == ["n0-0", "n0-0", "-"]
    assert nodes.placer.place(builders.ask(replica("cards", gib=5)), now=0.0) == NoRoom(
        reasons={Reason.INSUFFICIENT_MEMORY: 1},
        message=nodes.message(container(gpu_memory=5 * GIB)),
    )


def test_whole_cards_are_apart_by_nature_and_may_be_on_nodes() -> None:
    nodes = fleet(2, 2)
    whole = pod("p", container(gpu=1), annotations={keys.APART: "nodes"}, owner=("StatefulSet", "s"))
    assert put(nodes, whole, whole) == ["n0-0", "n1-0"]


def test_what_left_is_forgotten() -> None:
    nodes = fleet(1, 1)
    [first] = put(nodes, replica("nodes"))
    [key] = nodes.fleet.nodes[nodes.fleet.order[0]].bookings
    nodes.fleet.unbook(nodes.fleet.order[0], key)
    assert nodes.fleet.replicas == {}
    assert put(nodes, replica("nodes")) == [first]


def test_classes_and_selectors_hold_as_well() -> None:
    nodes = Nodes()
    nodes.add("n0", *cards("n0", 2), labels={"zone": "a"})
    nodes.add("n1", *cards("n1", 2), labels={"zone": "b"})
    bound = replica("nodes", nodeSelector={"zone": "a"}, annotations={keys.SERVICE_CLASS: "online"})
    assert put(nodes, bound, bound) == ["n0-0", "n0-1"]


def test_a_restarted_scheduler_still_knows_whose_replicas_sit_where() -> None:
    world = World()
    for name in ("n0", "n1"):
        world.node(name, *cards(name, 1))
    made = [world.create(replica("nodes") | {"metadata": _named(f"p{at}")}) for at in range(2)]
    assert sorted(world.granted(uid)[0] for uid in made) == ["n0-0", "n1-0"]
    world.restart()
    for node in world.engine.state.fleet.nodes.values():
        assert world.engine.state.fleet.replicas_on("set-1", node.name) == {f"{node.name}-0": 1}


def _named(name: str) -> dict[str, Any]:
    return {**replica("nodes")["metadata"], "name": name}
