"""Where pods go, and for every card and node the first thing against it."""

import random
from dataclasses import replace
from typing import Any

import pytest
from sublet_scheduler.core.assigning import MOST_A_DECISION, Objections, assign
from sublet_scheduler.core.facts import Taint
from sublet_scheduler.core.node import CardState
from sublet_scheduler.core.shapes import Policies, Shape

from sublet.contract import keys
from sublet.model.card import Card, Vendor
from sublet.model.claim import Policy
from sublet.model.health import HealthState
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from tests import builders
from tests.builders import card, cards, container, pod, sidecar
from tests.unit.scheduler.nodes import Nodes

GIB = 1024


def share(gib: int, name: str = "main", **more: object) -> dict[str, Any]:
    return container(name, gpu_memory=gib * GIB, **more)


def one_node(*held: Card, **how: Any) -> Nodes:
    nodes = Nodes()
    nodes.add("n1", *held, **how)
    return nodes


# -- why not: cards


def test_each_card_says_the_first_thing_against_it() -> None:
    nodes = one_node(
        card("ill", index=0, health=HealthState.CONDEMNED),
        card("whole", index=1),
        card("full", index=2),
        card("busy", index=3),
        card("crowded", index=4),
        card("unknown", index=5, gib=None),
        card("model", index=6, model="NVIDIA T4"),
        card("excluded", index=7),
    )
    nodes.use("whole", 10 * GIB, 100, exclusive=True)
    nodes.use("full", 7 * GIB)
    nodes.use("busy", 1, 80)
    for _ in range(16):
        nodes.use("crowded", 1)
    wishes = {keys.CARD_MODELS: "a100", keys.EXCLUDE_CARD_UUIDS: "excluded"}
    assert nodes.hold(share(4, gpu_core=30), annotations=wishes) == {
        Reason.UNHEALTHY: 1,
        Reason.EXCLUSIVE: 1,
        Reason.INSUFFICIENT_MEMORY: 1,
        Reason.INSUFFICIENT_CORES: 1,
        Reason.TOO_MANY_SHARES: 1,
        Reason.UNKNOWN_MEMORY: 1,
        Reason.MODEL_MISMATCH: 1,
        Reason.UUID_MISMATCH: 1,
    }


def test_of_reasons_said_equally_often_the_one_that_passes_is_told() -> None:
    nodes = one_node(card("full"), card("model", index=1, model="NVIDIA T4"))
    nodes.use("full", 7 * GIB)
    told = nodes.message(share(4), annotations={keys.CARD_MODELS: "a100"})
    assert told.startswith("no room now (1 InsufficientMemory, 1 ModelMismatch): not enough free memory")


def test_of_two_reasons_that_pass_the_one_that_is_asked_last_is_told() -> None:
    nodes = one_node(card("full"), card("busy", index=1))
    nodes.use("full", 7 * GIB)
    nodes.use("busy", 1, 80)
    told = nodes.message(share(4, gpu_core=30))
    assert told.startswith("no room now (1 InsufficientMemory, 1 InsufficientCores): not enough free compute")


def test_what_most_cards_say_is_told_as_such() -> None:
    nodes = one_node(card("full"), card("t4", index=1, model="NVIDIA T4"), card("k80", index=2, model="K80"))
    nodes.use("full", 7 * GIB)
    told = nodes.message(share(4), annotations={keys.CARD_MODELS: "a100"})
    assert ": mostly the card's model is not among those asked for;" in told


def test_a_whole_card_is_refused_by_every_card_in_use() -> None:
    nodes = one_node(*cards("n1", 2), replace(card("leak", index=2), used_outside_mib=5))
    nodes.use("n1-0", 1)
    nodes.use("n1-1", 10 * GIB, 100, exclusive=True)
    assert nodes.hold(container(gpu=1)) == {Reason.IN_USE: 3}


def test_reasons_stand_in_the_order_of_the_table() -> None:
    nodes = one_node(*cards("n1", 3))
    nodes.use("n1-0", 10 * GIB, 100, exclusive=True)
    nodes.use("n1-1", 10 * GIB)
    nodes.fleet.set_open(NodeName("n1"), CardId("n1-2"), open_=False)
    nodes.add("n2", *cards("n2", 1), unschedulable=True)
    assert list(nodes.hold(share(1))) == [
        Reason.UNSCHEDULABLE,
        Reason.UNHEALTHY,
        Reason.EXCLUSIVE,
        Reason.INSUFFICIENT_MEMORY,
    ]


