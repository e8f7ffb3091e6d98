"""A pod's way through the engine: promised, committed, released, ended."""

from dataclasses import replace

import pytest
from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import Rules

from sublet.contract.dialects.interface import Options
from sublet.contract.dialects.memoryunits import Pool
from sublet.model.ids import NodeName, PodRef, PodUid
from sublet.model.placement import GrantState, NoRoom, Placement
from sublet.model.reasons import Reason, Refusal, RefusalCode, ReportCode
from tests.builders import card, cards, container, pod, verdict
from tests.unit.scheduler.world import World


def one_card(gib: int = 10) -> World:
    world = World()
    world.node("n1", card("A", gib=gib))
    return world


def gib(amount: int, name: str = "pod") -> dict[str, object]:
    return pod(name, container(gpu_memory=amount * 1024))


def test_a_pod_is_promised_committed_and_released_in_that_order() -> None:
    world = one_card()
    world.hold_writes = True
    uid = world.create(gib(4))
    assert world.stage(uid) is Stage.COMMITTING
    assert world.effects(ef.ReleasePod) == []

    world.hold_writes = False
    world.settle()
    assert world.granted(uid) == ["A"]
    assert world.stage(uid) is Stage.RELEASED
    assert world.released[uid].node == "n1"


def test_asking_again_under_the_same_id_reserves_once() -> None:
    world = one_card()
    first, outcome = world.ask(gib(6))
    again, same = world.ask(gib(6), known=first)
    assert (again, same) == (first, outcome)
    assert isinstance(world.ask(gib(4))[1], Placement)
    assert isinstance(world.ask(gib(1))[1], NoRoom)


def test_a_reinvocation_with_other_claims_replaces_the_reservation() -> None:
    world = one_card()
    first, _ = world.ask(gib(8))
    same_id, outcome = world.ask(gib(3), known=first)
    assert same_id == first
    assert isinstance(outcome, Placement)
    assert isinstance(world.ask(gib(7))[1], Placement)


def test_ten_equal_pods_reserve_ten_times() -> None:
    world = one_card()
    outcomes = [world.ask(gib(1))[1] for _ in range(11)]
    assert [isinstance(one, Placement) for one in outcomes] == [True] * 10 + [False]


def test_a_dry_run_reserves_nothing() -> None:
    world = one_card()
    assert isinstance(world.ask(gib(10), dry_run=True)[1], Placement)
    assert isinstance(world.ask(gib(10))[1], Placement)


def test_a_decision_id_that_was_never_promised_is_a_forgery() -> None:
    world = one_card()
    _, outcome = world.ask(gib(1), known="stolen")
    assert isinstance(outcome, Refusal)
    assert outcome.code is RefusalCode.RESERVED_KEY
    assert "stolen" in outcome.message


def test_a_pod_that_never_appears_gives_its_memory_back() -> None:
    world = one_card()
    world.ask(gib(8))
    assert isinstance(world.ask(gib(8))[1], NoRoom)
    world.wait(11)
    assert isinstance(world.ask(gib(8))[1], Placement)


def test_a_pod_that_appears_after_its_reservation_expired_is_decided_anew() -> None:
    world = one_card()
    late, outcome = world.ask(gib(8, "late"))
    world.wait(11)
    assert isinstance(outcome, Placement)
    first = world.create(gib(8, "first"))
    uid = world.appears(gib(8, "late"), late, outcome)
    assert world.stage(uid) is Stage.WAITING
    world.bind(first)
    world.change(first, phase="Succeeded", settled=True)
    assert world.granted(uid) == ["A"]


def test_what_waits_is_placed_in_order_of_arrival() -> None:
    world = one_card()
    first = world.create(gib(10, "first"))
    second = world.create(gib(10, "second"), created_s=2000.0)
    third = world.create(gib(10, "third"), created_s=1999.0)
    world.bind(first)
    world.change(first, phase="Succeeded", settled=True)
    assert world.granted(third) == ["A"]
    assert world.granted(second) == []


