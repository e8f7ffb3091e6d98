"""Cards that others use: what is promised of them, by policy."""

from dataclasses import replace
from typing import Any

from sublet_scheduler.core.outside import OutsideUse
from sublet_scheduler.core.state import Rules

from sublet.model.card import Partition
from sublet.model.ids import CardId
from sublet.model.placement import CardUse, NoRoom, Placement
from sublet.model.reasons import Reason
from tests.builders import card, container, pod, verdict
from tests.unit.scheduler.world import World


def used(uuid: str = "A", *, mib: int = 0, by: tuple[str, ...] = ("process 7 Xorg",)) -> CardUse:
    return CardUse(card=CardId(uuid), processes=1, used_mib=mib, outside_mib=mib, outside_by=by)


def world(policy: OutsideUse, *uses: CardUse) -> World:
    """A node with the cards A and B of 10 GiB, of which others use something."""
    made = World(rules=Rules(outside_use=policy))
    made.node("n1", card("A"), card("B", index=1))
    made.occupancy("n1", uses=uses)
    return made


def asked(made: World, **limits: Any) -> list[str] | dict[Reason, int]:
    """The cards of a pod, or why it has none."""
    _, outcome = made.ask(pod("p", container(**limits)))
    if isinstance(outcome, Placement):
        return [grant.card for grants in outcome.containers.values() for grant in grants]
    assert isinstance(outcome, NoRoom)
    return dict(outcome.reasons)


def test_memory_that_others_use_is_not_there_for_shares() -> None:
    both = (used("A", mib=4096), used("B", mib=2048))
    assert asked(world(OutsideUse.MEMORY, *both), gpu_memory=8192) == ["B"]
    assert asked(world(OutsideUse.MEMORY, *both), gpu_memory=8193) == {Reason.INSUFFICIENT_MEMORY: 2}


def test_a_card_of_which_others_use_memory_is_given_to_nobody_whole() -> None:
    assert asked(world(OutsideUse.MEMORY, used("A", mib=1)), gpu=1) == ["B"]
    assert asked(world(OutsideUse.MEMORY, used("A", mib=1)), gpu=2) == {
        Reason.IN_USE: 1,
        Reason.TOO_FEW_CARDS: 1,
    }


def test_who_only_sees_a_card_takes_nothing_of_it() -> None:
    """Monitors see all cards of their node."""
    assert asked(world(OutsideUse.MEMORY, used("A"), used("B")), gpu=2) == ["A", "B"]


def test_use_by_others_may_be_ignored() -> None:
    made = world(OutsideUse.IGNORE, used("A", mib=9000), used("B", mib=9000))
    assert asked(made, gpu=2) == ["A", "B"]


def test_a_card_that_anybody_else_uses_or_sees_may_be_closed() -> None:
    made = world(OutsideUse.CLOSE, used("A", mib=1), used("B"))
    assert asked(made, gpu_memory=1) == {Reason.USED_OUTSIDE: 2}


def test_a_closed_card_opens_when_the_others_have_gone() -> None:
    made = world(OutsideUse.CLOSE, used("A"), used("B"))
    uid = made.create(pod("p", container(gpu_memory=1)))
    assert uid not in made.released
    made.occupancy("n1", uses=[used("B")])
    assert made.granted(uid) == ["A"]


def test_health_comes_before_the_use_by_others_and_opening_does_not_undo_it() -> None:
    made = world(OutsideUse.CLOSE, used("A"))
    made.judge(verdict("n1", "A", bad=True))
    made.judge(verdict("n1", "B", bad=True))
    assert asked(made, gpu_memory=1) == {Reason.UNHEALTHY: 2}
    made.judge(verdict("n1", "A", bad=False, seq=2))
    assert asked(made, gpu_memory=1) == {Reason.UNHEALTHY: 1, Reason.USED_OUTSIDE: 1}


def test_running_shares_stay_where_others_come() -> None:
    made = world(OutsideUse.CLOSE)
    uid = made.create(pod("p", container(gpu_memory=1024)))
    made.occupancy("n1", alive=[uid], uses=[used("A"), used("B")])
    assert made.granted(uid) == ["A"]


def test_a_partition_that_others_use_leaves_its_neighbours_alone() -> None:
    parts = tuple(Partition(uuid=f"MIG-{at}", profile="1g.5gb", memory_mib=4864) for at in range(2))
    for policy, why in ((OutsideUse.MEMORY, Reason.IN_USE), (OutsideUse.CLOSE, Reason.USED_OUTSIDE)):
        made = World(rules=Rules(outside_use=policy))
        made.node("n1", replace(card("A"), partitions=parts))
        made.occupancy("n1", uses=[used("MIG-0", mib=100)])
        profile = {"nvidia.com/mig-1g.5gb": 1}
        assert asked(made, **profile) == ["MIG-1"]
        made.occupancy("n1", uses=[used("MIG-0", mib=100), used("MIG-1", mib=1)])
        assert asked(made, **profile) == {why: 2}