def test_memory_comes_before_compute_and_compute_before_the_number_of_shares() -> None:
    nodes = one_node(card("A"), shares=1)
    nodes.use("A", 9 * GIB, 90)
    assert nodes.hold(share(2, gpu_core=20)) == {Reason.INSUFFICIENT_MEMORY: 1}
    assert nodes.hold(share(1, gpu_core=20)) == {Reason.INSUFFICIENT_CORES: 1}
    assert nodes.hold(share(1)) == {Reason.TOO_MANY_SHARES: 1}


def test_what_fits_says_that_its_node_has_too_few() -> None:
    nodes = one_node(*cards("n1", 3))
    nodes.use("n1-0", 9 * GIB)
    assert nodes.hold(container(gpu=3, gpu_memory=2 * GIB)) == {
        Reason.INSUFFICIENT_MEMORY: 1,
        Reason.TOO_FEW_CARDS: 2,
    }


def test_another_vendors_card_is_no_card_of_nvidias() -> None:
    nodes = one_node(card("amd", vendor=Vendor.AMD))
    assert nodes.hold(container(nvidia=1)) == {Reason.VENDOR_MISMATCH: 1}
    assert nodes.hold(container(gpu_mem=1)) == {Reason.VENDOR_MISMATCH: 1}
    assert nodes.place(container(gpu=1)) == {"main": ["amd"]}


def test_a_card_of_unknown_memory_takes_whole_card_claims_only() -> None:
    nodes = one_node(card("A", gib=None))
    for limits in ({"gpu_memory": 1}, {"gpu_core": 1}, {"gpu_memory_percent": 1}, {"gpu_mem": 1}):
        assert nodes.hold(container("main", **limits)) == {Reason.UNKNOWN_MEMORY: 1}
    outcome = nodes.ask(pod("pod", container(nvidia=1)))
    assert isinstance(outcome, Placement)
    [grant] = outcome.containers["main"]
    assert (grant.memory_mib, grant.core_percent, grant.exclusive) == (None, 100, True)


def test_a_card_carries_at_most_so_many_shares() -> None:
    nodes = one_node(card("A"))
    for _ in range(16):
        found = nodes.ask(pod("pod", container(gpu_memory=1)))
        assert isinstance(found, Placement)
        nodes.keep(builders.ask(pod("pod", container(gpu_memory=1))), found)
    assert nodes.hold(container(gpu_memory=1)) == {Reason.TOO_MANY_SHARES: 1}


# -- why not: nodes


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"labels": {"zone": "b"}}, Reason.NODE_SELECTOR),
        ({"taints": (Taint(key="x"),)}, Reason.TAINT),
        ({"taints": (Taint(key="x", effect="NoExecute"),)}, Reason.TAINT),
        ({"unschedulable": True}, Reason.UNSCHEDULABLE),
        ({"ready": False}, Reason.UNSCHEDULABLE),
        ({"cpu_milli": 999}, Reason.INSUFFICIENT_CPU),
        ({"memory_mib": 1023}, Reason.INSUFFICIENT_HOST_MEMORY),
        ({"pods": 0}, Reason.TOO_MANY_PODS),
        ({"allocatable": {}}, Reason.NODE_NOT_PREPARED),
        ({"problems": (Reason.FOREIGN_PLUGIN,)}, Reason.FOREIGN_PLUGIN),
        ({"problems": (Reason.MIG_UNSUPPORTED,)}, Reason.MIG_UNSUPPORTED),
    ],
)
def test_a_node_that_is_out_counts_once_under_its_own_code(facts: dict[str, Any], reason: Reason) -> None:
    nodes = Nodes()
    nodes.add("big", cpu_milli=10**6, memory_mib=10**6, labels={"zone": "a"})
    nodes.add("n1", *cards("n1", 4), **({"labels": {"zone": "a"}} | facts))
    nodes.add("n2", *cards("n2", 2), labels={"zone": "a"}, taints=(Taint(key="y"),))
    asked = container(gpu=1, cpu="1", memory="1Gi")
    found = nodes.hold(asked, nodeSelector={"zone": "a"})
    assert found[reason] == (2 if reason is Reason.TAINT else 1)
    assert found[Reason.NO_CARDS] == 1


