"""The default policy: a pod goes where it takes least of what later pods can use."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from sublet_scheduler.core.need import loads_of
from sublet_scheduler.core.scoring.workload import MOST_IN_TARGET, MOST_TASKS, WINDOW, Workload

from sublet.contract import keys
from sublet.model.claim import PodAsk, Policy
from sublet.model.ids import NodeName
from tests import builders
from tests.builders import card, cards, container, pod
from tests.unit.scheduler.nodes import Nodes

GIB = 1024


def fleet(*expected: tuple[dict[str, Any], float]) -> Nodes:
    """Nodes that expect these pods."""
    workload = Workload([(builders.ask(manifest), weight) for manifest, weight in expected])
    return Nodes(node_policy=Policy.FRAGMENTATION, card_policy=Policy.FRAGMENTATION, workload=workload)


def share(gib: int, **more: Any) -> dict[str, Any]:
    return container(gpu_memory=gib * GIB, **more)


WHOLE = pod("whole", container(gpu=1))


def test_a_share_leaves_whole_cards_to_those_who_need_them() -> None:
    nodes = fleet((WHOLE, 1.0), (pod("s", share(4)), 1.0))
    nodes.add("a", *cards("a", 1))
    nodes.add("b", *cards("b", 2))
    nodes.use("b-1", 5 * GIB)
    assert nodes.place(share(4)) == {"main": ["b-1"]}


def test_a_share_goes_where_what_is_left_is_of_use() -> None:
    """7 GiB of ten leave nothing for pods of 4 GiB; on a card with 7 GiB free nothing else is lost."""
    nodes = fleet((pod("s", share(4)), 1.0))
    nodes.add("a", card("a"))
    nodes.add("b", card("b"))
    nodes.use("b", 3 * GIB)
    assert nodes.place(share(7)) == {"main": ["b"]}


def test_compute_counts_as_memory_does() -> None:
    """A card without compute is of no use to pods that ask for it, whatever memory it has."""
    nodes = fleet((pod("s", share(4, gpu_core=40)), 1.0))
    for name, core in (("a", 30), ("b", 70)):
        nodes.add(name, card(name))
        nodes.use(name, 1 * GIB, core)
    assert nodes.place(share(1)) == {"main": ["b"]}


def test_several_cards_stay_together_for_those_who_need_several() -> None:
    nodes = fleet((pod("pair", container(gpu=2)), 1.0))
    nodes.add("a", *cards("a", 2))
    nodes.add("b", *cards("b", 3))
    assert nodes.place(container(gpu=1)) == {"main": ["b-0"]}


def test_cards_are_not_left_without_the_cpu_they_need() -> None:
    nodes = fleet((pod("s", container(gpu=1, cpu="8")), 1.0))
    nodes.add("a", *cards("a", 2), cpu_milli=16_000)
    nodes.add("b", *cards("b", 2), cpu_milli=64_000)
    assert nodes.place(container(gpu=1, cpu="12")) == {"main": ["b-0"]}


def test_host_memory_counts_as_cpu_does() -> None:
    nodes = fleet((pod("s", container(gpu=1, memory="8Gi")), 1.0))
    nodes.add("a", *cards("a", 2), memory_mib=16 * GIB)
    nodes.add("b", *cards("b", 2), memory_mib=64 * GIB)
    assert nodes.place(container(gpu=1, memory="12Gi")) == {"main": ["b-0"]}


def test_models_that_others_are_bound_to_are_left_to_them() -> None:
    bound = pod("bound", container(gpu=1), annotations={keys.CARD_MODELS: "h100"})
    nodes = fleet((bound, 1.0), (WHOLE, 1.0))
    nodes.add("a", card("a", model="NVIDIA H100"))
    nodes.add("b", card("b", model="NVIDIA A100"))
    assert nodes.place(container(gpu=1)) == {"main": ["b"]}
    assert nodes.place(container(gpu=1), annotations={keys.CARD_MODELS: "h100"}) == {"main": ["a"]}


def test_equals_are_taken_by_name() -> None:
    nodes = fleet()
    for name in ("n2", "n1", "n3"):
        nodes.add(name, *cards(name, 2))
    assert nodes.place(share(1)) == {"main": ["n1-0"]}


def test_before_anything_is_known_cards_are_filled_one_after_another() -> None:
    nodes = fleet()
    nodes.add("a", *cards("a", 2))
    nodes.add("b", *cards("b", 2))
    for _ in range(3):
        ask = builders.ask(pod("p", share(3)))
        outcome = nodes.placer.place(ask, now=0.0)
        nodes.keep(ask, outcome)  # type: ignore[arg-type]
        assert nodes.fleet.nodes[NodeName("a")].unused == 1
    assert nodes.fleet.nodes[NodeName("b")].unused == 2


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ((card("A"), card("B", index=1, gib=None)), ["A", "B"]),
        ((card("A", model="T4"), card("B", index=1)), ["A", "B"]),
    ],
)
def test_whole_cards_of_several_kinds_may_be_one_pods(held: tuple[Any, ...], found: list[str]) -> None:
    nodes = fleet()
    nodes.add("n1", *held)
    assert nodes.place(container(gpu=2)) == {"main": found}


def test_what_was_learned_changes_where_pods_go() -> None:
    nodes = fleet()
    nodes.add("a", card("a"))
    nodes.add("b", card("b"))
    nodes.use("b", 4 * GIB)
    assert nodes.place(share(2)) == {"main": ["b"]}
    for _ in range(200):
        nodes.placer.observe(builders.ask(pod("p", share(5))))
    assert nodes.place(share(2)) == {"main": ["a"]}


# -- the workload


def ask(mib: int, **more: Any) -> PodAsk:
    return replace(builders.ask(pod("p", container(gpu_memory=mib))), **more)


def observe(workload: Workload, ask: PodAsk) -> None:
    workload.observe(ask, loads_of(ask))


def target(workload: Workload) -> dict[int, float]:
    found = workload.target(afresh=True)
    assert found is not None
    return {task.load.memory_mib: weight for task, weight in found}


def test_weights_are_parts_of_all_that_was_seen() -> None:
    workload = Workload([(ask(1), 1.0)])
    two = ask(2)
    for _ in range(WINDOW):
        observe(workload, two)
    assert sum(target(workload).values()) == pytest.approx(1.0)
    assert target(workload)[2] > 0.7


def test_what_was_seen_long_ago_fades() -> None:
    workload = Workload()
    for one in (ask(1), ask(2)):
        for _ in range(3 * WINDOW):
            observe(workload, one)
    weights = target(workload)
    assert weights[1] < 0.06
    assert weights[2] > 0.9


def test_its_size_is_bounded_and_what_is_common_stays() -> None:
    workload = Workload()
    for mib in range(1, 4 * MOST_TASKS):
        observe(workload, ask(mib))
        observe(workload, ask(100_000))
    weights = target(workload)
    assert len(weights) <= MOST_IN_TARGET
    assert max(weights, key=lambda mib: weights[mib]) == 100_000


def test_a_target_that_hardly_moved_is_no_new_one() -> None:
    workload = Workload()
    moved = []
    for _ in range(2):
        for _ in range(1000):
            observe(workload, ask(1))
        moved += [workload.moved, workload.target(afresh=False) is not None, workload.moved]
    assert moved == [True, True, False, True, False, False]


def test_pods_that_differ_in_host_memory_alone_are_one_task() -> None:
    workload = Workload([(ask(1, memory_mib=1000), 1.0)])
    observe(workload, ask(1, memory_mib=3000))
    found = workload.target(afresh=True)
    assert found is not None
    [(task, _)] = found
    assert 1000 < task.memory_mib < 1001


def test_pods_without_a_card_teach_nothing() -> None:
    workload = Workload([(ask(1), 1.0)])
    before = target(workload)
    observe(workload, replace(ask(5), claims=()))
    assert target(workload) == before


def test_the_first_guess_is_whole_cards_and_parts_of_all_sizes() -> None:
    found = Workload().target(afresh=True)
    assert found is not None
    parts = {Fraction(*task.load.parts[0]) for task, _ in found if not task.load.exclusive}
    assert parts == {50, 25, 12}
    assert any(task.load.exclusive for task, _ in found)
