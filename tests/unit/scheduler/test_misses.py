"""The nearest miss: which node or card would do with how little more."""

from typing import Any

import pytest
from sublet_scheduler.core import effects as ef
from sublet_scheduler.core.facts import Taint

from sublet.contract import keys
from sublet.contract.waiting import nearest_in
from sublet.model.card import Vendor
from sublet.model.health import HealthState
from sublet.model.placement import NoRoom
from sublet.model.reasons import Reason
from tests import builders
from tests.builders import card, cards, container, pod
from tests.unit.scheduler.nodes import EVERYTHING, Nodes
from tests.unit.scheduler.world import World

GIB = 1024


def nearest(nodes: Nodes, *containers: dict[str, Any], now: float = 0.0, **how: Any) -> str:
    ask = builders.ask(pod("pod", *containers, **how))
    outcome = nodes.placer.place(ask, now=now)
    assert isinstance(outcome, NoRoom), outcome
    told = nodes.placer.told(outcome, ask, now=now)
    assert told.startswith(outcome.message)
    return nearest_in(told)


def used_up(*free_gib: int) -> Nodes:
    """Nodes n1, n2, ... with one card each that has so much left of 10 GiB."""
    nodes = Nodes()
    for at, free in enumerate(free_gib, 1):
        nodes.add(f"n{at}", card(f"c{at}", index=2))
        nodes.use(f"c{at}", (10 - free) * GIB)
    return nodes


def test_of_several_cards_the_one_that_lacks_the_least_is_told() -> None:
    nodes = used_up(1, 3, 2)
    assert nearest(nodes, container(gpu_memory=4 * GIB)) == "n2 card 2: 1024 MiB short"


def test_of_equals_the_smaller_name_is_told() -> None:
    assert nearest(used_up(3, 3), container(gpu_memory=4 * GIB)).startswith("n1 ")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"gpu_memory": GIB, "gpu_core": 30}, "n1 card 0: 10 % of compute short"),
        ({"gpu_memory": 9 * GIB}, "n1 card 0: 1024 MiB short"),
        ({"gpu_memory": 9 * GIB, "gpu_core": 25}, "n1 card 0: 1024 MiB short and 5 % of compute short"),
        ({"gpu_memory_percent": 90}, "n1 card 0: 1024 MiB short"),
        ({"gpu": 1}, "n1 card 0: 1 share(s) on it, a whole card is asked for"),
        ({"gpu_memory": GIB, "cpu": "65"}, "n1: 1000m CPU short"),
        ({"gpu_memory": GIB, "memory": "257Gi"}, "n1: 1024 MiB of host memory short"),
        ({"gpu_memory": 9 * GIB, "cpu": "65"}, "n1 card 0: 1024 MiB short, n1: 1000m CPU short"),
        ({"volcano.sh/gpu-memory": 9 * GIB}, "n1 cards: 1024 MiB short over 1 of them"),
    ],
)
def test_what_is_short_is_told_in_its_unit(asked: dict[str, Any], told: str) -> None:
    """The fleet has a larger node too, which is full: the pod is not larger than any."""
    shown = {**EVERYTHING, "volcano.sh/gpu-memory": 10**9}
    nodes = Nodes()
    nodes.add("n1", card("A"), allocatable=shown)
    nodes.use("A", 2 * GIB, 80)
    nodes.add("n2", card("B", gib=20), cpu_milli=128_000, memory_mib=524_288)
    nodes.use("B", 20 * GIB, 100, exclusive=True)
    assert nearest(nodes, container(**asked)) == told


def test_one_share_too_many_and_one_pod_too_many_are_told() -> None:
    nodes = Nodes()
    nodes.add("n1", card("A"), shares=1)
    nodes.use("A", GIB)
    assert nearest(nodes, container(gpu_memory=GIB)) == "n1 card 0: 1 share(s) too many"
    nodes = Nodes()
    nodes.add("n1", card("A"), pods=1)
    nodes.fill_host("n1")
    assert nearest(nodes, container(gpu_memory=GIB)) == "n1: 1 pod too many"


def test_of_several_cards_asked_for_it_is_told_on_how_many_there_is_room() -> None:
    nodes = Nodes()
    nodes.add("n1", *cards("n1", 2))
    nodes.use("n1-1", 7 * GIB)
    assert (
        nearest(nodes, container(gpu=2, gpu_memory=4 * GIB))
        == "n1 card 1: 1024 MiB short (room on 1 of 2 cards)"
    )