def test_all_is_asked_of_a_node_in_the_order_of_the_table() -> None:
    nodes = Nodes()
    worst: dict[str, Any] = {
        "labels": {},
        "taints": (Taint(key="x"),),
        "unschedulable": True,
        "cpu_milli": 0,
        "memory_mib": 0,
        "pods": 0,
    }
    better = {"labels": {"a": "b"}, "taints": (), "unschedulable": False, "cpu_milli": 10**6}
    better |= {"memory_mib": 10**6, "pods": 110}
    expected = [
        Reason.NODE_SELECTOR,
        Reason.TAINT,
        Reason.UNSCHEDULABLE,
        Reason.INSUFFICIENT_CPU,
        Reason.INSUFFICIENT_HOST_MEMORY,
        Reason.TOO_MANY_PODS,
        Reason.NO_CARDS,
    ]
    found = []
    for healed in range(len(better) + 1):
        nodes.add("n1", **(worst | dict(list(better.items())[:healed])))
        found.append(next(iter(nodes.hold(container(gpu=1, cpu="1", memory="1Gi"), nodeSelector={"a": "b"}))))
    assert found == expected


def test_an_agent_that_is_silent_takes_its_node_out() -> None:
    nodes = one_node(card("A"))
    assert nodes.hold(share(1), now=15.1) == {Reason.AGENT_SILENT: 1}


def test_a_preference_of_a_taint_holds_nobody_off() -> None:
    assert one_node(card("A"), taints=(Taint(key="x", effect="PreferNoSchedule"),)).place(share(1))


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "x", "operator": "Equal", "value": "1", "effect": "NoSchedule"}, True),
        ({"key": "x", "value": "1"}, True),
        ({"key": "x", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "x", "operator": "Equal", "value": "2"}, False),
        ({"key": "x", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "y", "operator": "Exists"}, False),
    ],
)
def test_a_taint_is_tolerated_as_in_kubernetes(toleration: dict[str, str], tolerated: bool) -> None:
    nodes = one_node(card("A"), taints=(Taint(key="x", value="1"),))
    outcome = nodes.ask(pod("pod", share(1), tolerations=[toleration]))
    assert isinstance(outcome, Placement) is tolerated


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "amd.com/gpu"])
def test_claiming_pods_tolerate_the_usual_taints_of_gpu_nodes(key: str) -> None:
    assert one_node(card("A"), taints=(Taint(key=key, value="present"),)).place(share(1))


def test_a_cordoned_node_is_for_those_who_tolerate_its_cordon() -> None:
    cordon = Taint(key="node.kubernetes.io/unschedulable")
    nodes = one_node(card("A"), unschedulable=True, taints=(cordon,))
    assert nodes.hold(share(1)) == {Reason.UNSCHEDULABLE: 1}
    assert nodes.place(share(1), tolerations=[{"key": cordon.key, "operator": "Exists"}])


def test_who_asks_for_no_cpu_and_memory_fits_on_a_node_that_is_over_full() -> None:
    nodes = one_node(card("A"), cpu_milli=1000, memory_mib=1000)
    nodes.fill_host("n1", 1001, 1001)
    assert nodes.place(share(1))
    assert nodes.hold(share(1, cpu="1m")) == {Reason.INSUFFICIENT_CPU: 1}
    assert nodes.hold(share(1, memory="1Mi")) == {Reason.INSUFFICIENT_HOST_MEMORY: 1}


def test_cpu_and_memory_are_used_up_to_the_last() -> None:
    nodes = one_node(card("A"), cpu_milli=1000, memory_mib=1000)
    nodes.fill_host("n1", 400, 400)
    assert nodes.place(share(1, cpu="600m", memory="600Mi"))
    assert nodes.hold(share(1, cpu="601m")) == {Reason.INSUFFICIENT_CPU: 1}


@pytest.mark.parametrize(
    ("requirement", "chosen"),
    [
        ({"key": "zone", "operator": "In", "values": ["b", "c"]}, "n2"),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, "n2"),
        ({"key": "gen", "operator": "Exists"}, "n2"),
        ({"key": "zone", "operator": "DoesNotExist"}, "n3"),
        ({"key": "gen", "operator": "Gt", "values": ["4"]}, "n2"),
        ({"key": "gen", "operator": "Lt", "values": ["5"]}, None),
        ({"key": "gen", "operator": "Near", "values": ["5"]}, None),
    ],
)
def test_required_affinity_selects_as_in_kubernetes(requirement: dict[str, Any], chosen: str | None) -> None:
    nodes = Nodes()
    nodes.add("n1", card("A"), labels={"zone": "a"})
    nodes.add("n2", card("B"), labels={"zone": "b", "gen": "5"})
    nodes.add("n3", card("C"))
    outcome = nodes.ask(pod("pod", share(1), affinity=affinity([requirement])))
    assert (outcome.node if isinstance(outcome, Placement) else None) == chosen


