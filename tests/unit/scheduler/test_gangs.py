"""Gangs: all members get cards at once or none does."""

from typing import Any

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import Rules

from sublet.contract import gangs, keys
from sublet.model.claim import Gang
from sublet.model.ids import PodRef, PodUid
from sublet.model.placement import NoRoom
from sublet.model.reasons import Reason, ReportCode
from tests.builders import card, cards, container, pod, verdict
from tests.unit.scheduler.world import World


def fleet(*nodes: int, zones: tuple[str, ...] = (), rules: Rules | None = None) -> World:
    world = World(rules or Rules())
    for at, count in enumerate(nodes, 1):
        labels = {"topology.kubernetes.io/zone": zones[at - 1]} if zones else {}
        world.node(f"n{at}", *cards(f"n{at}", count), labels=labels)
    return world


def member(name: str, size: int, *, gang: str = "train", cards: int = 1, priority: int = 0) -> dict[str, Any]:
    annotations = {keys.GANG: gang, keys.GANG_SIZE: str(size)}
    return pod(name, container(gpu=cards), annotations=annotations, priority=priority)


def creates(world: World, count: int, *, gang: str = "train", size: int = 0, **more: Any) -> list[PodUid]:
    return [world.create(member(f"{gang}-{at}", size or count, gang=gang, **more)) for at in range(count)]


def stages(world: World, uids: list[PodUid]) -> set[Stage | None]:
    return {world.stage(uid) for uid in uids}


def test_members_wait_until_all_exist_and_are_then_released_together() -> None:
    world = fleet(4)
    first = creates(world, 2, size=3)
    assert stages(world, first) == {Stage.WAITING}
    last = world.create(member("train-2", 3))
    assert stages(world, [*first, last]) == {Stage.RELEASED}


def test_a_member_is_told_what_it_waits_for() -> None:
    world = fleet(4)
    _, outcome = world.ask(member("train-0", 2))
    assert isinstance(outcome, NoRoom)
    assert outcome.reasons == {Reason.GANG_INCOMPLETE: 1}


def test_a_gang_that_does_not_fit_holds_nothing() -> None:
    world = fleet(2)
    uids = creates(world, 3)
    assert stages(world, uids) == {Stage.WAITING}
    assert world.entry("n1").grants == () if world.ledger else True
    record = world.engine.state.records[uids[0]]
    assert record.no_room is not None
    assert Reason.GANG_NO_ROOM in record.no_room.reasons
    told = "gang 'train' of 3 pods does not fit at once: 2 of 3 find a place, the next finds no room now"
    assert record.no_room.message.startswith(told)


def test_none_is_released_before_the_ledger_shows_all() -> None:
    world = fleet(1, 1)
    world.hold_writes = True
    uids = creates(world, 2)
    assert stages(world, uids) == {Stage.COMMITTING}
    writes = [one for one in world.held if isinstance(one, ef.WriteLedger)]
    world.held = [one for one in world.held if one is not writes[0]]
    world.store(writes[0].entry)
    assert world.effects(ef.ReleasePod) == []
    world.hold_writes = False
    world.settle()
    assert stages(world, uids) == {Stage.RELEASED}


def test_two_gangs_that_do_not_fit_together_come_one_after_the_other() -> None:
    world = fleet(4)
    blocker = world.create(pod("blocker", container(gpu=4)))
    world.bind(blocker)
    one, two = [], []
    for at in range(3):  # created in turn, as two Jobs would
        one.append(world.create(member(f"one-{at}", 3, gang="one")))
        two.append(world.create(member(f"two-{at}", 3, gang="two")))
    world.change(blocker, phase="Succeeded", settled=True)
    assert stages(world, one) == {Stage.RELEASED}
    assert stages(world, two) == {Stage.WAITING}
    for uid in one:
        world.bind(uid)
        world.change(uid, phase="Succeeded", settled=True)
    assert stages(world, two) == {Stage.RELEASED}


def test_members_go_on_one_node_where_it_has_room_for_all() -> None:
    world = fleet(3, 4)
    world.bind(world.create(pod("a", container(gpu_memory=1024))))  # makes n1 the fuller one, with 2 free
    uids = creates(world, 3)
    assert {world.released[uid].node for uid in uids} == {"n2"}


def test_members_that_fit_on_no_single_node_stay_in_one_zone() -> None:
    world = fleet(1, 2, 2, zones=("a", "b", "b"))
    uids = creates(world, 4)
    assert {world.released[uid].node for uid in uids} == {"n2", "n3"}


def test_small_pods_do_not_starve_a_gang() -> None:
    world = fleet(2)
    first, second = (world.create(pod(name, container(gpu=1))) for name in ("first", "second"))
    for uid in (first, second):
        world.bind(uid)
    uids = creates(world, 2)
    world.change(first, phase="Succeeded", settled=True)
    small = world.create(pod("small", container(gpu_memory=1024)))
    assert world.stage(small) is Stage.WAITING
    world.change(second, phase="Succeeded", settled=True)
    assert stages(world, uids) == {Stage.RELEASED}


def test_a_member_that_is_made_again_joins_those_that_run() -> None:
    world = fleet(3)
    uids = creates(world, 3)
    for uid in uids:
        world.bind(uid)
    world.change(uids[0], phase="Failed", settled=True)
    again = world.create(member("train-again", 3))
    assert world.stage(again) is Stage.RELEASED


