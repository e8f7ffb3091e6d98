"""One ballast pod a node, sized to its idle cards, which gives way before a pod with cards comes."""

from dataclasses import dataclass, replace
from typing import Any

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.facts import BallastFacts, PodFacts
from sublet_scheduler.core.ratio import LEAST, Ratio
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.size import Size
from sublet_scheduler.core.state import Rules

from sublet.contract import keys
from sublet.model.ids import NodeName, PodRef, PodUid
from tests.builders import cards, container, pod, verdict
from tests.unit.scheduler.world import World

N1 = NodeName("n1")
MIB = 2**20
FOUR = Ratio(selector={"pool": "a"}, cpu_milli=4_000, memory_bytes=1024 * MIB)
WITH_FOUR = Rules(ratios=(FOUR,), ballast_wait_s=10.0)


def cores(count: int) -> Size:
    """For so many idle cards four cores and a GiB each."""
    return Size(cpu_milli=count * 4_000, memory_bytes=count * 1024 * MIB)


@dataclass
class Kept(World):
    """Where the API server and the kubelets do what is asked of ballast pods, unless told otherwise."""

    binds: bool = True
    kubelet_resizes: bool = True
    fails: bool = False

    def _perform(self, effect: ef.Effect) -> None:
        match effect:
            case ef.MakeBallast() | ef.ResizeBallast() | ef.RemoveBallast() if self.fails:
                self.send(ev.BallastWritten(effect.node, done=False))
            case ef.MakeBallast(node, _, size):
                assert not [one for one in self.pods.values() if one.ballast and one.ballast.node == node]
                self._version += 1
                made = PodFacts(
                    uid=PodUid(f"ballast-{self._version}"),
                    ref=PodRef(keys.BALLAST_NAMESPACE, f"ballast-{node}"),
                    version=str(self._version),
                    node=node if self.binds else None,
                    ballast=BallastFacts(node=node, asked=size, counted=size),
                )
                self.pods[made.uid] = made
                self.send(ev.BallastWritten(node, done=True, pod=made))
            case ef.ResizeBallast(node, uid, _, version, size):
                before = self.pods[uid]
                assert before.version == version
                assert before.ballast
                counted = size if self.kubelet_resizes else before.ballast.counted
                self._tell(uid, replace(before.ballast, asked=size, counted=counted))
                self.send(ev.BallastWritten(node, done=True, pod=self.pods[uid]))
            case ef.RemoveBallast(node, uid):
                self.send(ev.BallastWritten(node, done=True))
                if uid in self.pods:
                    self.send(ev.PodGone(uid, self.pods.pop(uid)))
            case _:
                super()._perform(effect)

    def _tell(self, uid: PodUid, ballast: BallastFacts, **facts: Any) -> None:
        self._version += 1
        self.pods[uid] = replace(self.pods[uid], ballast=ballast, version=str(self._version), **facts)
        self.send(ev.PodSeen(self.pods[uid]))

    @property
    def ballast(self) -> PodFacts:
        [found] = [one for one in self.pods.values() if one.ballast]
        return found

    @property
    def kept(self) -> Size:
        assert self.ballast.ballast
        return self.ballast.ballast.asked

    @property
    def count(self) -> int:
        return sum(one.ballast is not None for one in self.pods.values())

    def bind_ballast(self) -> None:
        assert self.ballast.ballast
        self._tell(self.ballast.uid, self.ballast.ballast, node=self.ballast.ballast.node)
        self.settle()

    def kubelet_has_resized(self) -> None:
        assert self.ballast.ballast
        asked = self.ballast.ballast.asked
        self._tell(self.ballast.uid, replace(self.ballast.ballast, counted=asked))
        self.settle()

    def other_pod(self, name: str, cpu_milli: int, **facts: Any) -> PodUid:
        """A pod without cards on n1."""
        other = PodFacts(uid=PodUid(name), ref=PodRef("default", name), node=N1, cpu_milli=cpu_milli, **facts)
        self.pods[other.uid] = other
        self.send(ev.PodSeen(other))
        self.settle()
        return other.uid

    def resizes(self) -> list[ef.ResizeBallast]:
        return [one for one in self.log if isinstance(one, ef.ResizeBallast)]


def four_cards(*, cpu_milli: int = 32_000, labels: dict[str, str] | None = None, **how: Any) -> Kept:
    world = Kept(rules=WITH_FOUR, **how)
    world.node("n1", *cards("n1", 4), cpu_milli=cpu_milli, labels=labels or {"pool": "a"})
    return world