def affinity(*terms: list[dict[str, Any]], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    written: list[dict[str, Any]] = [{"matchExpressions": term} for term in terms]
    written += [{"matchFields": [one]} for one in fields]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": written}}
    return {"nodeAffinity": required}


def test_terms_are_alternatives_and_an_empty_one_selects_nothing() -> None:
    nodes = one_node(card("A"), labels={"zone": "a"})
    wrong = [{"key": "zone", "operator": "In", "values": ["z"]}]
    right = [{"key": "zone", "operator": "In", "values": ["a"]}]
    assert nodes.place(share(1), affinity=affinity(wrong, right))
    assert nodes.hold(share(1), affinity=affinity(wrong, [])) == {Reason.NODE_SELECTOR: 1}
    assert nodes.hold(share(1), affinity=affinity([])) == {Reason.NODE_SELECTOR: 1}


def test_a_daemon_pod_goes_to_its_node_or_waits() -> None:
    nodes = Nodes()
    nodes.add("n1", card("A", gib=2))
    nodes.add("n2", card("B"))
    own = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert nodes.place(share(2), affinity=affinity(fields=(own,))) == {"main": ["A"]}
    assert nodes.hold(share(3), affinity=affinity(fields=(own,))) == {
        Reason.NODE_SELECTOR: 1,
        Reason.INSUFFICIENT_MEMORY: 1,
    }


def test_a_named_node_is_the_only_one() -> None:
    nodes = Nodes()
    nodes.add("n1", card("A"))
    nodes.add("n2", card("B"))
    assert nodes.place(share(1), nodeName="n2") == {"main": ["B"]}
    assert nodes.hold(share(1), nodeName="n9") == {Reason.NODE_SELECTOR: 2}


# -- larger than any node


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ([share(11)], ("11264", "10240")),
        ([container(gpu=3)], ("3", "2")),
        ([container(gpu=3, gpu_memory=1)], ("3", "2")),
        ([container("a", gpu=1), container("b", gpu=2)], ("3", "2")),
        ([container("a", gpu_mem=6), container("b", gpu_mem=5)], ("11264", "10240")),
        ([share(7, "a"), share(7, "b"), share(7, "c")], ("21504", "20480")),
        ([share(1, cpu="65")], ("65000m", "64000m")),
        ([share(1, memory="257Gi")], ("263168", "262144")),
    ],
)
def test_what_no_empty_node_could_take_is_larger_than_any(
    asked: list[dict[str, Any]], numbers: tuple[str, str]
) -> None:
    nodes = one_node(*cards("n1", 2))
    nodes.use("n1-0", 9 * GIB)
    outcome = nodes.ask(pod("pod", *asked))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons[Reason.LARGER_THAN_ANY_NODE] == 1
    assert all(number in outcome.message for number in numbers), outcome.message


def test_shares_that_fit_no_pair_of_cards_are_larger_than_any_too() -> None:
    nodes = one_node(*cards("n1", 2))
    assert Reason.LARGER_THAN_ANY_NODE in nodes.hold(share(6, "a"), share(6, "b"), share(6, "c"))
    assert Reason.LARGER_THAN_ANY_NODE in nodes.hold(
        container("a", gpu_core=60), container("b", gpu_core=60), container("c", gpu_core=60)
    )


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (card("A", vendor=Vendor.AMD), container(nvidia=2)),
        (card("A", gib=None), share(1)),
        (card("A", model="T4"), share(1)),
    ],
)
def test_another_kind_of_card_is_not_a_smaller_one(held: Card, asked: dict[str, Any]) -> None:
    nodes = one_node(held)
    wishes = {keys.CARD_MODELS: "a100"}
    assert Reason.LARGER_THAN_ANY_NODE not in nodes.hold(asked, annotations=wishes)


def test_a_full_fleet_is_not_a_small_one() -> None:
    nodes = one_node(card("A"))
    nodes.use("A", 10 * GIB, 100, exclusive=True)
    assert nodes.hold(container(gpu=1)) == {Reason.IN_USE: 1}
    assert nodes.hold(share(10)) == {Reason.EXCLUSIVE: 1}