def test_a_pod_with_a_foreign_gate_waits_until_ours_is_the_last() -> None:
    world = one_card()
    asked, outcome = world.ask(gib(1), foreign_gates=True)
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.FOREIGN_GATE: 1}
    uid = world.appears(gib(1), asked, None, foreign_gates=True)
    assert world.granted(uid) == []
    world.change(uid, foreign_gates=False)
    assert world.granted(uid) == ["A"]


def test_a_deleted_pod_that_never_had_a_node_frees_at_once() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.delete(uid)
    assert world.granted(uid) == []
    assert isinstance(world.ask(gib(10))[1], Placement)


@pytest.mark.parametrize("gated", [True, False])
def test_a_deleted_pod_without_a_node_frees_at_once_though_a_finalizer_keeps_its_object(gated: bool) -> None:
    world = one_card()
    world.hold_patches = gated
    uid = world.create(gib(10))
    assert world.granted(uid) == ["A"]
    world.change(uid, deleting=True)
    assert world.granted(uid) == []
    world.hold_patches = False
    world.settle()  # what was on its way comes too late to count
    assert world.granted(uid) == []
    assert isinstance(world.ask(gib(10))[1], Placement)

    world.restart()
    assert world.granted(uid) == []
    world.delete(uid)
    assert world.stage(uid) is None


def test_a_waiting_pod_that_is_being_deleted_is_placed_no_more() -> None:
    world = one_card()
    first, late = world.create(gib(10, "first")), world.create(gib(10, "late"))
    world.change(late, deleting=True)
    world.delete(first)
    assert world.granted(late) == []


def test_a_promise_to_a_pod_that_is_deleted_before_it_is_seen_is_free_at_once() -> None:
    world = one_card()
    id_, placed = world.ask(gib(10))
    assert isinstance(placed, Placement)
    world.appears(gib(10), id_, placed, deleting=True)
    assert isinstance(world.ask(gib(10))[1], Placement)


def test_a_running_pod_that_is_being_deleted_counts_until_its_containers_have_ended() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    world.change(uid, deleting=True)
    assert world.granted(uid) == ["A"]
    world.change(uid, phase="Failed", settled=True)  # its finalizers may stay for long
    assert world.granted(uid) == []


def test_a_force_deleted_pod_counts_until_the_agent_proves_that_nothing_is_left() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    before = world.entry("n1").revision
    world.delete(uid)
    assert world.stage(uid) is Stage.ENDING
    assert [one.state for one in world.entry("n1").grants] == [GrantState.ENDING]

    world.occupancy("n1", alive=[uid])
    world.occupancy("n1", cgroups_read=False)
    world.occupancy("n1", revision=before)  # an older look is no evidence
    assert world.granted(uid) == ["A"]
    assert isinstance(world.ask(gib(1))[1], NoRoom)

    world.occupancy("n1")
    assert world.granted(uid) == []
    assert isinstance(world.ask(gib(10))[1], Placement)


def test_a_failed_pod_whose_object_is_gone_is_forgotten_when_it_is_proved_gone() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    world.change(uid, phase="Failed", settled=False)
    world.delete(uid)
    world.occupancy("n1")
    assert world.granted(uid) == []
    assert world.stage(uid) is None


@pytest.mark.parametrize("ended", [True, False])
def test_a_pod_that_goes_during_a_take_over_without_a_grant_was_proved_gone_before(ended: bool) -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    if ended:
        world.change(uid, phase="Failed", settled=False)
    last = world.pods.pop(uid)
    world.ledger[NodeName("n1")] = replace(world.entry("n1"), grants=())
    world.engine = Engine(world.rules)
    world.send(ev.PodSeen(last))
    world.send(ev.PodGone(uid, last))
    for event in (ev.PodsListed(), ev.NodesListed(), ev.QuotasListed(), ev.LedgerSeen(world.entry("n1"))):
        world.send(event)
    world.send(ev.LedgerListed(2, complete=True))
    assert world.stage(uid) is None


def test_a_reboot_frees_what_was_ending() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    world.delete(uid, seen=False)
    world.occupancy("n1", cgroups_read=False, boot_id="boot-2")
    assert world.granted(uid) == []


