"""More of a card is promised to shares than it has, where the cluster says so."""

from dataclasses import replace
from typing import Any

import pytest
from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.placing import Placer
from sublet_scheduler.core.scoring.workload import Workload
from sublet_scheduler.core.shapes import Policies
from sublet_scheduler.core.state import Rules

from sublet.contract import keys
from sublet.contract.overcommit import Overcommit
from sublet.model.claim import Policy
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import Placement, Shareable
from sublet.model.reasons import Reason
from tests.builders import card, container, pod
from tests.unit.scheduler.nodes import Nodes
from tests.unit.scheduler.world import World

GIB = 1024
N1 = NodeName("n1")


def ratios(*memory: str, core: tuple[str, ...] = ()) -> Overcommit:
    return Overcommit.read(memory=memory, core=core)


def nodes(overcommit: Overcommit, policy: Policy = Policy.FRAGMENTATION) -> Nodes:
    made = Nodes(node_policy=policy, card_policy=policy, fleet=Fleet(overcommit))
    made.placer = Placer.over(made.fleet, Policies(policy, policy), 15.0, workload=Workload())
    return made


def share(gib: int, **more: object) -> dict[str, Any]:
    return container("main", gpu_memory=gib * GIB, **more)


@pytest.mark.parametrize("policy", list(Policy))
def test_shares_are_promised_up_to_the_ratio_and_no_further(policy: Policy) -> None:
    fleet = nodes(ratios("A100:1.5"), policy)
    fleet.add("n1", card("A"))
    for _ in range(3):
        found = fleet.ask(pod("p", share(5)))
        assert isinstance(found, Placement)
        [grant] = found.containers["main"]
        assert grant.memory_mib == 5 * GIB, "what a container is given is what it asked for"
        fleet.use("A", grant.memory_mib)
    assert fleet.hold(share(1)) == {Reason.INSUFFICIENT_MEMORY: 1}


def test_compute_has_a_ratio_of_its_own() -> None:
    fleet = nodes(ratios(core=("A100:2",)))
    fleet.add("n1", card("A"))
    for _ in range(2):
        assert fleet.place(share(1, gpu_core=90)) == {"main": ["A"]}
        fleet.use("A", GIB, 90)
    assert fleet.hold(share(1, gpu_core=30)) == {Reason.INSUFFICIENT_CORES: 1}
    assert fleet.hold(share(9)) == {Reason.INSUFFICIENT_MEMORY: 1}, "memory is not promised twice"


@pytest.mark.parametrize("policy", list(Policy))
def test_no_single_share_is_larger_than_its_card(policy: Policy) -> None:
    fleet = nodes(ratios("A100:2"), policy)
    fleet.add("n1", card("A"))
    assert fleet.place(share(10)) == {"main": ["A"]}
    message = fleet.message(share(11))
    assert "11264 MiB are asked for on one card; the largest card known has 10240 MiB" in message


def test_a_percentage_is_of_what_the_card_has() -> None:
    fleet = nodes(ratios("A100:1.5"))
    fleet.add("n1", card("A"))
    found = fleet.ask(pod("p", container(gpu_memory_percent=50)))
    assert isinstance(found, Placement)
    assert [one.memory_mib for one in found.containers["main"]] == [5 * GIB]
    for _ in range(3):
        fleet.use("A", 5 * GIB)
    assert fleet.hold(container(gpu_memory_percent=1)) == {Reason.INSUFFICIENT_MEMORY: 1}


def test_a_whole_card_is_what_it_is_and_nobody_shares_it() -> None:
    fleet = nodes(ratios("A100:2", core=("A100:2",)))
    fleet.add("n1", card("A"))
    found = fleet.ask(pod("p", container(gpu=1)))
    assert isinstance(found, Placement)
    [grant] = found.containers["main"]
    assert (grant.memory_mib, grant.core_percent, grant.exclusive) == (10 * GIB, 100, True)
    fleet.use("A", grant.memory_mib, 100, exclusive=True)
    assert fleet.hold(share(1)) == {Reason.EXCLUSIVE: 1}
    assert (fleet.fleet.nodes[N1].free_mib, fleet.fleet.nodes[N1].most_free_core) == (0, 0)
    shared = nodes(ratios("A100:2"))
    shared.add("n1", card("A"))
    shared.use("A", 1)
    assert shared.hold(container(gpu=1)) == {Reason.IN_USE: 1}