def test_cards_that_may_never_be_used_are_not_near() -> None:
    nodes = Nodes()
    nodes.add("n1", card("ill", health=HealthState.CONDEMNED), card("A", index=1))
    nodes.add("n2", card("amd", vendor=Vendor.AMD), card("T4", index=1, model="T4"))
    nodes.use("A", 9 * GIB)
    one = container(nvidia=1)
    asked = {keys.CARD_MODELS: "a100"}
    assert nearest(nodes, one, annotations=asked).startswith("n1 card 1: 1 share(s) on it")
    two = container(gpu=2, gpu_memory=GIB)
    assert nearest(nodes, two, annotations=asked) == "n1: 1 of its cards may be used and 2 are asked for"


def test_without_a_joined_pair_it_is_told_that_only_the_link_lacks() -> None:
    nodes = Nodes()
    nodes.add("n1", *cards("n1", 2))
    told = nearest(nodes, container(gpu=2), annotations={keys.LINK: "required"})
    assert told == "n1: room on 2 cards, but none joined by nvlink have it"


def test_a_second_container_is_told_what_it_lacks_beside_the_first() -> None:
    nodes = Nodes()
    nodes.add("n1", card("A"))
    nodes.use("A", GIB)
    one, other = container("one", gpu_memory=6 * GIB), container("other", gpu_memory=4 * GIB)
    assert nearest(nodes, one, other) == "n1 card 0: 1024 MiB short"


def test_nodes_that_the_pod_may_not_use_are_not_near() -> None:
    nodes = used_up(1)
    nodes.add("n2", card("B"), taints=(Taint(key="k"),))
    nodes.add("n3", card("C"))
    nodes.fleet.node(nodes.fleet.order[2]).beat_s = None
    assert nearest(nodes, container(gpu_memory=4 * GIB)) == "n1 card 2: 3072 MiB short"


def test_where_nothing_is_near_nothing_is_told() -> None:
    nodes = Nodes()
    nodes.add("n1", card("A"), taints=(Taint(key="k"),))
    assert nearest(nodes, container(gpu_memory=GIB)) == ""
    nodes.add("n2", card("B", gib=1))
    assert (
        nearest(nodes, container(gpu_memory=64 * GIB)) == ""
    )  # larger than any: the sentence has both numbers


def test_pods_that_ask_alike_cost_one_glance_at_the_nodes() -> None:
    nodes = used_up(1, 2, 3)
    for _ in range(50):
        nearest(nodes, container(gpu_memory=4 * GIB))
    nodes.use("c3", GIB)
    assert nearest(nodes, container(gpu_memory=4 * GIB), now=1.0) == "n2 card 2: 2048 MiB short"
    assert nodes.placer.misses.glances == 1
    assert nearest(nodes, container(gpu_memory=4 * GIB), now=10.0) == "n2 card 2: 2048 MiB short"
    assert nodes.placer.misses.glances == 2


def test_a_placed_pod_costs_no_glance() -> None:
    world = World()
    world.node("n1", card("A"))
    world.create(pod("fits", container(gpu_memory=4 * GIB)))
    assert world.engine.state.placer.misses.glances == 0


def test_a_pod_is_told_the_nearest_miss_when_it_is_created_and_when_its_reasons_change() -> None:
    world = World()
    world.node("n1", card("A"))
    world.bind(world.create(pod("first", container(gpu_memory=8 * GIB))))
    manifest = pod("waits", container(gpu_memory=4 * GIB, cpu="4"))
    id_, outcome = world.ask(manifest)
    assert isinstance(outcome, NoRoom)
    assert nearest_in(outcome.message) == "n1 card 0: 2048 MiB short"
    world.appears(manifest, id_, None)
    world.node("n2", card("B"), cpu_milli=3_000)
    world.wait(31)
    [told] = world.effects(ef.MarkWaiting)
    assert nearest_in(told.message) == "n2: 1000m CPU short"


def test_what_is_kept_for_a_pod_ahead_is_told() -> None:
    world = World()
    world.node("n1", card("A"))
    world.bind(world.create(pod("first", container(gpu_memory=6 * GIB))))
    world.create(pod("ahead", container(gpu_memory=10 * GIB)))
    _, outcome = world.ask(pod("behind", container(gpu_memory=4 * GIB)))
    assert isinstance(outcome, NoRoom)
    assert Reason.KEPT in outcome.reasons
    assert nearest_in(outcome.message) == "n1: room, kept for a pod ahead in the queue"