def test_the_operators_word_frees_what_ends_on_a_dead_node() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    world.delete(uid)
    world.send(ev.NodeReleased(world.released[uid].node, by="ops"))
    world.settle()
    assert world.granted(uid) == []
    assert "NodeReleased" in world.reports()


def test_a_failed_pod_whose_containers_may_run_still_counts() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    world.change(uid, phase="Failed", settled=False)
    assert world.granted(uid) == ["A"]
    world.occupancy("n1")
    assert world.granted(uid) == []


def test_a_successor_of_the_same_name_waits_until_its_predecessor_is_gone_from_the_node() -> None:
    world = one_card(20)
    old = world.create(gib(2, "web-0"))
    world.bind(old)
    world.delete(old)
    new = world.create(gib(2, "web-0"))
    assert world.granted(new) == []
    why = world.engine.state.records[new].no_room
    assert why is not None
    assert why.reasons == {Reason.PREDECESSOR_ENDING: 1}
    world.occupancy("n1")
    assert world.granted(new) == ["A"]


def test_a_condemned_card_takes_nobody_new_and_its_pod_runs_on() -> None:
    world = one_card()
    uid = world.create(gib(2))
    world.bind(uid)
    world.judge(verdict("n1", "A", bad=True))
    assert world.closed("n1") == ["A"]
    assert world.granted(uid) == ["A"]
    assert isinstance(world.ask(gib(1, "new"))[1], NoRoom)
    world.judge(verdict("n1", "A", bad=False, seq=2))
    assert world.closed("n1") == []
    assert isinstance(world.ask(gib(1, "new"))[1], Placement)


def test_a_card_that_closes_between_commit_and_release_is_fenced_before_its_grant_goes() -> None:
    world = World()
    world.node("n1", *cards("n1", 2))
    world.hold_patches = True
    uid = world.create(gib(8))
    [older] = [one for one in world.held if isinstance(one, ef.ReleasePod)]
    world.judge(verdict("n1", "n1-0", bad=True))
    assert world.stage(uid) is Stage.FENCING
    assert world.granted(uid) == ["n1-0"]

    world.hold_patches = False
    world.held.clear()
    world.send(ev.PatchUnclear(uid))  # nobody knows what became of the release
    world.wait(2)
    assert world.granted(uid) == ["n1-1"]
    world.patch(older)  # it arrives at last, and must fail
    assert world.released[uid].containers["main"][0].card == "n1-1"


def test_a_release_that_took_effect_though_nobody_heard_keeps_its_grant() -> None:
    world = one_card()
    world.hold_patches = True
    uid = world.create(gib(8))
    [release] = [one for one in world.held if isinstance(one, ef.ReleasePod)]
    world.held.clear()
    world.patch(release)
    world.hold_patches = False
    world.settle()
    assert world.stage(uid) is Stage.RELEASED
    assert world.granted(uid) == ["A"]


def test_a_pod_absent_after_an_unclear_release_still_counts() -> None:
    world = one_card()
    world.hold_patches = True
    uid = world.create(gib(8))
    world.held.clear()
    world.delete(uid, seen=False)
    assert world.stage(uid) is Stage.ENDING
    world.occupancy("n1")
    assert world.granted(uid) == []


def test_a_pod_on_a_named_node_is_decided_there_or_refused() -> None:
    world = one_card()
    manifest = pod("direct", container(gpu_memory=8192), nodeName="n1")
    uid = world.create(manifest, node="n1")
    assert world.granted(uid) == ["A"]
    assert world.pods[uid].signed
    _, outcome = world.ask(manifest)
    assert isinstance(outcome, Refusal)
    assert outcome.code is RefusalCode.NODE_CANNOT_TAKE_IT


def test_a_stuck_pin_is_freed_after_a_minute_and_its_owner_avoids_the_node() -> None:
    world = World()
    world.node("n1", card("A"))
    world.node("n2", card("B"))
    manifest = pod("web-1", container(gpu_memory=1024), owner=("ReplicaSet", "rs-1"))
    uid = world.create(manifest)
    assert world.released[uid].node == "n1"
    world.change(uid, unschedulable=True)
    world.wait(59)
    assert world.effects(ef.FreeStuckPin) == []
    world.wait(2)
    [freed] = world.effects(ef.FreeStuckPin)
    assert (freed.uid, freed.owner_kind) == (uid, "ReplicaSet")
    world.delete(uid)
    again = world.create(pod("web-2", container(gpu_memory=1024), owner=("ReplicaSet", "rs-1")))
    assert world.released[again].node == "n2"