def test_without_a_node_there_is_a_reason_all_the_same() -> None:
    assert Nodes().hold(share(1)) == {Reason.LARGER_THAN_ANY_NODE: 1}


# -- which one


def test_packing_takes_the_card_with_the_least_that_fits() -> None:
    """The numbers of gpushare's design document."""
    nodes = Nodes()
    sizes = {"c0": 12207, "c1": 8138, "c2": 4069, "c3": 16276}
    nodes.add("n1", *(mib(name, at) for at, name in enumerate(sizes)))
    for name, free in sizes.items():
        nodes.use(name, 16276 - free)
    assert nodes.place(container(gpu_memory=8138)) == {"main": ["c1"]}


def test_what_is_free_in_pieces_is_not_free() -> None:
    """The numbers of gpushare's design document."""
    nodes = Nodes()
    for node, free in {"n1": (0, 4069), "n2": (4069, 4069), "n3": (8138, 0)}.items():
        nodes.add(node, mib(f"{node}-0", 0), mib(f"{node}-1", 1))
        for at, amount in enumerate(free):
            nodes.use(f"{node}-{at}", 16276 - amount)
    assert nodes.place(container(gpu_memory=8138)) == {"main": ["n3-0"]}


def mib(name: str, index: int, amount: int = 16276) -> Card:
    return replace(card(name, index=index), memory_mib=amount)


def test_of_equal_cards_the_lowest_index_is_taken() -> None:
    nodes = one_node(card("z", index=0), card("a", index=1))
    assert nodes.place(share(1)) == {"main": ["z"]}


def test_of_equal_nodes_the_smaller_name_is_taken() -> None:
    nodes = Nodes()
    for name in ("n2", "n1", "n3"):
        nodes.add(name, card(f"{name}-0"))
    assert nodes.place(share(1)) == {"main": ["n1-0"]}


def test_packing_fills_the_fullest_node_and_spreading_the_emptiest() -> None:
    for policy, chosen in ((Policy.BINPACK, "b-0"), (Policy.SPREAD, "a-0")):
        nodes = Nodes(node_policy=policy)
        nodes.add("a", *cards("a", 2))
        nodes.add("b", *cards("b", 2))
        nodes.use("b-1", 5 * GIB, 10)
        nodes.use("b-0", 5 * GIB, 10)
        assert nodes.place(share(1)) == {"main": [chosen]}


def test_a_pods_own_policy_beats_the_clusters() -> None:
    nodes = one_node(*cards("n1", 2))
    nodes.use("n1-0", 1)
    assert nodes.place(share(1)) == {"main": ["n1-0"]}
    assert nodes.place(share(1), annotations={keys.CARD_POLICY: "spread"}) == {"main": ["n1-1"]}
    nodes.add("n2", *cards("n2", 1))
    assert nodes.place(share(1), annotations={keys.NODE_POLICY: "spread"}) == {"main": ["n2-0"]}


def test_a_whole_card_leaves_started_cards_to_shares() -> None:
    nodes = Nodes()
    nodes.add("a", *cards("a", 3))
    nodes.add("b", *cards("b", 3))
    nodes.use("b-1", 1)
    assert nodes.place(container(gpu=1)) == {"main": ["b-0"]}


# -- wishes


def test_models_are_matched_by_part_in_any_case_and_uuids_exactly() -> None:
    nodes = one_node(
        card("GPU-a", index=0, model="NVIDIA A100-SXM4"), card("GPU-b", index=1, model="Tesla T4")
    )
    assert nodes.place(share(1), annotations={keys.CARD_MODELS: "h100, t4"}) == {"main": ["GPU-b"]}
    assert nodes.place(share(1), annotations={keys.EXCLUDE_CARD_MODELS: "sxm"}) == {"main": ["GPU-b"]}
    assert nodes.place(share(1), annotations={keys.CARD_UUIDS: "GPU-b"}) == {"main": ["GPU-b"]}
    assert nodes.place(share(1), annotations={keys.EXCLUDE_CARD_UUIDS: "GPU-a"}) == {"main": ["GPU-b"]}
    assert nodes.hold(share(1), annotations={keys.CARD_UUIDS: "gpu-b,GPU"}) == {Reason.UUID_MISMATCH: 2}
    both = {keys.CARD_MODELS: "a100", keys.EXCLUDE_CARD_MODELS: "nvidia"}
    assert nodes.hold(share(1), annotations=both) == {Reason.MODEL_MISMATCH: 2}


