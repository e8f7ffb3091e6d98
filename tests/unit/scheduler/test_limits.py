"""Quotas: what the pods of a namespace may hold of cards."""

from typing import Any

from sublet_scheduler.core import events as ev
from sublet_scheduler.core.records import Stage

from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from tests.builders import card, cards, container, pod
from tests.unit.scheduler.world import World


def four_cards() -> World:
    world = World()
    world.node("n1", *cards("n1", 4))
    return world


def mib(amount: int, name: str = "pod", **more: Any) -> dict[str, Any]:
    return pod(name, container(gpu_memory=amount, **more))


def held(world: World, manifest: dict[str, Any]) -> str:
    """The words for a pod that its namespace's quota holds."""
    _, outcome = world.ask(manifest)
    assert isinstance(outcome, NoRoom), outcome
    assert outcome.reasons == {Reason.NAMESPACE_LIMIT: 1}
    return outcome.message


def test_memory_counts_for_every_card_of_the_claim() -> None:
    world = four_cards()
    world.quota("q", memory_mib=5000)
    assert held(world, mib(3000, gpu=2)) == (
        "the quota 'q' of namespace default allows 5000 MiB of card memory: 0 are held and 6000 are asked "
        "for (1 NamespaceLimit); wait until pods of the namespace end, ask for less, or raise the quota"
    )
    assert isinstance(world.ask(mib(2500, gpu=2))[1], Placement)


def test_zero_means_zero() -> None:
    world = four_cards()
    world.quota("none", cards=0)
    assert "allows 0 cards" in held(world, mib(1))
    assert isinstance(world.ask(pod("elsewhere", namespace="other"))[1], Placement)


def test_of_two_quotas_both_hold() -> None:
    world = four_cards()
    world.quota("a", memory_mib=1000, core_percent=500)
    world.quota("b", memory_mib=9000, core_percent=50)
    assert "quota 'a'" in held(world, mib(1001))
    assert "quota 'b' of namespace default allows 50 % of card compute" in held(world, mib(100, gpu_core=51))
    assert isinstance(world.ask(mib(1000, gpu_core=50))[1], Placement)


def test_a_whole_card_counts_with_all_its_memory_and_compute() -> None:
    world = four_cards()
    world.quota("q", core_percent=150)
    assert "200 are asked for" in held(world, pod("two", container(gpu=2)))
    world.create(pod("one", container(gpu=1)))
    assert "100 are held and 100 are asked for" in held(world, pod("another", container(gpu=1)))


def test_percentages_count_by_the_card_that_would_be_given() -> None:
    world = World()
    world.node("n1", card("large", gib=80))
    world.node("n2", card("small", gib=10))
    world.quota("q", memory_mib=6000)
    half = pod("half", container(gpu_memory_percent=50), annotations={"sublet.dev/node-policy": "spread"})
    _, outcome = world.ask(half)
    assert isinstance(outcome, Placement)
    assert outcome.node == "n2"  # half of the other card is 40 960 MiB
    assert "5120 are held" in held(world, half)


def test_what_ends_gives_its_part_of_the_quota_to_the_next_in_the_queue() -> None:
    world = four_cards()
    world.quota("q", cards=1)
    first = world.create(mib(1000, "first"))
    world.bind(first)
    second = world.create(mib(1000, "second"))
    assert world.stage(second) is Stage.WAITING
    world.change(first, phase="Succeeded", settled=True)
    assert world.granted(second)


def test_a_pod_that_its_quota_holds_keeps_no_place_from_others() -> None:
    world = World()
    world.node("n1", card("A"))
    world.quota("q", cards=0)
    world.create(pod("held", container(gpu=1)))
    assert isinstance(world.ask(pod("other", namespace="other"))[1], Placement)


def test_a_raised_or_removed_quota_lets_pods_in() -> None:
    world = four_cards()
    world.quota("q", memory_mib=0)
    one, two = world.create(mib(1000, "one")), world.create(mib(1000, "two"))
    world.quota("q", memory_mib=1000)
    assert [bool(world.granted(uid)) for uid in (one, two)] == [True, False]
    world.quotas.clear()
    world.send(ev.QuotaGone("default", "q"))
    world.settle()
    assert world.granted(two)


def test_what_is_held_counts_after_a_restart() -> None:
    world = four_cards()
    world.quota("q", cards=1)
    world.bind(world.create(mib(1000, "first")))
    world.restart()
    assert "1 are held" in held(world, mib(1))


def test_an_init_container_counts_with_its_heir() -> None:
    world = four_cards()
    world.quota("q", memory_mib=3000)
    manifest = pod("p", container(gpu_memory=1000), init=(container("init", gpu_memory=3000),))
    assert isinstance(world.ask(manifest)[1], Placement)
    assert "3000 are held" in held(world, mib(1))
