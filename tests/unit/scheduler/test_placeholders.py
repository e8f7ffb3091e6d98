"""Placeholders ask an autoscaler for the nodes that are missing, and get nothing themselves."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.facts import NodeFacts, PodFacts
from sublet_scheduler.core.pools import NodePool
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import Rules

from sublet.contract import keys
from sublet.model.ids import NodeName, PodRef, PodUid
from tests.builders import cards, container, inventory, pod
from tests.unit.scheduler.world import World

WITH_FOUR = Rules(placeholders=4, placeholder_after_s=10.0, preemption=False)
N1 = NodeName("n1")


@dataclass
class Growing(World):
    """Where the API server does what is asked of placeholders, unless told otherwise."""

    fails: bool = False

    def _perform(self, effect: ef.Effect) -> None:
        match effect:
            case ef.MakePlaceholder(name=name) if self.fails:
                self.send(ev.PlaceholderWritten(name, done=False))
            case ef.MakePlaceholder(name=name):
                assert name not in {one.ref.name for one in self.placeholders}
                self._version += 1
                made = PodFacts(
                    uid=PodUid(f"p-{self._version}"),
                    ref=PodRef(keys.PLACEHOLDER_NAMESPACE, name),
                    version=str(self._version),
                    placeholder=effect.stands_for,
                )
                self.pods[made.uid] = made
                self.send(ev.PlaceholderWritten(name, done=True, pod=made))
            case ef.RemovePlaceholder(uid, ref):
                self.send(ev.PlaceholderWritten(ref.name, done=True))
                if uid in self.pods:
                    self.send(ev.PodGone(uid, self.pods.pop(uid)))
            case _:
                super()._perform(effect)

    @property
    def placeholders(self) -> list[PodFacts]:
        return [one for one in self.pods.values() if one.placeholder is not None]

    @property
    def made(self) -> list[ef.MakePlaceholder]:
        return [one for one in self.log if isinstance(one, ef.MakePlaceholder)]

    def stand_for(self) -> list[tuple[PodUid, ...]]:
        return [one.placeholder or () for one in self.placeholders]

    def is_bound(self, node: str) -> None:
        """kube-scheduler put the only placeholder there."""
        [one] = self.placeholders
        self.change(one.uid, node=NodeName(node))


def full_node(rules: Rules = WITH_FOUR, **how: Any) -> Growing:
    """One node of two cards of 10 GiB, both taken."""
    world = Growing(rules=rules)
    world.node("n1", *cards("n1", 2), **how)
    world.create(pod("old", container(gpu=2)), uid="old")
    return world


def whole(name: str, count: int = 1, **more: Any) -> dict[str, Any]:
    return pod(name, container(gpu=count, **more))


def test_a_pod_that_waits_for_long_gets_a_placeholder_that_asks_what_it_asks() -> None:
    world = full_node()
    uid = world.create(whole("w", cpu=2, memory="4Gi"))
    world.wait(9)
    assert world.placeholders == []
    world.wait(2)
    [made] = world.made
    assert made.stands_for == (uid,)
    assert made.resources == {keys.GPU: 1}
    assert (made.cpu_milli, made.memory_mib, made.cards) == (2000, 4096, 1)


def test_without_the_setting_nobody_stands_for_anybody() -> None:
    world = full_node(Rules(preemption=False))
    world.create(whole("w"))
    world.wait(60)
    assert world.made == []


def test_pods_that_fit_on_one_node_together_share_a_placeholder() -> None:
    world = full_node()
    first, second, third = (world.create(whole(name)) for name in ("a", "b", "c"))
    world.wait(11)
    assert world.stand_for() == [(first, second), (third,)]
    assert world.made[0].resources == {keys.GPU: 2}


def test_shares_are_packed_by_card() -> None:
    world = full_node()
    uids = [world.create(pod(f"s{at}", container(gpu_memory=6000))) for at in range(3)]
    world.wait(11)
    assert world.stand_for() == [tuple(uids[:2]), (uids[2],)]


def test_pods_with_other_selectors_do_not_share_one() -> None:
    world = full_node(labels={"zone": "a", "pool": "p"})
    world.create(whole("a"))
    world.create(pod("b", container(gpu=1), nodeSelector={"zone": "a"}))
    world.wait(11)
    assert [one.wishes.node_selector for one in world.made] == [{}, {"zone": "a"}]


def test_a_later_pod_that_still_fits_on_the_node_to_come_needs_no_other_one() -> None:
    world = full_node()
    world.create(whole("a"))
    world.wait(11)
    world.create(whole("b"))
    world.wait(11)
    assert len(world.placeholders) == 1
    world.create(whole("c"))
    world.wait(11)
    assert len(world.placeholders) == 2


def test_there_are_never_more_than_the_cluster_allows() -> None:
    world = full_node()
    for at in range(12):
        world.create(whole(f"w{at}", 2))
    world.wait(40)
    assert len(world.placeholders) == 4


def test_it_goes_when_room_appears() -> None:
    world = full_node()
    uid = world.create(whole("w"))
    world.wait(11)
    assert len(world.placeholders) == 1
    world.node("n2", *cards("n2", 2))
    assert world.engine.state.records[uid].stage is Stage.RELEASED
    assert world.placeholders == []


def test_it_goes_when_nobody_it_stands_for_is_there() -> None:
    world = full_node()
    first, second = world.create(whole("a")), world.create(whole("b"))
    world.wait(11)
    world.delete(first)
    world.wait(1)
    assert len(world.placeholders) == 1
    world.delete(second)
    world.wait(1)
    assert world.placeholders == []


def test_it_takes_nothing_of_a_node_in_our_accounting() -> None:
    world = full_node()
    world.create(whole("w"))
    world.wait(11)
    world.nodes[NodeName("n2")] = NodeFacts(name=NodeName("n2"), cpu_milli=1000, memory_mib=1000)
    world.send(ev.NodeSeen(world.nodes[NodeName("n2")]))
    world.is_bound("n2")
    assert len(world.placeholders) == 1, "it keeps its node until that can be used"
    assert world.engine.state.fleet.nodes[NodeName("n2")].hosts == {}
    assert not [one for one in world.log if isinstance(one, ef.Report)]


def test_it_leaves_its_node_to_the_first_pod_that_gets_cards_there() -> None:
    world = full_node()
    uid = world.create(whole("w"))
    world.wait(11)
    world.is_bound("n2")
    world.node("n2", *cards("n2", 2))
    assert world.placeholders == []
    assert world.engine.state.records[uid].stage is Stage.RELEASED


def test_who_still_waits_after_the_node_came_gets_another_one() -> None:
    world = full_node()
    world.create(whole("a", 2))
    world.wait(11)
    late = [world.create(whole(f"late{at}", 2)) for at in range(2)]
    world.wait(11)
    assert len(world.placeholders) == 3
    world.node("n2", *cards("n2", 2))
    world.wait(2)
    assert sorted(world.stand_for()) == sorted((uid,) for uid in late)


def test_a_pod_larger_than_any_node_gets_none() -> None:
    world = full_node()
    world.create(whole("w", 3))
    world.wait(60)
    assert world.made == []


def test_a_pod_larger_than_any_node_gets_one_where_a_pool_is_known_that_takes_it() -> None:
    eight = NodePool(
        facts=NodeFacts(name=NodeName("pool"), labels={"pool": "big"}, cpu_milli=96_000, memory_mib=10**6),
        inventory=inventory("pool", *cards("pool", 8)),
    )
    world = full_node(replace(WITH_FOUR, pools=(eight,)))
    world.create(pod("w", container(gpu=3), nodeSelector={"pool": "big"}))
    world.create(pod("elsewhere", container(gpu=3), nodeSelector={"pool": "huge"}))
    world.wait(11)
    [made] = world.made
    assert made.wishes.node_selector == {"pool": "big"}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"kubernetes.io/hostname": "n1"}},
        {"annotations": {keys.CARD_UUIDS: "n1-0"}},
    ],
)
def test_a_pod_that_names_its_node_or_card_gets_none(spec: dict[str, Any]) -> None:
    world = full_node(labels={"kubernetes.io/hostname": "n1"})
    world.create(pod("w", container(gpu=1), **spec))
    world.wait(60)
    assert world.made == []


def test_a_namespace_at_its_limit_gets_none() -> None:
    world = full_node()
    world.quota("none", cards=0)
    world.create(whole("w"))
    world.wait(60)
    assert world.made == []


def test_a_failed_write_is_tried_again_ever_less_often() -> None:
    world = full_node()
    world.fails = True
    world.create(whole("w"))
    world.wait(300)
    assert 5 <= len(world.made) <= 12
    world.fails = False
    world.wait(70)
    assert len(world.placeholders) == 1


def test_a_new_scheduler_goes_on_with_those_that_are_there() -> None:
    world = full_node()
    world.create(whole("a"))
    world.create(whole("b"))
    world.wait(11)
    before = world.placeholders
    world.restart()
    world.wait(30)
    assert [one.uid for one in world.placeholders] == [one.uid for one in before]
    assert len(world.made) == 1


def test_without_the_ledger_none_is_made_and_time_goes_by_quietly() -> None:
    world = full_node()
    world.create(whole("w"))
    world.lose_ledger()
    world.wait(60)
    assert world.made == []
    world.ledger_back()
    world.wait(2)
    assert len(world.placeholders) == 1


def test_with_the_setting_taken_back_those_that_are_there_go_with_their_pods() -> None:
    world = full_node()
    uid = world.create(whole("w"))
    world.wait(11)
    world.rules = Rules(preemption=False)
    world.restart()
    assert len(world.placeholders) == 1
    world.delete(uid)
    assert world.placeholders == []