# -- amounts


def test_percentages_are_of_the_card_that_is_chosen_and_rounded_down() -> None:
    nodes = one_node(mib("odd", 0, 1001), mib("even", 1, 2000))
    for card_, asked, expected in (
        ("odd", container(gpu_memory_percent=33), 330),
        ("even", container(gpu_memory_percent=33), 660),
        ("odd", container(gpu_core=50), 500),
        ("odd", container(gpu_memory_percent=100), 1001),
        ("odd", container(gpu_memory_percent=10, gpu_core=90), 100),
    ):
        outcome = nodes.ask(pod("pod", asked, annotations={keys.CARD_UUIDS: card_}))
        assert isinstance(outcome, Placement)
        [grant] = outcome.containers["main"]
        assert grant.memory_mib == expected


def test_a_percentage_over_several_cards_is_of_each() -> None:
    nodes = one_node(mib("a", 0, 1000), mib("b", 1, 3000))
    outcome = nodes.ask(pod("pod", container(gpu=2, gpu_memory_percent=50)))
    assert isinstance(outcome, Placement)
    assert [one.memory_mib for one in outcome.containers["main"]] == [500, 1500]


def test_a_share_that_fills_the_card_is_not_an_exclusive_claim() -> None:
    nodes = one_node(card("A"))
    outcome = nodes.ask(pod("pod", container(gpu_memory_percent=100)))
    assert isinstance(outcome, Placement)
    assert not outcome.containers["main"][0].exclusive
    nodes.keep(builders.ask(pod("pod", container(gpu_memory_percent=100))), outcome)
    assert nodes.hold(share(1)) == {Reason.INSUFFICIENT_MEMORY: 1}


def test_memory_that_others_use_on_the_card_is_not_given_away() -> None:
    nodes = one_node(replace(card("A"), used_outside_mib=3 * GIB))
    assert nodes.place(share(7))
    assert nodes.hold(share(8)) == {Reason.INSUFFICIENT_MEMORY: 1}


# -- several cards and links


def test_several_cards_are_distinct_and_come_by_index() -> None:
    nodes = one_node(*cards("n1", 3))
    nodes.use("n1-2", 5 * GIB)
    assert nodes.place(container(gpu=2, gpu_memory=1024)) == {"main": ["n1-0", "n1-2"]}


def test_linked_cards_are_preferred_to_the_first_ones() -> None:
    nodes = one_node(
        card("a", index=0, links={"b": "host"}),
        card("b", index=1),
        card("c", index=2, links={"d": "nvlink", "a": "switch"}),
        card("d", index=3),
    )
    assert nodes.place(container(gpu=2)) == {"main": ["c", "d"]}
    assert nodes.place(container(gpu=3)) == {"main": ["a", "c", "d"]}
    assert nodes.place(container(gpu=2), annotations={keys.LINK: "required"}) == {"main": ["c", "d"]}
    assert nodes.hold(container(gpu=3), annotations={keys.LINK: "required"}) == {Reason.NOT_LINKED: 4}


def test_of_a_linked_pair_that_is_half_used_no_pair_is_left() -> None:
    nodes = one_node(
        card("a", index=0, links={"b": "nvlink"}), *(card(n, index=1 + i) for i, n in enumerate("bc"))
    )
    nodes.use("b", 1)
    wish = {keys.LINK: "required"}
    assert nodes.hold(container(gpu=2), annotations=wish) == {Reason.IN_USE: 1, Reason.NOT_LINKED: 2}


def test_one_card_alone_needs_no_link() -> None:
    assert one_node(card("a")).place(container(gpu=1), annotations={keys.LINK: "required"})


# -- several containers


def test_containers_are_placed_one_by_one_and_may_share_a_card() -> None:
    nodes = one_node(*cards("n1", 2))
    assert nodes.place(share(6, "a"), share(4, "b"), share(5, "c")) == {
        "a": ["n1-0"],
        "b": ["n1-0"],
        "c": ["n1-1"],
    }


def test_the_first_choice_of_one_container_never_costs_another_its_place() -> None:
    nodes = one_node(card("small", index=0, gib=4), card("large", index=1, gib=10))
    nodes.use("large", 0, 90)
    found = nodes.place(share(4, "memory"), share(1, "compute", gpu_core=80))
    assert found == {"memory": ["large"], "compute": ["small"]}