def test_two_containers_of_a_pod_may_have_more_together_than_the_card() -> None:
    fleet = nodes(ratios("A100:1.5"))
    fleet.add("n1", card("A"))
    two = (container("a", gpu_mem=8), container("b", gpu_mem=7))
    assert fleet.place(*two) == {"a": ["A"], "b": ["A"]}
    message = fleet.message(container("a", gpu_mem=8), container("b", gpu_mem=8))
    assert "16384 MiB are asked for on one card" in message
    assert "has 10240 MiB, of which 15360 MiB may be promised" in message


def test_a_label_of_the_node_brings_a_ratio_and_takes_it_away() -> None:
    fleet = nodes(ratios("pool=dev:2"))
    fleet.add("n1", card("A"), labels={"pool": "dev"})
    fleet.use("A", 10 * GIB)
    assert fleet.place(share(4)) == {"main": ["A"]}
    state = fleet.fleet.nodes[N1]
    assert state.facts
    fleet.fleet.describe(N1, replace(state.facts, labels={}))
    assert fleet.hold(share(4)) == {Reason.INSUFFICIENT_MEMORY: 1}
    fleet.fleet.describe(N1, replace(state.facts, labels={"pool": "dev"}))
    assert fleet.place(share(4)) == {"main": ["A"]}


def test_what_others_use_counts_against_what_may_be_promised() -> None:
    fleet = nodes(ratios("A100:1.5"))
    fleet.add("n1", replace(card("A"), used_outside_mib=6 * GIB))
    assert fleet.place(share(9)) == {"main": ["A"]}
    assert fleet.hold(share(10)) == {Reason.INSUFFICIENT_MEMORY: 1}


def test_a_card_that_promises_more_is_worth_more_to_the_policy() -> None:
    fleet = nodes(ratios("pool=dev:2", core=("pool=dev:2",)))
    fleet.add("n1", card("A", index=0), card("B", index=1), labels={"pool": "dev"})
    fleet.use("A", 9 * GIB, 90)
    assert fleet.place(share(4, gpu_core=30)) == {"main": ["A"]}, "what is begun is filled up to the ratio"
    assert fleet.place(container(gpu=1)) == {"main": ["B"]}


# -- the engine: totals, the ledger, and ratios that change


def world(overcommit: Overcommit) -> World:
    made = World(rules=Rules(overcommit=overcommit))
    made.node("n1", card("A"))
    return made


def memory_total(made: World) -> int:
    return made.shown("n1").allocatable[keys.GPU_MEMORY]


def test_totals_and_the_ledger_say_what_may_be_promised() -> None:
    made = world(ratios("A100:1.5", core=("A100:2",)))
    shown = made.shown("n1").allocatable
    assert (shown[keys.GPU_MEMORY], shown[keys.GPU_CORE], shown[keys.NVIDIA_GPU]) == (15 * GIB, 200, 1)
    told = Shareable(card=CardId("A"), memory_mib=15 * GIB, core_percent=200)
    assert made.ledger[N1].shareable == (told,)
    assert world(ratios()).ledger[N1].shareable == ()


def test_a_node_that_changes_its_pool_is_told_in_totals_and_ledger() -> None:
    made = world(ratios("pool=dev:2"))
    assert (memory_total(made), made.ledger[N1].shareable) == (10 * GIB, ())
    made.nodes[N1] = replace(made.nodes[N1], labels={**made.nodes[N1].labels, "pool": "dev"})
    made.send(ev.NodeSeen(made.nodes[N1]))
    made.settle()
    assert memory_total(made) == 20 * GIB
    assert [one.memory_mib for one in made.ledger[N1].shareable] == [20 * GIB]


def test_when_a_ratio_is_lowered_nothing_is_evicted_and_nothing_new_comes() -> None:
    made = world(ratios("A100:2"))
    running = [made.create(pod(f"p{at}", share(9))) for at in range(2)]
    for uid in running:
        made.bind(uid)
    made.rules = Rules(overcommit=ratios("A100:1.2"))
    made.restart()
    assert [made.granted(uid) for uid in running] == [["A"], ["A"]]
    assert made.effects(ef.EvictPods) == []
    assert memory_total(made) == 18 * GIB, "a kubelet that starts anew must find room for what runs"
    late = made.create(pod("late", share(1)))
    assert made.granted(late) == []
    made.change(running[0], phase="Succeeded", settled=True)
    assert made.granted(late) == ["A"]
    assert memory_total(made) == 12 * GIB


def test_when_ratios_are_taken_away_the_entry_of_the_ledger_says_so() -> None:
    made = world(ratios("A100:2"))
    made.rules = Rules()
    made.restart()
    assert made.ledger[N1].shareable == ()
    assert memory_total(made) == 10 * GIB
