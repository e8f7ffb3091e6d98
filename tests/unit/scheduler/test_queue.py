"""The queue: who waits is served by priority, then age, and nobody behind makes those ahead wait longer."""

from dataclasses import replace
from typing import Any

from sublet_scheduler.core import events as ev
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import Rules

from sublet.contract.decision import Decision
from sublet.model.card import Heartbeat
from sublet.model.claim import PodAsk
from sublet.model.ids import DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from tests.builders import ask, card, cards, container, pod
from tests.unit.scheduler.world import World


def fleet(*nodes: int, rules: Rules | None = None) -> World:
    """Nodes n1, n2, ... with so many cards of 10 GiB each."""
    world = World(rules or Rules())
    for at, count in enumerate(nodes, 1):
        world.node(f"n{at}", *cards(f"n{at}", count))
    return world


def gib(amount: int, name: str, *, priority: int = 0, **spec: Any) -> dict[str, Any]:
    return pod(name, container(gpu_memory=amount * 1024), priority=priority, **spec)


def whole(name: str, count: int = 1, *, priority: int = 0) -> dict[str, Any]:
    return pod(name, container(gpu=count), priority=priority)


def runs(world: World, manifest: dict[str, Any]) -> PodUid:
    uid = world.create(manifest)
    world.bind(uid)
    return uid


def ends(world: World, *uids: PodUid) -> None:
    for uid in uids:
        world.change(uid, phase="Succeeded", settled=True)


def ends_unsettled(world: World, uid: PodUid) -> None:
    """The pod's end is known, and the queue was tried so lately that it is not tried again yet."""
    world.engine.state.passed_s = world.now
    world.physical.pop(uid)
    world.pods[uid] = replace(world.pods[uid], version="ended", phase="Succeeded", settled=True)
    world.send(ev.PodSeen(world.pods[uid]))


def test_the_higher_priority_is_served_before_the_older() -> None:
    world = fleet(1)
    first = runs(world, gib(10, "first"))
    older = world.create(gib(10, "older"), created_s=1.0)
    higher = world.create(gib(10, "higher", priority=5), created_s=2.0)
    ends(world, first)
    assert world.stage(higher) is Stage.RELEASED
    assert world.stage(older) is Stage.WAITING


def test_small_pods_do_not_take_the_card_that_a_whole_claim_waits_for() -> None:
    world = fleet(1)
    first, second = runs(world, gib(5, "first")), runs(world, gib(5, "second"))
    large = world.create(whole("large"))
    ends(world, first)
    small = world.create(gib(2, "small"))
    assert world.stage(small) is Stage.WAITING
    ends(world, second)
    assert world.granted(large) == ["n1-0"]


def test_a_small_pod_passes_where_that_cannot_delay_the_large_one() -> None:
    world = fleet(2)
    runs(world, gib(6, "a"))
    runs(world, gib(7, "b"))
    large = world.create(whole("large"))  # waits for card 1, from which 7 GiB must go
    small = world.create(gib(3, "small"))
    assert world.stage(large) is Stage.WAITING
    assert world.granted(small)
    plan = world.engine.holds.of(large)
    assert plan is not None
    assert world.granted(small) != [grant.card for grant in plan.grants]


def test_what_is_left_over_beside_the_waiting_pod_can_be_used_at_once() -> None:
    world = fleet(1)
    first = runs(world, gib(7, "first"))
    waits = world.create(gib(6, "waits"))
    passes = world.create(gib(3, "passes"))  # 6 + 3 fit beside each other when the 7 have left
    delays = world.create(gib(1, "delays-nothing"))
    assert world.granted(passes) == ["n1-0"]
    assert world.stage(delays) is Stage.WAITING  # nothing is free now
    ends(world, first)
    assert world.granted(waits) == ["n1-0"]
    assert world.granted(delays) == ["n1-0"]


def test_a_pod_of_higher_priority_is_not_bound_by_what_is_kept_for_lower_ones() -> None:
    world = fleet(1)
    runs(world, gib(5, "first"))
    world.create(whole("low"))
    assert world.granted(world.create(gib(5, "high", priority=1))) == ["n1-0"]


def test_a_newcomer_is_put_behind_while_a_freed_card_waits_for_its_pass() -> None:
    world = fleet(1)
    first = runs(world, gib(10, "first"))
    waits = world.create(gib(10, "waits"))
    ends_unsettled(world, first)
    _, outcome = world.ask(gib(1, "newcomer"))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.QUEUED: 1}
    assert world.granted(waits) == ["n1-0"]


def test_a_pod_that_was_created_but_not_seen_yet_is_ahead_of_later_ones() -> None:
    world = fleet(1)
    first = runs(world, gib(10, "first"))
    id_, outcome = world.ask(gib(10, "earlier"))
    assert isinstance(outcome, NoRoom)
    ends_unsettled(world, first)
    _, later = world.ask(gib(1, "later"))
    assert isinstance(later, NoRoom)
    assert later.reasons == {Reason.QUEUED: 1}
    assert world.granted(world.appears(gib(10, "earlier"), id_, None)) == ["n1-0"]


def test_a_newcomer_of_higher_priority_need_not_wait_for_the_queue() -> None:
    world = fleet(1)
    first = runs(world, gib(10, "first"))
    world.create(gib(10, "waits"))
    ends_unsettled(world, first)
    _, outcome = world.ask(gib(10, "newcomer", priority=1))
    assert isinstance(outcome, Placement)