def whole_card(name: str, cpu: str = "4") -> dict[str, Any]:
    return pod(name, container(gpu=1, cpu=cpu))


def test_a_node_of_the_pool_gets_one_ballast_pod_for_its_idle_cards() -> None:
    world = four_cards()
    assert world.kept == cores(4)
    assert world.ballast.node == N1


def test_a_node_outside_the_pool_and_one_without_cards_get_none() -> None:
    world = four_cards(labels={"pool": "b"})
    world.node("n2", labels={"pool": "a"})
    assert world.count == 0


def test_without_a_ratio_nothing_is_asked_for() -> None:
    world = Kept()
    world.node("n1", *cards("n1", 4), labels={"pool": "a"})
    assert world.count == 0


def test_it_shrinks_as_cards_fill_and_grows_as_they_empty() -> None:
    world = four_cards()
    first = world.create(whole_card("one"))
    assert world.kept == cores(3)
    world.create(pod("part", container(gpu_memory=1024)))
    assert world.kept == cores(2)
    world.bind(first)
    world.change(first, phase="Succeeded", settled=True)
    assert world.kept == cores(3)


def test_it_grows_as_soon_as_the_cpu_is_free_though_the_card_may_still_be_in_use() -> None:
    world = four_cards()
    uid = world.create(whole_card("one"))
    world.bind(uid)
    world.delete(uid, seen=False)
    assert world.engine.state.records[uid].stage is Stage.ENDING
    assert world.kept == cores(4)


def test_a_reservation_alone_shrinks_it_and_its_end_grows_it_again() -> None:
    world = four_cards()
    world.ask(whole_card("never-seen"))
    assert world.kept == cores(3)
    world.wait(11)
    assert world.kept == cores(4)


def test_it_is_no_larger_than_what_is_free() -> None:
    world = four_cards(cpu_milli=10_000)
    assert world.kept.cpu_milli == 10_000
    world.other_pod("system", 3_000)
    assert world.kept.cpu_milli == 7_000


def test_the_cpu_of_the_ballast_counts_as_free_for_pods_with_cards() -> None:
    world = four_cards(cpu_milli=16_000)
    assert world.kept.cpu_milli == 16_000
    uid = world.create(whole_card("all-of-it", cpu="16"))
    assert world.engine.state.records[uid].stage is Stage.RELEASED
    assert world.kept.cpu_milli == LEAST.cpu_milli


def test_a_pod_with_cards_is_released_only_after_the_kubelet_made_the_ballast_smaller() -> None:
    world = four_cards(cpu_milli=16_000, kubelet_resizes=False)
    uid = world.create(whole_card("one"))
    assert world.engine.state.records[uid].stage is Stage.RELEASING
    assert world.kept == cores(3)
    world.kubelet_has_resized()
    assert world.engine.state.records[uid].stage is Stage.RELEASED


def test_where_there_is_room_beside_the_ballast_nobody_waits_for_it() -> None:
    world = four_cards(cpu_milli=64_000, kubelet_resizes=False)
    uid = world.create(whole_card("one"))
    assert world.engine.state.records[uid].stage is Stage.RELEASED


def test_a_pod_waits_for_the_ballast_no_longer_than_its_time() -> None:
    world = four_cards(cpu_milli=16_000, kubelet_resizes=False)
    uid = world.create(whole_card("one"))
    world.wait(9)
    assert world.engine.state.records[uid].stage is Stage.RELEASING
    world.wait(2)
    assert world.engine.state.records[uid].stage is Stage.RELEASED


def test_a_failed_write_is_tried_again_and_the_pod_goes_all_the_same() -> None:
    world = four_cards(cpu_milli=16_000)
    world.fails = True
    uid = world.create(whole_card("one"))
    assert world.kept == cores(4)
    world.fails = False
    world.wait(2)
    assert world.kept == cores(3)
    assert world.engine.state.records[uid].stage is Stage.RELEASED


def test_writes_that_fail_for_long_are_tried_ever_less_often() -> None:
    world = four_cards(cpu_milli=16_000)
    world.fails = True
    world.create(whole_card("one"))
    before = len(world.resizes())
    world.wait(300)
    assert 5 <= len(world.resizes()) - before <= 12


def test_nobody_waits_for_a_ballast_pod_that_is_missing() -> None:
    world = Kept(rules=WITH_FOUR, fails=True)
    world.node("n1", *cards("n1", 4), cpu_milli=16_000, labels={"pool": "a"})
    uid = world.create(whole_card("one"))
    assert world.engine.state.records[uid].stage is Stage.RELEASED


