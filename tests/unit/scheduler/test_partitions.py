"""Partitions: each is given whole to one container, and none while its card is out or was given whole."""

from dataclasses import replace
from typing import Any

import pytest
from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.records import Stage

from sublet.contract import keys
from sublet.model.card import Card
from sublet.model.claim import Policy
from sublet.model.health import DESTROYED, HealthState
from sublet.model.ids import CardId, NodeName, PodUid
from sublet.model.reasons import Reason
from tests.builders import card, container, pod, verdict
from tests.unit.scheduler.nodes import EVERYTHING, Nodes
from tests.unit.scheduler.world import World

SMALL, LARGE = keys.NVIDIA_MIG_PREFIX + "1g.5gb", keys.NVIDIA_MIG_PREFIX + "3g.20gb"
TOTALS = EVERYTHING | {SMALL: 99, LARGE: 99}


def wants(name: str = "main", *, count: object = 1, profile: str = SMALL) -> dict[str, Any]:
    return container(name, **{profile: count})


def divided(uuid: str, *parts: str, index: int = 0, profile: str = "1g.5gb") -> Card:
    return card(uuid, index=index, gib=40, parts=dict.fromkeys(parts, profile))


def nodes(*held: Card, **policies: Any) -> Nodes:
    made = Nodes(**policies)
    made.add("n1", *held, allocatable=TOTALS)
    return made


def test_every_container_gets_a_partition_of_its_own() -> None:
    seats = nodes(divided("A", "A1", "A2", "A3")).place(wants("a"), wants("b", count=2))
    assert seats == {"a": ["A3"], "b": ["A1", "A2"]}


def test_a_partition_that_is_held_is_in_use() -> None:
    one = nodes(divided("A", "A1", "A2"))
    one.use("A1", 5120, 100, exclusive=True)
    assert one.place(wants()) == {"main": ["A2"]}
    one.use("A2", 5120, 100, exclusive=True)
    assert one.hold(wants()) == {Reason.IN_USE: 2}


def test_another_profile_is_not_given_though_it_were_larger() -> None:
    assert nodes(divided("A", "A1", profile="3g.20gb")).hold(wants()) == {Reason.PROFILE_MISMATCH: 1}


@pytest.mark.parametrize("limits", [{"nvidia": 1}, {"gpu": 1}, {"gpu_memory": 100}, {"gpu_core": 10}])
def test_a_card_with_partitions_is_given_neither_whole_nor_in_shares(limits: dict[str, Any]) -> None:
    assert nodes(divided("A", "A1")).hold(container(**limits)) == {Reason.PROFILE_MISMATCH: 1}


@pytest.mark.parametrize("limits", [{"nvidia": 1}, {"gpu_memory": 100}, {SMALL: 1}])
def test_a_card_in_mig_mode_without_partitions_offers_nothing_and_says_why(limits: dict[str, Any]) -> None:
    one = nodes(divided("A"))
    assert one.hold(container(**limits)) == {Reason.NO_PARTITIONS: 1}
    assert "create MIG instances" in one.message(container(**limits))


@pytest.mark.parametrize("policy", [Policy.BINPACK, Policy.FRAGMENTATION])
def test_the_card_with_the_fewest_free_partitions_fills_first(policy: Policy) -> None:
    one = nodes(
        divided("A", "A1", "A2", "A3"),
        divided("B", "B1", "B2", "B3", index=1),
        card_policy=policy,
        node_policy=policy,
    )
    one.use("B2", 5120, 100, exclusive=True)
    seats = []
    for name in ("p1", "p2", "p3"):
        [part] = one.place(wants(name))[name]
        one.use(part, 5120, 100, exclusive=True)
        seats.append(part)
    assert seats == ["B1", "B3", "A1"]


def test_who_spreads_gets_the_card_with_most_free_partitions() -> None:
    one = nodes(divided("A", "A1", "A2"), divided("B", "B1", "B2", "B3", index=1), card_policy=Policy.SPREAD)
    assert one.place(wants()) == {"main": ["B1"]}


def test_a_cards_uuid_names_its_partitions_too() -> None:
    one = nodes(divided("A", "A1"), divided("B", "B1", index=1))
    assert one.place(wants(), annotations={keys.CARD_UUIDS: "B"}) == {"main": ["B1"]}
    assert one.place(wants(), annotations={keys.EXCLUDE_CARD_UUIDS: "A"}) == {"main": ["B1"]}


def test_a_quota_counts_partitions_as_cards_of_their_own_memory() -> None:
    world = cluster(divided("A", "A1", "A2"))
    world.quota("few", cards=1)
    first, second = (world.create(pod(name, wants())) for name in ("a", "b"))
    assert (world.granted(first), world.granted(second)) == (["A1"], [])


# -- in a cluster


def cluster(*held: Card) -> World:
    world = World()
    world.node("n1", *held)
    return world


def shows(world: World, profile: str = SMALL) -> int | None:
    return world.shown("n1").allocatable.get(profile)


def divide(world: World, *held: Card) -> None:
    """The agent reports other partitions on the same cards."""
    world.inventories[NodeName("n1")] = held
    world._agent_speaks(NodeName("n1"), held)
    world.settle()


def test_the_node_shows_how_many_partitions_of_each_profile_it_has() -> None:
    world = cluster(
        card("A", gib=40, parts={"A1": "1g.5gb", "A2": "1g.5gb", "A3": "3g.20gb"}), card("B", index=1)
    )
    totals = [world.shown("n1").allocatable.get(key) for key in (SMALL, LARGE, keys.NVIDIA_GPU)]
    assert totals == [2, 1, 1]
    assert world.shown("n1").capacity[SMALL] == 2