def test_whoever_is_passed_over_is_told_that_the_card_is_kept() -> None:
    world = fleet(1)
    runs(world, gib(5, "first"))
    world.create(whole("large"))
    _, outcome = world.ask(gib(2, "small"))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.KEPT: 1}
    assert "ahead in the queue" in outcome.message


def test_a_pod_that_no_node_could_ever_take_keeps_nothing() -> None:
    world = fleet(1)
    runs(world, gib(5, "first"))
    world.create(whole("too-many", 2))
    world.create(gib(11, "too-large"))
    world.create(pod("elsewhere", container(gpu=1), nodeSelector={"zone": "mars"}))
    assert world.granted(world.create(gib(5, "small"))) == ["n1-0"]


def test_cpu_that_the_waiting_pod_needs_is_kept_as_well() -> None:
    world = World()
    world.node("n1", card("A"), card("B", index=1), cpu_milli=4000)
    first = runs(world, pod("first", container(gpu_memory=1024, cpu="3")))
    waits = world.create(pod("waits", container(gpu_memory=1024, cpu="4")))
    behind = world.create(pod("behind", container(gpu_memory=1024, cpu="1")))
    free = world.create(pod("asks-for-no-cpu", container(gpu_memory=1024)))
    assert (world.stage(waits), world.stage(behind)) == (Stage.WAITING, Stage.WAITING)
    assert world.granted(free)
    ends(world, first)
    assert world.granted(waits)


def test_the_place_is_kept_where_the_fewest_pods_must_leave() -> None:
    world = fleet(1, 1)
    for at in range(3):
        runs(world, gib(2, f"n1-{at}", nodeSelector=None))
    one = runs(world, gib(6, "alone"))
    large = world.create(whole("large"))
    plan = world.engine.holds.of(large)
    assert plan is not None
    assert plan.leaving == {one}


def test_a_place_where_nobody_leaves_is_given_up_for_another() -> None:
    world = fleet(1, 1, rules=Rules(hold_s=600.0))
    runs(world, gib(9, "a"))
    runs(world, gib(9, "b"))
    large = world.create(whole("large"))
    before = world.engine.holds.of(large)
    world.wait(601)
    world.create(gib(1, "passes"))
    after = world.engine.holds.of(large)
    assert before is not None
    assert after is not None
    assert before.node != after.node


def test_only_the_first_in_the_queue_keep_places() -> None:
    world = fleet(3, rules=Rules(holds=1))
    for at in range(3):
        runs(world, gib(6, f"full-{at}"))
    first = world.create(whole("first"))
    second = world.create(whole("second"))
    assert world.engine.holds.of(first)
    assert world.engine.holds.of(second) is None


def test_a_place_is_free_again_when_its_pod_is_deleted() -> None:
    world = fleet(1)
    runs(world, gib(5, "first"))
    large = world.create(whole("large"))
    small = world.create(gib(2, "small"))
    world.delete(large)
    assert world.granted(small) == ["n1-0"]


def test_ten_thousand_waiting_pods_cost_nothing_while_nothing_happens() -> None:
    world = World()
    world.node("n1", card("A"))
    runs(world, gib(10, "first"))
    asked = ask(gib(10, "waits"))
    for at in range(10_000):
        named = replace(asked, pod=PodRef("default", f"waits-{at}"))
        seen = world.pods[PodUid(f"w{at}")] = _seen(world, named, at)
        world.engine.handle(ev.PodSeen(seen), now=world.now)
    world.settle()
    assert len(world.engine.state.waiting) == 10_000
    before = world.engine.state.placer.tries
    for second in range(60):
        beat = Heartbeat(node=NodeName("n1"), boot_id="boot-1", epoch="epoch-1", seq=10**9 + second, at_ms=0)
        world.engine.handle(ev.HeartbeatSeen(beat), now=world.now + second)
        world.engine.handle(ev.Tick(), now=world.now + second)
    assert world.engine.state.placer.tries == before
    assert world.engine.due(world.now + 60) is None


def _seen(world: World, asked: PodAsk, at: int) -> PodFacts:
    decision = Decision(id=DecisionId(f"w{at}"), uid=None, placement=None)
    return PodFacts(
        uid=PodUid(f"w{at}"), ref=asked.pod, version="1", ask=asked, gated=True, decision=decision,
        decision_text="{}", proposed=True, created_s=world.now + at,
    )  # fmt: skip


def test_sixteen_pods_keep_places_though_one_pass_finds_fewer() -> None:
    world = fleet(20)
    for at in range(20):
        runs(world, gib(6, f"full-{at:02}"))
    waits = [world.create(whole(f"waits-{at:02}")) for at in range(20)]
    world.restart()  # now one pass meets them all
    world.wait(1)
    kept = [uid for uid in waits if world.engine.holds.of(uid)]
    assert kept == waits[:16]
    assert not world.engine.state.dirty


def test_a_pod_that_is_not_waited_out_by_others_leaving_costs_no_search() -> None:
    world = World()
    world.node("n1", card("A", gib=None))  # takes whole cards only
    waits = world.create(gib(1, "waits"))
    assert world.engine.holds.of(waits) is None
