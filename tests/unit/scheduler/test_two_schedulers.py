"""An older scheduler that still runs, or what it sent before it was killed, meets the one that took over."""

from dataclasses import replace
from typing import Any

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.records import Stage

from sublet.contract.decision import Decision
from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import NodeLedger, Placement
from tests.builders import card, container, pod, verdict
from tests.unit.scheduler.world import World

N1 = NodeName("n1")
OLDER = 0


def one_card() -> World:
    world = World()
    world.node("n1", card("A", gib=10))
    return world


def gib(amount: int, name: str = "pod") -> dict[str, Any]:
    return pod(name, container(gpu_memory=amount * 1024))


def wrote_older(world: World, *others: World) -> NodeLedger:
    """The older scheduler stores what the schedulers of `others` (one pod each) have granted."""
    grants = tuple(grant for other in others for grant in other.entry("n1").grants)
    world._revision += 1
    entry = NodeLedger(node=N1, term=OLDER, grants=grants, revision=world._revision)
    world.ledger[N1] = entry
    return entry


def elsewhere(manifest: dict[str, Any], uid: str) -> World:
    """The world as the older scheduler sees it, with one pod committed and its release on its way."""
    world = one_card()
    world.hold_patches = True
    world.create(manifest, uid=uid)
    return world


def releases(world: World) -> list[ef.Effect]:
    return [one for one in world.held if isinstance(one, ef.ReleasePod)]


def released_by_older(world: World, uid: PodUid) -> None:
    """Its release patch arrives, and kube-scheduler binds the pod."""
    [record] = [one for one in world.engine.state.records.values() if one.uid == uid]
    placement = record.placement
    assert placement is not None
    world.released[uid] = placement
    decision = Decision(id=record.decision, uid=uid, placement=placement)
    world.change(uid, gated=False, signed=True, decision=decision, node=placement.node)


def test_no_pod_is_released_before_the_entry_carries_our_own_term() -> None:
    """What an older scheduler wrote it may still take back."""
    world = one_card()
    world.hold_patches = True
    uid = world.create(gib(6))
    world.hold_writes = True
    world.restart()
    assert world.stage(uid) is Stage.RELEASING
    assert releases(world) == []
    world.hold_writes = world.hold_patches = False
    world.settle()
    assert world.stage(uid) is Stage.RELEASED


def test_a_release_that_waits_for_the_entry_calls_for_no_tick() -> None:
    """The bus may be away for long; a scheduler that only ticks hears nothing else."""
    world = one_card()
    world.hold_patches = True
    world.create(gib(6))
    world.hold_writes = True
    world.restart()
    world.wait(1)
    due = world.engine.due(world.now)
    assert due is None or due > world.now


def test_a_scheduler_that_was_overtaken_while_it_took_over_steps_down() -> None:
    """It lists the entries after another has taken the next term: it must write none of them."""
    world = one_card()
    world.create(gib(6))
    world.send(ev.LedgerLost())
    world.send(ev.LedgerSeen(replace(world.entry("n1"), term=7)))
    world.log.clear()
    world.send(ev.LedgerListed(6, complete=True))
    assert world.effects(ef.StepDown) == [ef.StepDown(7)]
    assert not world.effects(ef.WriteLedger)


def test_what_an_older_scheduler_proved_gone_does_not_count_on() -> None:
    """Its last write comes after the younger one has listed the ledger; only the ledger told of the pod."""
    world = one_card()
    theirs = elsewhere(gib(6, "theirs"), "theirs")
    wrote_older(world, theirs)
    world.hold_writes = True
    world.start()
    assert world.stage(PodUid("theirs")) is Stage.ENDING
    wrote_older(world, elsewhere(gib(8, "other"), "other"))
    world.hold_writes = False
    world.settle()
    assert world.granted(PodUid("theirs")) == []
    assert world.granted(PodUid("other")) == ["A"]


def test_what_we_planned_yields_to_what_an_older_scheduler_was_faster_to_grant() -> None:
    world = one_card()
    world.hold_writes = True
    mine = world.create(gib(6, "mine"), uid="mine")
    theirs = world.create(gib(6, "theirs"), uid="theirs")
    wrote_older(world, elsewhere(gib(6, "theirs"), "theirs"))
    world.hold_writes = False
    world.settle()
    assert (world.granted(mine), world.granted(theirs)) == ([], ["A"])
    assert world.stage(mine) is Stage.WAITING