def test_a_whole_card_and_a_share_of_one_pod_lie_on_two_cards() -> None:
    nodes = one_node(*cards("n1", 2))
    assert nodes.place(share(1, "part"), container("whole", nvidia=1)) == {
        "part": ["n1-1"],
        "whole": ["n1-0"],
    }
    assert Reason.LARGER_THAN_ANY_NODE in one_node(card("A")).hold(share(1, "p"), container("w", gpu=1))


def test_all_gpushare_containers_of_a_pod_lie_on_one_card() -> None:
    nodes = one_node(*cards("n1", 3))
    nodes.use("n1-0", 5 * GIB)
    nodes.use("n1-1", 3 * GIB)
    found = nodes.place(container("a", gpu_mem=4), container("b", gpu_mem=3), share(5, "free"))
    assert found == {"a": ["n1-1"], "b": ["n1-1"], "free": ["n1-0"]}


def test_containers_that_need_one_card_are_refused_by_each_card_for_their_sum() -> None:
    nodes = one_node(*cards("n1", 2))
    nodes.use("n1-0", 4 * GIB)
    nodes.use("n1-1", 4 * GIB)
    assert nodes.hold(container("a", gpu_mem=4), container("b", gpu_mem=3)) == {Reason.INSUFFICIENT_MEMORY: 2}


def test_an_init_container_and_its_heir_get_the_larger_of_both() -> None:
    nodes = one_node(*cards("n1", 2))
    manifest = pod(
        "pod",
        share(2, gpu_core=50),
        init=(share(8, "setup", gpu_core=20), sidecar("side", gpu_memory=GIB)),
    )
    outcome = nodes.ask(manifest)
    assert isinstance(outcome, Placement)
    assert outcome.containers["setup"] == outcome.containers["side"]
    assert [one.memory_mib for one in outcome.containers["side"]] == [8 * GIB]
    assert [one.memory_mib for one in outcome.containers["main"]] == [2 * GIB]
    assert list(outcome.containers) == ["setup", "side", "main"]


def test_a_whole_card_for_an_init_container_makes_its_heirs_card_whole() -> None:
    nodes = one_node(card("A", index=0), card("B", index=1))
    nodes.use("A", 1)
    outcome = nodes.ask(pod("pod", share(2), init=(container("setup", gpu=1),)))
    assert isinstance(outcome, Placement)
    assert outcome.containers["main"] == outcome.containers["setup"]
    assert outcome.containers["main"][0].card == "B"
    assert outcome.containers["main"][0].exclusive


def test_init_containers_alone_share_one_card() -> None:
    nodes = one_node(*cards("n1", 2))
    manifest = pod("pod", {"name": "main"}, init=(share(3, "a"), share(5, "b")))
    outcome = nodes.ask(manifest)
    assert isinstance(outcome, Placement)
    assert outcome.containers["a"] == outcome.containers["b"]
    assert outcome.containers["b"][0].memory_mib == 5 * GIB


# -- groups on one card


def group(name: str = "g") -> dict[str, str]:
    return {keys.SAME_CARD: name}


def test_a_group_stays_on_the_card_of_its_first_member() -> None:
    nodes = Nodes()
    nodes.add("n1", *cards("n1", 2))
    nodes.add("n2", *cards("n2", 2))
    nodes.use("n2-1", 1, group="g")
    assert nodes.place(share(2), annotations=group()) == {"main": ["n2-1"]}
    assert nodes.place(share(2), annotations=group("other")) == {"main": ["n2-1"]}
    assert nodes.place(share(2), annotations=group(), namespace="else") == {"main": ["n2-1"]}
    nodes.use("n2-1", 9 * GIB)
    assert nodes.hold(share(2), annotations=group()) == {
        Reason.INSUFFICIENT_MEMORY: 1,
        Reason.SAME_CARD_FULL: 3,
    }
    assert nodes.place(share(2), annotations=group(), namespace="else") == {"main": ["n2-0"]}


def test_a_group_that_has_ended_is_free_to_sit_anywhere() -> None:
    nodes = one_node(*cards("n1", 2))
    key = nodes.use("n1-1", 9 * GIB, group="g")
    assert Reason.SAME_CARD_FULL in nodes.hold(share(2), annotations=group())
    nodes.fleet.unbook(NodeName("n1"), key)
    assert nodes.place(share(2), annotations=group()) == {"main": ["n1-0"]}