def test_a_pending_ballast_pod_that_became_too_large_is_made_anew() -> None:
    world = four_cards(cpu_milli=16_000, binds=False)
    before = world.ballast.uid
    uid = world.create(whole_card("one"))
    assert world.engine.state.records[uid].stage is Stage.RELEASED
    assert world.ballast.uid != before
    assert world.kept == cores(3)


def test_a_pending_ballast_pod_grows_once_it_runs() -> None:
    world = four_cards(cpu_milli=16_000, binds=False)
    other = world.other_pod("system", 12_000)
    assert world.kept.cpu_milli == 4_000
    world.delete(other)
    assert world.kept.cpu_milli == 4_000
    world.bind_ballast()
    assert world.kept.cpu_milli == 16_000


def test_a_ballast_pod_that_somebody_evicted_is_made_anew_with_what_is_free() -> None:
    world = four_cards(cpu_milli=16_000)
    evicted = world.ballast.uid
    world.other_pod("important", 6_000)
    world.delete(evicted)
    assert world.ballast.uid != evicted
    assert world.kept.cpu_milli == 10_000


def test_a_ballast_pod_that_failed_is_replaced() -> None:
    world = four_cards()
    failed = world.ballast.uid
    world.change(failed, phase="Failed")
    assert world.count == 1
    assert world.ballast.uid != failed


def test_a_cordoned_node_gets_no_new_ballast_pod_and_keeps_its_old_one() -> None:
    world = four_cards()
    world.nodes[N1] = replace(world.nodes[N1], unschedulable=True)
    world.send(ev.NodeSeen(world.nodes[N1]))
    world.settle()
    assert world.count == 1
    world.delete(world.ballast.uid)
    assert world.count == 0
    world.nodes[N1] = replace(world.nodes[N1], unschedulable=False)
    world.send(ev.NodeSeen(world.nodes[N1]))
    world.settle()
    assert world.count == 1


def test_a_node_that_leaves_the_pool_loses_its_ballast_pod() -> None:
    world = four_cards()
    world.nodes[N1] = replace(world.nodes[N1], labels={"pool": "b"})
    world.send(ev.NodeSeen(world.nodes[N1]))
    world.settle()
    assert world.count == 0


def test_a_node_whose_agent_took_its_leave_loses_its_ballast_pod() -> None:
    world = four_cards()
    world.wait(61)
    world.send(ev.InventoryGone(N1))
    world.settle()
    assert world.count == 0


def test_a_node_with_another_driver_for_its_cards_loses_its_ballast_pod() -> None:
    world = four_cards()
    world.send(ev.DraServed(frozenset({N1})))
    world.settle()
    assert world.count == 0


def test_a_ballast_pod_of_a_node_that_is_gone_is_removed() -> None:
    world = four_cards()
    del world.nodes[N1]
    world.send(ev.NodeGone(N1))
    world.settle()
    assert world.count == 0


def test_a_silent_agent_changes_nothing() -> None:
    world = four_cards()
    world.now += 3_600
    world.send(ev.Tick())
    world.settle()
    assert world.kept == cores(4)


def test_a_new_scheduler_goes_on_with_the_pods_that_are_there() -> None:
    world = four_cards()
    before = world.ballast.uid
    world.create(whole_card("one"))
    world.restart()
    assert world.ballast.uid == before
    assert world.kept == cores(3)


def test_a_new_scheduler_waits_for_the_agents_before_it_calls_a_node_unmanaged() -> None:
    world = four_cards()
    told, world.inventories = world.inventories, {}
    world.restart()
    world.wait(50)
    assert world.count == 1
    world.wait(20)
    assert world.count == 0
    world.inventories = told


def test_without_the_ledger_no_ballast_pod_is_touched() -> None:
    world = four_cards()
    world.lose_ledger()
    world.other_pod("system", 20_000)
    assert world.kept == cores(4)
    world.ledger_back()
    assert world.kept.cpu_milli == 12_000


def test_a_ballast_pod_is_one_of_the_pods_that_a_node_can_take() -> None:
    world = four_cards()
    assert world.ballast.uid in world.engine.state.fleet.nodes[N1].hosts


def test_a_closed_card_needs_no_cpu() -> None:
    world = four_cards()
    world.judge(verdict("n1", "n1-0", bad=True))
    assert world.kept == cores(3)