def test_a_node_without_totals_or_with_a_silent_agent_takes_nobody() -> None:
    world = one_card()
    world.now += 16
    _, outcome = world.ask(gib(1))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.AGENT_SILENT: 1}


def test_totals_removed_by_hand_come_back() -> None:
    world = one_card()
    shown = world.shown("n1")
    assert shown.allocatable["sublet.dev/gpu-memory"] == 10 * 1024
    stripped = replace(shown, capacity={}, allocatable={"sublet.dev/slot": 64}, labels={})
    world.nodes[NodeName("n1")] = stripped
    world.send(ev.NodeSeen(stripped))
    world.settle()
    assert world.shown("n1").allocatable["sublet.dev/gpu-memory"] == 10 * 1024
    assert world.shown("n1").labels["sublet.dev/cards"] == "1"


def test_a_node_shows_its_memory_in_the_unit_of_its_pool_and_says_which_it_is() -> None:
    world = World(rules=Rules(options=Options(gpu_mem_pools=(Pool("pool", "large", 1),))))
    world.node("n1", card("A"), labels={"pool": "large"})
    world.node("n2", card("B"))
    told = {name: world.shown(name) for name in ("n1", "n2")}
    assert [one.allocatable["aliyun.com/gpu-mem"] for one in told.values()] == [10240, 10]
    assert [one.annotations["sublet.dev/gpu-mem-unit"] for one in told.values()] == ["MiB", "GiB"]
    moved = replace(told["n1"], labels={})
    world.nodes[NodeName("n1")] = moved
    world.send(ev.NodeSeen(moved))
    world.settle()
    assert world.shown("n1").allocatable["aliyun.com/gpu-mem"] == 10
    assert world.shown("n1").annotations["sublet.dev/gpu-mem-unit"] == "GiB"


def test_a_card_that_was_added_is_used_and_none_that_has_left() -> None:
    world = World()
    world.node("n1", card("A"))
    first, second = (world.create(pod(name, container(gpu=1))) for name in ("first", "second"))
    assert (world.granted(first), second in world.released) == (["A"], False)
    world.node("n1", card("A"), card("B", index=1))
    assert world.granted(second) == ["B"]
    world.node("n1", card("B", index=0))
    world.delete(second)
    world.occupancy("n1")
    third = world.create(pod("third", container(gpu=1)))
    assert [(one.card, one.index) for one in world.released[third].containers["main"]] == [("B", 0)]


def test_a_foreign_plugins_resource_makes_a_node_not_ours() -> None:
    world = World()
    world.node(
        "n1",
        card("A"),
        capacity={"nvidia.com/gpu": 1},
        allocatable={"nvidia.com/gpu": 1, "sublet.dev/slot": 64},
    )
    _, outcome = world.ask(gib(1))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.FOREIGN_PLUGIN: 1}
    assert world.effects(ef.WriteTotals) == []


def test_an_unsigned_decision_closes_the_cards_that_it_names() -> None:
    world = World()
    world.node("n1", *cards("n1", 2))
    uid = PodUid("forged")
    manifest = pod("forged", container(gpu_memory=1024))
    id_, outcome = world.ask(manifest, dry_run=True)
    assert isinstance(outcome, Placement)
    world.appears(manifest, id_, outcome, uid=uid, node="n1", proposed=False, cards=("n1-0",))
    assert "ForgedDecision" in world.reports()
    assert world.closed("n1") == ["n1-0"]
    assert world.granted(uid) == []
    world.delete(uid)
    assert world.closed("n1") == []