def test_the_containers_of_a_groups_pod_fit_on_one_card_together() -> None:
    nodes = one_node(*cards("n1", 2))
    nodes.use("n1-0", 5 * GIB)
    assert nodes.place(share(4, "a"), share(3, "b"), annotations=group()) == {"a": ["n1-1"], "b": ["n1-1"]}


def test_a_whole_card_shares_its_card_with_nobody_of_its_group() -> None:
    nodes = one_node(*cards("n1", 2))
    asked = (container("a", gpu=1), share(1, "b"))
    assert nodes.hold(*asked, annotations=group())[Reason.SAME_CARD_FULL] == 2


# -- the same for everybody


def test_the_answer_does_not_depend_on_the_order_of_nodes() -> None:
    asked = [share(3), container(gpu=2), share(9, gpu_core=5), container(gpu_core=40), container(gpu=9)]
    answers = []
    for seed in range(6):
        names = [f"n{at}" for at in range(6)]
        random.Random(seed).shuffle(names)
        nodes = Nodes()
        for name in names:
            nodes.add(name, *cards(name, int(name[1:]) % 3 + 1), labels={"x": "y"})
        nodes.use("n1-0", GIB)
        nodes.use("n4-1", GIB)
        found = []
        for one in asked:
            outcome = nodes.ask(pod("pod", one))
            found.append(outcome)
            if isinstance(outcome, Placement):
                nodes.keep(builders.ask(pod("pod", one)), outcome)
        answers.append(found)
    assert all(one == answers[0] for one in answers)


def test_a_pod_that_asks_for_more_than_all_cards_of_a_node_is_not_searched_for() -> None:
    """One tenant's pod must not keep all others waiting: here some 200 dead ends a node."""
    states = [CardState(card=one) for one in cards("n1", 8)]
    calls = 0

    def order(state: CardState, _: object) -> tuple[int]:
        nonlocal calls
        calls += 1
        return (state.card.index,)

    ask = builders.ask(pod("p", *[share(3, f"c{at}", gpu_core=1 + at) for at in range(30)]))
    asked = Shape.of(ask, Policies(Policy.BINPACK, Policy.BINPACK), None).asked
    outcome = assign(states, asked, shares_per_card=16, order=order)
    assert isinstance(outcome, Objections)
    assert set(outcome.reasons.values()) <= {Reason.INSUFFICIENT_MEMORY, Reason.INSUFFICIENT_CORES}
    assert calls < 1_000


def nine_of_four_gib() -> list[dict[str, Any]]:
    """Within what four cards of 10 GiB have together, but two fit on each; no two are alike."""
    return [share(4, f"c{at}", gpu_core=1 + at) for at in range(9)]


def test_a_search_that_is_cut_short_says_so_and_does_not_call_the_pod_too_large() -> None:
    nodes = one_node(*cards("n1", 4), card("ill", index=4, health=HealthState.CONDEMNED))
    nodes.use("n1-3", 9 * GIB)
    assert nodes.hold(*nine_of_four_gib()[:8]) == {Reason.UNHEALTHY: 1, Reason.INSUFFICIENT_MEMORY: 4}
    nodes = one_node(*cards("n1", 4), card("ill", index=4, health=HealthState.CONDEMNED))
    assert nodes.hold(*nine_of_four_gib()) == {Reason.UNHEALTHY: 1, Reason.SEARCH_CUT_SHORT: 4}


def test_one_decision_meets_no_more_dead_ends_on_many_nodes_than_it_may() -> None:
    """One tenant's pod must not keep all others waiting: without a bound it is 200 on each of 40 nodes."""
    nodes = Nodes()
    for at in range(40):
        nodes.add(f"n{at:02}", *cards(f"n{at:02}", 4))
    patience, spent = nodes.placer.patience, 0
    asked = builders.ask(pod("p", *nine_of_four_gib()))
    assert nodes.placer.find(asked, now=0.0) is None
    spent += MOST_A_DECISION - patience.left
    outcome = nodes.placer.no_room(asked, now=0.0, avoid={}, kept={})
    spent += MOST_A_DECISION - patience.left
    assert outcome.reasons == {Reason.SEARCH_CUT_SHORT: 160}
    assert spent <= 2 * MOST_A_DECISION
    assert nodes.place(*nine_of_four_gib()[:8])