def test_a_profile_that_is_there_no_more_is_taken_off_the_node() -> None:
    world = cluster(divided("A", "A1"))
    divide(world, divided("A", "A2", profile="3g.20gb"))
    assert (shows(world), shows(world, LARGE)) == (None, 1)


def test_a_pod_gets_its_partition_by_uuid_in_ledger_and_decision() -> None:
    world = cluster(divided("A", "A1", "A2"))
    uid = world.create(pod("p", wants(count=2)))
    assert world.granted(uid) == ["A1", "A2"]
    [grant, _] = world.entry("n1").grants
    assert (grant.grant.index, grant.grant.exclusive, grant.grant.memory_mib) == (0, True, 5120)
    assert dict(grant.env) == {keys.ENV_NVIDIA_VISIBLE: "A1,A2"}


def test_an_ill_partition_closes_alone_and_an_ill_card_with_all_of_its_partitions() -> None:
    world = cluster(divided("A", "A1", "A2"))
    world.judge(verdict("n1", "A1", bad=True))
    assert (world.closed("n1"), shows(world)) == (["A1"], 1)
    world.judge(verdict("n1", "A", bad=True))
    assert shows(world) is None
    uid = world.create(pod("p", wants()))
    assert world.granted(uid) == []
    world.judge(verdict("n1", "A", bad=False, seq=2))
    assert (world.closed("n1"), world.granted(uid), shows(world)) == (["A1"], ["A2"], 1)


def test_an_ill_partition_stays_closed_when_the_agent_reports_again_and_over_a_restart() -> None:
    world = cluster(divided("A", "A1"))
    world.judge(verdict("n1", "A1", bad=True))
    divide(world, divided("A", "A1", "A2"))
    world.restart()
    assert world.closed("n1") == ["A1"]
    assert world.granted(world.create(pod("p", wants()))) == ["A2"]


def test_a_pod_that_was_promised_a_partition_of_a_card_that_falls_ill_goes_elsewhere() -> None:
    world = cluster(divided("A", "A1"))
    world.node("n2", divided("B", "B1"))
    world.hold_writes = True
    uid = world.create(pod("p", wants()))
    assert world.stage(uid) is Stage.COMMITTING
    world.judge(verdict("n1", "A", bad=True))
    world.hold_writes = False
    world.settle()
    assert world.granted(uid) == ["B1"]


def test_a_share_of_a_destroyed_partition_stays_accounted_and_new_partitions_are_given() -> None:
    world = cluster(divided("A", "A1"))
    first = world.create(pod("a", wants()))
    world.bind(first)
    divide(world, divided("A", "A2"))
    second = world.create(pod("b", wants()))
    assert (world.granted(first), world.granted(second)) == (["A1"], ["A2"])
    assert shows(world) == 2
    world.delete(first)
    world.occupancy("n1", alive=[second])
    assert (world.granted(first), shows(world)) == ([], 1)


def test_a_card_made_whole_under_a_container_is_not_given_until_that_ends() -> None:
    world = cluster(divided("A", "A1"))
    first = world.create(pod("a", wants()))
    world.bind(first)
    divide(world, card("A", gib=40))
    for limits in ({keys.NVIDIA_GPU: 1}, {keys.GPU_MEMORY: 100}):
        assert world.granted(world.create(pod("b", container("main", **limits)))) == []
    world.delete(first)
    world.occupancy("n1")
    assert [grant.grant.card for grant in world.entry("n1").grants] == ["A"]


def test_partitions_made_of_a_card_under_a_container_are_not_given_until_that_ends() -> None:
    world = cluster(card("A", gib=40))
    first = world.create(pod("a", container(gpu_memory=1000)))
    world.bind(first)
    divide(world, divided("A", "A1"))
    second = world.create(pod("b", wants()))
    assert world.granted(second) == []
    world.restart()
    assert world.granted(second) == []
    world.delete(first)
    world.occupancy("n1")
    assert world.granted(second) == ["A1"]


def test_a_pod_that_never_started_leaves_a_partition_that_was_closed() -> None:
    world = cluster(divided("A", "A1"))
    uid = world.create(pod("p", wants(), owner=("ReplicaSet", "o")))
    world.change(uid, node=NodeName("n1"))
    world.judge(verdict("n1", "A", bad=True))
    world.wait(61)
    world.occupancy("n1", alive=[PodUid("other")])
    assert [effect.uid for effect in world.effects(ef.FreeStuckPin)] == [uid]


def test_a_destroyed_partition_leaves_the_ledger_when_nobody_can_hold_it() -> None:
    world = cluster(divided("A", "A1", "A2"))
    divide(world, divided("A", "A2"))
    gone = replace(verdict("n1", "A1", bad=True), rule=DESTROYED, state=HealthState.LOST)
    world.judge(gone)
    assert world.closed("n1") == ["A1"]
    world.judge(replace(gone, seq=2, withheld=True))
    assert world.closed("n1") == []
    world.restart()
    assert world.closed("n1") == []


def test_a_verdict_that_goes_opens_no_card_that_is_there() -> None:
    world = cluster(divided("A", "A1"), card("B", index=1))
    for uuid in ("A", "A1", "B"):
        world.judge(verdict("n1", uuid, bad=True))
        world.send(ev.VerdictGone(NodeName("n1"), CardId(uuid)))
    world.settle()
    assert world.closed("n1") == ["A", "A1", "B"]
    divide(world, card("A", gib=40), card("B", index=1))
    world.send(ev.VerdictGone(NodeName("n1"), CardId("A1")))
    world.settle()
    assert world.closed("n1") == ["A", "B"]
