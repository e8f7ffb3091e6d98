"""`sublet.dev/numa: same`: all cards of a pod on one NUMA node of their machine."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sublet.contract import keys
from sublet.model.card import Card
from sublet.model.claim import Policy
from sublet.model.ids import NodeName
from sublet.model.reasons import EXPLANATIONS, Reason
from tests import builders
from tests.builders import card, container, sidecar
from tests.unit.scheduler.nodes import Nodes

SAME = {keys.NUMA: "same"}


def on(numa: int | None, name: str, index: int, links: Mapping[str, str] | None = None) -> Card:
    return replace(card(name, index=index, links=links), numa=numa)


def machine(*numas: int | None, policy: Policy = Policy.FRAGMENTATION) -> Nodes:
    """Node n1 with cards c0, c1, ... on these NUMA nodes."""
    nodes = Nodes(node_policy=policy, card_policy=policy)
    nodes.add("n1", *(on(numa, f"c{at}", at) for at, numa in enumerate(numas)))
    return nodes


def fill(nodes: Nodes, name: str) -> None:
    nodes.use(name, 10240, 100, exclusive=True)


@pytest.mark.parametrize("policy", list(Policy))
def test_several_cards_are_taken_from_one_numa_node(policy: Policy) -> None:
    nodes = machine(0, 1, 0, 1, 1, policy=policy)
    assert nodes.place(container(gpu=3), annotations=SAME) == {"main": ["c1", "c3", "c4"]}
    fill(nodes, "c3")
    assert nodes.hold(container(gpu=3), annotations=SAME) == {Reason.IN_USE: 1, Reason.NOT_ON_ONE_NUMA: 4}
    assert nodes.place(container(gpu=3)), "without the wish any three will do"


def test_the_cards_of_all_containers_count_together() -> None:
    nodes = machine(0, 0, 0, 1, 1)
    several = (container("a", gpu=2), container("b", gpu=1))
    assert nodes.place(*several, annotations=SAME) == {"a": ["c0", "c1"], "b": ["c2"]}
    fill(nodes, "c2")
    assert nodes.hold(*several, annotations=SAME) == {Reason.IN_USE: 1, Reason.NOT_ON_ONE_NUMA: 4}


def test_sidecars_and_init_containers_count_as_well() -> None:
    nodes = machine(0, 1, 1)
    init = (container("setup", gpu=1), sidecar("side", gpu=1))
    found = nodes.place(container("main", gpu=1), init=init, annotations=SAME)
    assert found == {"setup": ["c1"], "side": ["c1"], "main": ["c2"]}


def test_a_card_of_which_nobody_knows_the_numa_node_never_does() -> None:
    nodes = machine(None, None, 0)
    assert nodes.hold(container(gpu=2), annotations=SAME) == {
        Reason.UNKNOWN_NUMA: 2,
        Reason.TOO_FEW_CARDS: 1,
    }
    assert nodes.place(container(gpu_memory=1024), annotations=SAME) == {"main": ["c2"]}
    fill(nodes, "c2")
    reasons = nodes.hold(container(gpu_memory=1024), annotations=SAME)
    assert reasons == {Reason.UNKNOWN_NUMA: 2, Reason.EXCLUSIVE: 1}


def test_a_node_without_numa_is_passed_over_for_one_that_has_it() -> None:
    nodes = machine(None, None)
    nodes.add("n2", on(1, "d0", 0), on(1, "d1", 1))
    assert nodes.place(container(gpu=2), annotations=SAME) == {"main": ["d0", "d1"]}
    assert nodes.place(container(gpu=1)) == {"main": ["c0"]}


def test_of_several_numa_nodes_the_one_with_the_best_links_is_taken() -> None:
    nodes = Nodes()
    held = (on(0, "a", 0), on(0, "b", 1), on(1, "c", 2, {"d": "nvlink"}), on(1, "d", 3))
    nodes.add("n1", *held)
    assert nodes.place(container(gpu=2), annotations=SAME) == {"main": ["c", "d"]}


def test_links_and_one_numa_node_may_both_be_required() -> None:
    nodes = Nodes()
    nodes.add(
        "n1", on(0, "a", 0, {"c": "nvlink"}), on(0, "b", 1), on(1, "c", 2, {"d": "nvlink"}), on(1, "d", 3)
    )
    both = {**SAME, keys.LINK: "required"}
    assert nodes.place(container(gpu=2), annotations=both) == {"main": ["c", "d"]}
    fill(nodes, "d")
    assert Reason.NOT_ON_ONE_NUMA in nodes.hold(container(gpu=2), annotations=both)


def test_shares_are_packed_within_the_numa_node_as_the_policy_likes() -> None:
    nodes = machine(0, 0, 1, 1, policy=Policy.BINPACK)
    nodes.use("c2", mib=4096)
    wanted = container(gpu=2, gpu_memory=2048)
    assert nodes.place(wanted, annotations=SAME) == {"main": ["c2", "c3"]}


def test_when_the_agent_learns_of_numa_nodes_the_pod_finds_its_place() -> None:
    nodes = machine(None, None)
    assert nodes.hold(container(gpu=2), annotations=SAME) == {Reason.UNKNOWN_NUMA: 2}
    known = (on(0, "c0", 0), on(0, "c1", 1))
    nodes.fleet.set_inventory(NodeName("n1"), builders.inventory("n1", *known))
    assert nodes.place(container(gpu=2), annotations=SAME) == {"main": ["c0", "c1"]}


def test_more_cards_than_any_numa_node_has_is_no_matter_of_size() -> None:
    reasons = machine(0, 0, 1, 1).hold(container(gpu=3), annotations=SAME)
    assert reasons == {Reason.NOT_ON_ONE_NUMA: 4}
    assert Reason.LARGER_THAN_ANY_NODE in machine(0, 0).hold(container(gpu=3), annotations=SAME)


def test_the_message_names_the_annotation_as_the_way_out() -> None:
    message = machine(0, 1).message(container(gpu=2), annotations=SAME)
    assert "2 NotOnOneNuma" in message
    assert EXPLANATIONS[Reason.NOT_ON_ONE_NUMA].way_out in message
    assert keys.NUMA in EXPLANATIONS[Reason.UNKNOWN_NUMA].way_out