def test_a_promise_yields_to_what_an_older_scheduler_granted() -> None:
    world = one_card()
    id_, promised = world.ask(gib(6, "mine"))
    assert isinstance(promised, Placement)
    theirs = world.create(gib(6, "theirs"), uid="theirs")
    world.send(ev.LedgerSeen(wrote_older(world, elsewhere(gib(6, "theirs"), "theirs"))))
    world.settle()
    mine = world.appears(gib(6, "mine"), id_, promised)
    assert (world.granted(mine), world.granted(theirs)) == ([], ["A"])


def test_a_pod_that_an_older_scheduler_released_keeps_its_grant_when_its_card_closes() -> None:
    world = one_card()
    world.hold_writes = True
    uid = world.create(gib(6), uid="uid")
    assert world.stage(uid) is Stage.COMMITTING
    wrote_older(world, elsewhere(gib(6), "uid"))
    released_by_older(world, uid)
    world.judge(verdict("n1", "A", bad=True))
    world.hold_writes = False
    world.settle()
    assert world.granted(uid) == ["A"]
    assert world.closed("n1") == ["A"]


def test_a_pod_that_was_released_to_another_node_is_held_there() -> None:
    world = World()
    world.node("n1", card("A", gib=10))
    world.node("n2", card("B", gib=10))
    world.hold_patches = True
    uid = world.create(gib(6))
    [held] = [one for one in world.held if isinstance(one, ef.ReleasePod)]
    other = {"n1": ("n2", "B"), "n2": ("n1", "A")}[held.placement.node]
    grants = {
        name: tuple(replace(grant, card=CardId(other[1])) for grant in some)
        for name, some in held.placement.containers.items()
    }
    placement = Placement(node=NodeName(other[0]), containers=grants)
    world.change(
        uid, gated=False, signed=True, decision=Decision(id=held.decision, uid=uid, placement=placement)
    )
    assert world.granted(uid) == [other[1]]
    assert world.stage(uid) is Stage.RELEASED


def test_a_waiting_note_that_was_written_is_no_release() -> None:
    """The pod got a grant of the older scheduler while the note was on its way."""
    world = World()
    world.node("n1", card("A", gib=10), unschedulable=True)
    world.hold_patches = True
    uid = world.appears(gib(6), DecisionId("older"), None, uid="uid")
    assert world.effects(ef.MarkWaiting)
    world.send(ev.LedgerSeen(wrote_older(world, elsewhere(gib(6), "uid"))))
    world.settle()
    world.hold_patches = False
    world.settle()
    assert world.stage(uid) is Stage.RELEASED
    assert not world.pods[uid].gated


def unseen(world: World, uid: str) -> None:
    """The pod exists, and the watch has not shown it yet."""
    id_ = world.ledger[N1].grants[0].decision
    shown = World()
    shown.appears(gib(6), id_, None, uid=uid)
    world.pods[PodUid(uid)] = shown.pods[PodUid(uid)]


def test_a_pod_of_which_the_ledger_tells_before_the_watch_is_not_gone() -> None:
    world = one_card()
    entry = wrote_older(world, elsewhere(gib(6), "uid"))
    unseen(world, "uid")
    world.hold_patches = True
    world.send(ev.LedgerSeen(entry))
    world.settle()
    world.wait(world.rules.fresh_s + 1)
    world.occupancy("n1")
    assert world.granted(PodUid("uid")) == ["A"]
    world.hold_patches = False
    world.settle()
    assert world.stage(PodUid("uid")) is Stage.RELEASED
    assert world.granted(PodUid("uid")) == ["A"]


def test_a_pod_that_the_first_list_missed_is_looked_for_before_its_grant_goes() -> None:
    """It was created between the list of pods and that of the ledger."""
    world = one_card()
    entry = wrote_older(world, elsewhere(gib(6), "uid"))
    world.engine = Engine(world.rules)
    listed: list[ev.Event] = [ev.NodesListed(), ev.QuotasListed(), ev.PodsListed(), ev.LedgerSeen(entry)]
    unseen(world, "uid")
    world.hold_patches = True
    for event in [ev.NodeSeen(world.nodes[N1]), *listed, ev.LedgerListed(1, complete=True)]:
        world.send(event)
    world.settle()
    world.occupancy("n1")
    assert world.granted(PodUid("uid")) == ["A"]
    world.hold_patches = False
    world.settle()
    assert world.stage(PodUid("uid")) is Stage.RELEASED


