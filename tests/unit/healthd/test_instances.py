"""MIG: a fault that names an instance is that instance's; one that names none is the whole card's."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from sublet_healthd.core.annotation import read_annotation, write_annotation
from sublet_healthd.core.event import BreakerActed, Restored
from sublet_healthd.core.judge import Forgotten
from sublet_healthd.shell.metrics import Metrics

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import metrics as names
from sublet.model.card import Inventory, Partition
from sublet.model.health import HealthState, Verdict
from sublet.model.ids import CardId
from sublet.wire.health import verdict_in, verdict_out
from tests.unit.healthd.words import (
    COMPLETE,
    NODE,
    A,
    Clocked,
    grant,
    heartbeat,
    inventory,
    ledger,
    occupancy,
    person,
    sees,
    xid,
)

PARTS = {CardId(f"MIG-{gi}-{ci}"): (gi, ci) for gi, ci in ((1, 0), (2, 0), (2, 1))}


def partitioned() -> Clocked:
    judge = Clocked()
    judge.at(0, with_instances(0))
    return judge


def with_instances(second: float, **more: tuple[int, int]) -> Inventory:
    """Card A with its partitions, and `more` of them."""
    seen = inventory(second, A)
    parts = tuple(
        Partition(uuid=card, profile="1g.10gb", memory_mib=10_000, gi=gi, ci=ci)
        for card, (gi, ci) in (PARTS | {CardId(name): one for name, one in more.items()}).items()
    )
    return replace(seen, cards=(replace(seen.cards[0], mig=True, partitions=parts),))


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


ONE = CardId("MIG-1-0")
NEW = CardId("NEW")


def test_a_new_partition_of_an_ill_card_is_as_ill_as_its_siblings() -> None:
    judge = partitioned()
    judge.at(1, xid(1, 79))
    judge.at(2, with_instances(2, NEW=(5, 0)))
    assert (judge.state(NEW), judge.reasons(NEW)) == (judge.state(ONE), judge.reasons(ONE))
    assert judge.reasons(NEW) == ["xid:79"]


def test_a_new_partition_beside_an_ill_one_is_well() -> None:
    judge = partitioned()
    judge.at(1, xid(1, 48, gi=2))
    judge.at(2, with_instances(2, NEW=(5, 0)))
    assert judge.state(NEW) is HealthState.HEALTHY


def test_a_level_of_an_instance_is_its_own_and_one_of_the_card_is_everybodys() -> None:
    judge = partitioned()
    judge.at(1, sees(1, "level", ONE, name="ecc_uncorrectable", value="1"))
    judge.at(60)
    assert ill(judge) == [ONE]
    judge.at(61, sees(61, "level", name="remap_failed", value="true"))
    judge.at(120)
    assert ill(judge) == [A, *PARTS]


def test_a_kernel_line_that_names_an_instance_concerns_it_alone() -> None:
    judge = partitioned()
    line = "NVRM: Xid (PCI:0000:00:00 GPU-I:02 GPU-CI:01): 48, pid=1, name=x"
    judge.at(1, sees(1, "kmsg", None, raw=line))
    assert ill(judge) == ["MIG-2-1"]


def test_a_partition_that_was_destroyed_says_nothing_against_its_card_and_returns_well() -> None:
    judge = partitioned()
    judge.at(5, inventory(5, A))
    assert (judge.verdict(ONE).rule, judge.state(A)) == ("destroyed", HealthState.HEALTHY)
    judge.at(6, with_instances(6))
    judge.at(70)
    assert ill(judge) == []


def test_partitions_stay_destroyed_over_a_boot() -> None:
    judge = partitioned()
    judge.at(5, inventory(5, A))
    judge.at(9, inventory(9, A, boot="b2"))
    assert [judge.state(part) for part in PARTS] == [HealthState.LOST] * 3


def test_what_a_person_holds_is_held_with_all_of_its_partitions() -> None:
    judge = partitioned()
    judge.at(1, person(1, "hold"))
    assert [judge.state(card) for card in (A, *PARTS)] == [HealthState.HELD] * 4
    judge.at(2, person(2, "release", ONE))
    assert [judge.state(card) is HealthState.HELD for card in (A, *PARTS)] == [True, False, True, True]


def test_a_card_is_in_use_while_any_of_its_partitions_is() -> None:
    judge = partitioned()
    closed = (A, *PARTS)
    judge.at(1, COMPLETE, ledger(1, grants=(grant(ONE),)), xid(1, 79))
    judge.at(2, ledger(2, closed=closed, grants=(grant(ONE),)), heartbeat(2), occupancy(2, 2, holds=ONE))
    judge.at(40, heartbeat(40), occupancy(40, 2, holds=ONE))
    judge.at(60, heartbeat(60))
    assert [judge.state(card) for card in (A, ONE)] == [HealthState.CONDEMNED] * 2
    judge.at(61, ledger(3, closed=closed), heartbeat(61), occupancy(61, 3))
    for second in (70, 80, 90):
        judge.at(second, heartbeat(second))
    assert [judge.state(card) for card in (A, ONE)] == [HealthState.QUARANTINED] * 2


def test_the_breaker_counts_a_card_once_however_it_is_divided() -> None:
    judge = partitioned()
    judge.at(1, xid(1, 79))
    assert [taken.card for taken in judge.engine.breaker.taken] == [A]
    judge.at(2, xid(2, 48, gi=1))
    assert [taken.card for taken in judge.engine.breaker.taken] == [A]


def test_what_the_breaker_keeps_of_a_card_it_keeps_of_its_partitions() -> None:
    judge = partitioned()
    judge.at(1, BreakerActed(what="breaker_open", by="ada"))
    judge.at(2, xid(2, 79))
    assert all(judge.verdict(card).schedulable for card in (A, *PARTS))
    judge.at(3, BreakerActed(what="breaker_close", by="ada"))
    assert not any(judge.verdict(card).schedulable for card in (A, *PARTS))


def test_partitions_make_no_common_cause_of_the_trouble_of_their_card() -> None:
    judge = partitioned()
    for second in (1, 2, 3, 4):
        judge.at(second, sees(second, "probe", value="error"))
    assert judge.state() is HealthState.UNKNOWN
    assert judge.verdict().rule == "silence"


def test_a_partition_is_known_as_one_after_a_restart_of_the_judge() -> None:
    before = partitioned()
    before.at(1, xid(1, 48, gi=1))
    kept = verdict_in(verdict_out(before.verdict(ONE)))
    judge = Clocked()
    judge.at(2, Restored(verdict=kept), inventory(2, A))
    assert (kept.parent, judge.verdict(ONE).rule) == (A, "destroyed")
    [restored] = read_annotation(NODE, write_annotation(before.engine.known.of_node(NODE)) or "")[:1]
    assert restored.verdict.parent == A


def test_faults_told_of_a_partition_carry_its_place_and_profile() -> None:
    judge = partitioned()
    listed = judge.engine.known.listed(NODE, ONE)
    assert listed is not None
    assert (listed.parent, listed.profile, listed.pci) == (A, "1g.10gb", "0000:00:00.0")


def destroyed(judge: Clocked) -> Verdict:
    """Its last verdict: a partition that was destroyed, after nobody can hold it any more."""
    judge.at(1, COMPLETE, ledger(1), heartbeat(1), occupancy(1, 1))
    judge.at(2, inventory(2, A))
    judge.at(3, ledger(2, closed=tuple(PARTS)), heartbeat(3), occupancy(3, 2))
    effects = judge.at(10, heartbeat(10)) + judge.at(20, heartbeat(20))
    return next(one.verdict for one in effects if isinstance(one, Forgotten) and one.verdict.card == ONE)


def test_a_destroyed_partition_is_forgotten_when_nobody_can_hold_it() -> None:
    judge = partitioned()
    last = destroyed(judge)
    assert (last.state, last.withheld, last.parent) == (HealthState.LOST, True, A)
    assert [state.card for state in judge.engine.known.of_node(NODE)] == [A]
    judge.at(200, heartbeat(200))
    assert judge.state() is HealthState.HEALTHY


def test_what_was_counted_of_a_forgotten_partition_ends() -> None:
    judge, registry = partitioned(), CollectorRegistry()
    Metrics(registry, judge.engine, MemoryBus(LAYOUT), unix_ms=lambda: 0)

    def shown() -> set[str]:
        active = [one for one in registry.collect() if one.name == names.CARD_REASON_ACTIVE]
        return {sample.labels["UUID"] for family in active for sample in family.samples}

    judge.at(0, xid(0, 48, ONE))
    assert shown() == {ONE}
    destroyed(judge)
    assert ONE not in shown()


def test_a_destroyed_partition_is_kept_while_a_container_has_it() -> None:
    judge = partitioned()
    judge.at(1, COMPLETE, ledger(1, grants=(grant(ONE),)), heartbeat(1), occupancy(1, 1, holds=ONE))
    judge.at(2, inventory(2, A), ledger(2, closed=tuple(PARTS), grants=(grant(ONE),)))
    for second in (10, 20, 30, 40):
        judge.at(second, heartbeat(second), occupancy(second, 2, holds=ONE))
    assert [state.card for state in judge.engine.known.of_node(NODE)] == [A, ONE]


def test_a_forgotten_partition_that_returns_goes_on_counting() -> None:
    judge = partitioned()
    last = destroyed(judge)
    judge.at(30, with_instances(30))
    assert judge.verdict(ONE).seq > last.seq
    judge.at(100, heartbeat(100))
    assert ill(judge) == []


def test_what_an_agent_still_tells_of_a_forgotten_partition_brings_nothing_back() -> None:
    judge = partitioned()
    last = destroyed(judge)
    judge.at(30, inventory(30, A, verdicts=(last,)))
    assert [state.card for state in judge.engine.known.of_node(NODE)] == [A]
    judge.at(31, sees(31, "level", ONE, name="ecc_uncorrectable", value="0"), inventory(31, A))
    assert judge.verdict(ONE).rule == "destroyed"