def test_when_all_have_failed_the_next_ones_wait_for_each_other() -> None:
    world = fleet(4)
    for uid in creates(world, 2):
        world.bind(uid)
        world.change(uid, phase="Failed", settled=True)
    again = world.create(member("again-0", 2))
    assert world.stage(again) is Stage.WAITING
    world.create(member("again-1", 2))
    assert world.stage(again) is Stage.RELEASED


def test_a_new_leader_does_not_release_half_a_gang() -> None:
    world = fleet(1, 1)
    world.hold_writes = True
    uids = creates(world, 2)
    writes = [one for one in world.held if isinstance(one, ef.WriteLedger)]
    world.store(writes[0].entry)  # the leader died between two writes
    world.hold_writes = False
    world.delete(next(uid for uid in uids if not world.granted(uid)))
    world.restart()
    [left] = world.pods
    assert world.stage(left) is Stage.RELEASING
    assert world.effects(ef.ReleasePod) == []
    world.wait(31)  # it gives the card back to somebody who can use it
    assert world.granted(left) == []
    assert world.stage(left) is Stage.WAITING
    world.create(member("train-new", 2))
    assert world.stage(left) is Stage.RELEASED


def test_a_card_that_closes_before_the_release_takes_no_member_out_of_its_gang() -> None:
    world = fleet(1, 2)
    world.hold_patches = True
    uids = creates(world, 2)
    world.judge(verdict("n2", "n2-0", bad=True))
    world.hold_patches = False
    world.settle()
    assert stages(world, uids) == {Stage.RELEASED}


def test_a_gang_that_stays_incomplete_is_reported_once() -> None:
    world = fleet(4)
    creates(world, 2, size=3)
    world.wait(1300)
    assert world.reports() == [ReportCode.GANG_INCOMPLETE]
    assert "lacks 1 pods" in world.effects(ef.Report)[0].message


def lws(name: str, size: int) -> dict[str, Any]:
    manifest = pod(name, container(gpu=1), annotations={})
    manifest["metadata"]["annotations"] = {gangs.LWS_SIZE: str(size)}
    manifest["metadata"]["labels"] = {gangs.LWS_NAME: "vllm", gangs.LWS_GROUP: "0"}
    return manifest


def test_a_leader_without_a_claim_counts_in_a_leader_worker_set() -> None:
    world = fleet(2)
    workers = [world.create(lws(f"vllm-0-{at}", 3)) for at in (1, 2)]
    assert stages(world, workers) == {Stage.WAITING}
    leader = PodFacts(
        uid=PodUid("leader"), ref=PodRef("default", "vllm-0"), gang=Gang(name="vllm/0", size=3, derived=True)
    )
    world.send(ev.PodSeen(leader))
    world.settle()
    assert stages(world, workers) == {Stage.RELEASED}


def test_workers_that_are_made_only_when_the_leader_runs_do_not_hold_it_for_ever() -> None:
    world = fleet(2)
    leader = world.create(lws("vllm-0", 2))
    world.wait(599)
    assert world.stage(leader) is Stage.WAITING
    world.wait(2)
    assert world.stage(leader) is Stage.RELEASED
    assert world.reports() == [ReportCode.GANG_GIVEN_UP]
    assert world.stage(world.create(lws("vllm-0-1", 2))) is Stage.RELEASED


def test_a_foreign_gate_on_one_holds_all() -> None:
    world = fleet(2)
    first = world.create(member("train-0", 2))
    id_, _ = world.ask(member("train-1", 2), foreign_gates=True)
    second = world.appears(member("train-1", 2), id_, None, foreign_gates=True)
    assert stages(world, [first, second]) == {Stage.WAITING}
    world.change(second, foreign_gates=False)
    assert stages(world, [first, second]) == {Stage.RELEASED}


def test_members_beyond_the_size_need_not_fit() -> None:
    world = fleet(2)
    uids = creates(world, 3, size=2)
    assert sorted(str(world.stage(uid)) for uid in uids) == ["released", "released", "waiting"]


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    world = fleet(2)
    one, other = member("a", 2), member("b", 2)
    other["metadata"]["namespace"] = "elsewhere"
    assert stages(world, [world.create(one), world.create(other)]) == {Stage.WAITING}


def test_a_gang_counts_against_the_quota_as_a_whole() -> None:
    world = fleet(4)
    world.quota("q", cards=2)
    uids = creates(world, 3)
    assert stages(world, uids) == {Stage.WAITING}
    record = world.engine.state.records[uids[0]]
    assert record.no_room is not None
    assert Reason.NAMESPACE_LIMIT in record.no_room.reasons
    assert world.stage(world.create(pod("other", container(gpu=1)))) is Stage.RELEASED


def test_the_pods_of_a_gang_may_ask_for_different_things() -> None:
    world = World()
    world.node("n1", card("A", gib=10), card("B", index=1, gib=10))
    annotations = {keys.GANG: "g", keys.GANG_SIZE: "3"}
    asked = [container(gpu_memory=4096), container(gpu_memory=6144), container(gpu=1)]
    uids = [world.create(pod(f"p{at}", one, annotations=annotations)) for at, one in enumerate(asked)]
    assert stages(world, uids) == {Stage.RELEASED}


def test_a_deleted_member_frees_what_the_others_hold_before_their_release() -> None:
    world = fleet(2)
    world.hold_writes = True
    uids = creates(world, 2)
    world.delete(uids[0])
    world.hold_writes = False
    world.settle()
    assert world.effects(ef.ReleasePod) == []
    world.wait(31)
    assert world.granted(uids[1]) == []
    assert world.stage(world.create(pod("other", container(gpu=2)))) is Stage.RELEASED