def test_a_restart_at_any_point_loses_and_doubles_nothing() -> None:
    world = World()
    world.node("n1", *cards("n1", 2))
    running = world.create(gib(6, "running"))
    world.bind(running)
    waiting = world.create(gib(11, "too-large"))
    world.hold_patches = True
    half = world.create(gib(6, "half"))
    assert world.stage(half) is Stage.RELEASING
    world.hold_patches = False
    world.restart()
    assert world.granted(running) == ["n1-0"]
    assert world.granted(half) == ["n1-1"]
    assert world.stage(half) is Stage.RELEASED
    assert world.stage(waiting) is Stage.WAITING
    assert {entry.term for entry in world.ledger.values()} == {2}


def test_a_grant_whose_pod_vanished_during_a_restart_counts_until_proven_gone() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    del world.pods[uid]
    world.restart()
    assert world.stage(uid) is Stage.ENDING
    world.occupancy("n1")
    assert world.granted(uid) == []


def test_a_lost_ledger_is_written_anew_from_the_signed_pods() -> None:
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    world.lose_ledger(data=True)
    assert isinstance(world.ask(gib(1))[1], NoRoom)
    world.ledger_back()
    assert world.granted(uid) == ["A"]


def test_while_the_bus_is_away_pods_are_held_and_placed_when_it_is_back() -> None:
    world = one_card()
    world.lose_ledger()
    id_, outcome = world.ask(gib(1))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.UNDECIDED: 1}
    uid = world.appears(gib(1), id_, None)
    assert world.granted(uid) == []
    world.ledger_back()
    assert world.granted(uid) == ["A"]


def test_a_higher_term_makes_the_older_scheduler_step_down() -> None:
    world = one_card()
    world.create(gib(1))
    entry = world.entry("n1")
    world.send(ev.LedgerSeen(replace(entry, term=9, revision=entry.revision + 1)))
    assert ef.StepDown(9) in world.log


def test_ten_thousand_waiting_pods_and_no_event_need_no_tick() -> None:
    world = one_card()
    for at in range(20):
        world.create(gib(11, f"large-{at}"))
    assert world.engine.due(world.now) is None or world.engine.due(world.now) > world.now + 1  # type: ignore[operator]


def test_totals_that_lag_hold_a_pod_though_its_card_has_room() -> None:
    world = one_card()
    stale = replace(
        world.shown("n1"), allocatable={**world.shown("n1").allocatable, "sublet.dev/gpu-memory": 2048}
    )
    world.send(ev.NodeSeen(stale))  # kube-scheduler would not see room for more
    world.held.clear()
    _, outcome = world.ask(gib(4))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.NODE_NOT_PREPARED: 1}


def test_a_full_card_is_called_full_and_not_unprepared() -> None:
    world = one_card()
    world.create(gib(8, "first"))
    _, outcome = world.ask(gib(8, "second"))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.INSUFFICIENT_MEMORY: 1}


def test_an_operators_word_frees_once_what_was_ending_when_it_was_given() -> None:
    world = one_card()
    first, second = world.create(gib(4, "first")), world.create(gib(4, "second"))
    for uid in (first, second):
        world.bind(uid)
    world.delete(first)
    node = world.released[first].node
    world.send(ev.NodeReleased(node, by="ops 12:00"))
    world.settle()
    world.delete(second)
    world.send(ev.NodeReleased(node, by="ops 12:00"))  # the same word, still on the Node
    world.settle()
    assert world.granted(first) == []
    assert world.granted(second) == ["A"]


def test_a_pod_that_was_stored_with_other_claims_than_promised_is_decided_anew() -> None:
    world = one_card()
    id_, outcome = world.ask(gib(2))
    assert isinstance(outcome, Placement)
    uid = world.appears(gib(9), id_, outcome)  # a later webhook made it larger
    assert world.released[uid].containers["main"][0].memory_mib == 9 * 1024


def test_a_pod_that_uses_a_total_without_a_claim_counts_against_its_node_and_is_reported() -> None:
    world = one_card()
    world.send(
        ev.PodSeen(
            PodFacts(
                uid=PodUid("stray"),
                ref=PodRef("default", "stray"),
                node=NodeName("n1"),
                phase="Running",
                resources={"nvidia.com/gpu": 1},
            )
        )
    )
    assert ReportCode.UNCLAIMED_USE in world.reports()
    _, outcome = world.ask(pod("late", container(nvidia=1)))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.NODE_NOT_PREPARED: 1}


