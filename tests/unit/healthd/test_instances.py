"""MIG: a fault that names an instance is that instance's; one that names none is the whole card's."""

from dataclasses import replace

import pytest

from sublet.model.card import Inventory, Partition
from sublet.model.health import HealthState
from sublet.model.ids import CardId
from tests.unit.healthd.words import A, Clocked, inventory, sees, xid

PARTS = {CardId(f"MIG-{gi}-{ci}"): (gi, ci) for gi, ci in ((1, 0), (2, 0), (2, 1))}


def partitioned() -> Clocked:
    judge = Clocked()
    judge.at(0, with_instances(0))
    return judge


def with_instances(second: float) -> Inventory:
    seen = inventory(second, A)
    parts = tuple(
        Partition(uuid=card, profile="1g.10gb", memory_mib=10_000, gi=gi, ci=ci)
        for card, (gi, ci) in PARTS.items()
    )
    return replace(seen, cards=(replace(seen.cards[0], partitions=parts),))


def ill(judge: Clocked) -> list[str]:
    return [card for card in (A, *PARTS) if judge.state(card) is not HealthState.HEALTHY]


@pytest.mark.parametrize(
    ("gi", "ci", "concerned"),
    [
        (2, None, ["MIG-2-0", "MIG-2-1"]),
        (2, 1, ["MIG-2-1"]),
        (None, None, [A, *PARTS]),
        (7, None, [A]),
    ],
)
def test_a_fault_concerns_the_instances_that_it_names(
    gi: int | None, ci: int | None, concerned: list[str]
) -> None:
    judge = partitioned()
    judge.at(1, xid(1, 48, gi=gi, ci=ci))
    assert ill(judge) == concerned


def test_a_reset_of_the_card_brings_its_instances_back() -> None:
    judge = partitioned()
    judge.at(1, xid(1, 48, gi=2))
    judge.at(10, sees(10, "reset"))
    judge.at(70)
    assert ill(judge) == []


def test_an_instance_that_is_there_no_more_is_lost_and_the_card_is_not() -> None:
    judge = partitioned()
    judge.at(5, inventory(5, A))
    assert ill(judge) == list(PARTS)


def test_a_card_without_known_instances_leaves_as_a_whole() -> None:
    judge = Clocked()
    judge.at(0, inventory(0, A), xid(1, 48, gi=2, ci=0))
    assert (judge.state(), judge.verdict().reasons[0].gi) == (HealthState.CONDEMNED, 2)