def test_a_pod_that_the_api_server_does_not_have_is_gone_with_what_was_seen_of_it() -> None:
    world = one_card()
    world.hold_patches = True
    world.send(ev.LedgerSeen(wrote_older(world, elsewhere(gib(6), "uid"))))
    world.settle()
    world.occupancy("n1")
    assert world.granted(PodUid("uid")) == ["A"]
    world.hold_patches = False
    world.settle()
    assert world.granted(PodUid("uid")) == []
    assert world.stage(PodUid("uid")) is None


def test_a_scheduler_steps_down_when_another_puts_its_pod_back_to_waiting() -> None:
    """It does not send the release again: its picture of the ledger may be old."""
    world = one_card()
    world.hold_patches = True
    uid = world.create(gib(6))
    sent = len(world.effects(ef.ReleasePod))
    note = Decision(id=world.pods[uid].decision.id, uid=uid, placement=None, after="another")  # type: ignore[union-attr]
    world.change(uid, signed=True, proposed=False, decision=note)
    assert world.effects(ef.StepDown)
    assert len(world.effects(ef.ReleasePod)) == sent


def test_a_pod_that_an_older_scheduler_put_on_a_closed_card_is_moved() -> None:
    world = one_card()
    world.judge(verdict("n1", "A", bad=True))
    uid = world.create(gib(6), uid="uid")
    world.send(ev.LedgerSeen(wrote_older(world, elsewhere(gib(6), "uid"))))
    world.settle()
    assert world.granted(uid) == []
    assert world.pods[uid].gated


def two_nodes() -> World:
    world = World()
    world.node("n1", card("A", gib=10))
    world.node("n2", card("B", gib=10))
    return world


def put_twice(world: World) -> tuple[PodUid, ef.ReleasePod, ef.ReleasePod]:
    """One pod with a grant on both nodes, as an earlier scheduler leaves it that moved it and was killed in
    between: the release that this one sends, and the one of the earlier that may still arrive."""
    world.hold_patches = True
    uid = world.create(gib(6))
    [mine] = [one for one in world.held if isinstance(one, ef.ReleasePod)]
    other, uuid = {"n1": ("n2", "B"), "n2": ("n1", "A")}[mine.placement.node]
    containers = {
        name: tuple(replace(one, card=CardId(uuid)) for one in some)
        for name, some in mine.placement.containers.items()
    }
    placement = Placement(node=NodeName(other), containers=containers)
    [grant] = world.entry(mine.placement.node).grants
    world._revision += 1
    world.ledger[placement.node] = NodeLedger(
        node=placement.node,
        term=OLDER,
        grants=(replace(grant, grant=containers["main"][0]),),
        revision=world._revision,
    )
    world.send(ev.LedgerSeen(world.ledger[placement.node]))
    world.settle()
    return uid, mine, replace(mine, placement=placement)


def test_a_second_grant_stays_while_an_earlier_release_may_still_arrive() -> None:
    world = two_nodes()
    uid, _, theirs = put_twice(world)
    assert world.granted(uid) == ["A", "B"]
    assert world.entry(theirs.placement.node).term == world.term
    other = world.create(gib(6, "other"))
    assert world.granted(other) == []
    world.patch(theirs)
    world._check()
    world.hold_patches = False
    world.settle()
    assert world.granted(uid) == [theirs.placement.containers["main"][0].card]
    assert len(world.granted(other)) == 1


def test_a_second_grant_goes_when_our_own_release_has_made_the_earlier_one_fail() -> None:
    world = two_nodes()
    uid, mine, _ = put_twice(world)
    world.hold_patches = False
    world.settle()
    assert world.granted(uid) == [mine.placement.containers["main"][0].card]


def test_a_second_grant_outlives_a_restart_and_ends_with_proof_from_its_own_node() -> None:
    world = two_nodes()
    uid, mine, theirs = put_twice(world)
    world.restart()
    assert world.granted(uid) == ["A", "B"]
    world.delete(uid, seen=False)
    world.occupancy(mine.placement.node)
    assert world.granted(uid) != ["A", "B"]
    world.occupancy(theirs.placement.node)
    world.occupancy(mine.placement.node)
    world.occupancy(theirs.placement.node)
    assert world.granted(uid) == []
    assert not world.engine.state.doubtful