def test_a_patch_that_the_api_server_refuses_is_reported_and_tried_again() -> None:
    world = one_card()
    world.hold_patches = True
    uid = world.create(gib(4))
    world.held.clear()
    world.send(ev.PatchRefused(uid, "a policy says no", world.pods[uid]))
    assert ReportCode.PATCH_REFUSED in world.reports()
    assert world.granted(uid) == ["A"]
    world.hold_patches = False
    world.wait(11)
    assert world.stage(uid) is Stage.RELEASED


def test_a_pod_that_was_bound_past_its_pin_is_reported() -> None:
    world = World()
    world.node("n1", card("A"))
    world.node("n2")
    world.hold_patches = True
    uid = world.create(gib(4))
    [release] = [one for one in world.held if isinstance(one, ef.ReleasePod)]
    world.held.clear()
    world.patch(release)
    world.change(uid, node=NodeName("n2"))
    assert ReportCode.BOUND_ELSEWHERE in world.reports()


def test_a_node_whose_only_card_is_ill_is_not_called_unprepared() -> None:
    world = one_card()
    world.judge(verdict("n1", "A", bad=True))
    assert world.shown("n1").allocatable["sublet.dev/gpu-memory"] == 0
    _, outcome = world.ask(gib(1))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.UNHEALTHY: 1}


@pytest.mark.parametrize("data", [False, True], ids=["its ledger", "a ledger made anew"])
def test_a_running_pod_whose_annotations_became_unreadable_keeps_its_grant_over_a_restart(
    data: bool,
) -> None:
    """Its owner may annotate it with anything at any time; its cards are no other pod's for that."""
    world = one_card()
    uid = world.create(gib(10))
    world.bind(uid)
    said = Refusal(code=RefusalCode.UNKNOWN_ANNOTATION, message="unknown annotation")
    world.change(uid, ask=None, unreadable=said)
    if data:
        world.ledger.clear()
    world.restart()
    assert world.granted(uid) == ["A"]
    other = world.create(gib(10, "other"))
    assert world.granted(other) == []


def test_an_unsigned_decision_does_not_even_name_a_pod() -> None:
    world = one_card()
    id_, outcome = world.ask(gib(1))
    assert isinstance(outcome, Placement)
    uid = world.appears(gib(1), id_, outcome, proposed=False)
    assert world.engine.state.records[uid].decision != id_


def told(world: World, uid: PodUid) -> str:
    notes: list[str] = [one.message for one in world.effects(ef.MarkWaiting) if one.uid == uid]
    return notes[-1]


def test_a_pod_that_was_queued_is_told_why_it_waits_as_soon_as_it_is_known() -> None:
    world = one_card()
    world.lose_ledger()
    id_, outcome = world.ask(gib(20))
    assert isinstance(outcome, NoRoom)
    uid = world.appears(gib(20), id_, None)
    world.ledger_back()
    assert "20480 MiB" in told(world, uid)


def test_reasons_that_change_in_quick_succession_are_told_in_the_end_without_any_event() -> None:
    world = one_card()
    first = world.create(gib(8, "first"))
    uid = world.create(gib(9, "second"))
    cordoned = replace(world.shown("n1"), unschedulable=True)  # a moment later, another reason
    world.nodes[NodeName("n1")] = cordoned
    world.send(ev.NodeSeen(cordoned))
    world.settle()
    world.wait(31)
    assert "Unschedulable" in told(world, uid)
    assert world.granted(first) == ["A"]


def test_a_grant_that_was_given_up_while_its_write_was_lost_with_the_bus_does_not_come_back() -> None:
    """Another pod has been promised its place since."""
    world = one_card()
    world.hold_writes = True
    gone = world.create(gib(6, "gone"))
    [late] = [one.entry for one in world.held if isinstance(one, ef.WriteLedger)]
    world.delete(gone)
    other = world.create(gib(6, "other"))
    world.lose_ledger()
    world.held.clear()
    world._revision += 1
    world.ledger[NodeName("n1")] = replace(late, revision=world._revision)
    world.hold_writes = False
    world.ledger_back()
    assert world.granted(gone) == []
    assert world.granted(other) == ["A"]
