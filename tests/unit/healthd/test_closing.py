"""When a card is called idle: closed in the ledger, no grant, and later occupancy that is empty."""

import pytest
from sublet_healthd.core.event import LedgerLost

from sublet.model.health import HealthState
from sublet.model.placement import GrantState
from tests.unit.healthd.words import (
    COMPLETE,
    A,
    B,
    Clocked,
    grant,
    heartbeat,
    inventory,
    ledger,
    occupancy,
    sees,
    xid,
)


def condemned() -> Clocked:
    judge = Clocked()
    judge.at(
        0, COMPLETE, inventory(0, A, B), heartbeat(0), ledger(5), occupancy(0, 5), xid(0, 79, boot_id="b1")
    )
    return judge


def beats(judge: Clocked, start: float, end: float) -> None:
    second = start
    while second <= end:
        judge.at(second, heartbeat(second))
        second += 5


def test_a_card_that_is_closed_ungranted_and_seen_empty_for_the_grace_period_is_quarantined() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(2, 6))
    beats(judge, 2, 20)
    assert (judge.state(), judge.verdict().withheld) == (HealthState.QUARANTINED, True)


def test_without_the_closing_in_the_ledger_nothing_is_idle() -> None:
    judge = condemned()
    judge.at(1, ledger(6), occupancy(2, 6))
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED


def test_occupancy_that_was_seen_before_the_closing_is_no_evidence() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(2, 5))
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED


@pytest.mark.parametrize("state", list(GrantState))
def test_a_grant_counts_as_use_also_when_it_is_ending(state: GrantState) -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,), grants=(grant(A, state),)), occupancy(2, 6))
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED


@pytest.mark.parametrize("source", ["checkpoint", "pod_resources"])
def test_an_unreadable_source_counts_as_in_use(source: str) -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(2, 6, unreadable=source))
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED


def test_unreadable_processes_count_as_none() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(2, 6, processes=3, unreadable="processes"))
    beats(judge, 2, 20)
    assert judge.state() is HealthState.QUARANTINED


def test_a_process_on_the_card_is_use() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(2, 6, processes=1))
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED


def test_what_was_prepared_counts_while_its_pod_holds_the_slot() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(2, 6, holds=A))
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED
    judge.at(101, occupancy(101, 6, holds=A, slot_held=False))
    beats(judge, 102, 120)
    assert judge.state() is HealthState.QUARANTINED


def test_the_grace_period_lies_within_one_life_of_the_agent() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(1, 6))
    beats(judge, 2, 10)
    judge.at(11, heartbeat(11, epoch="e2"), occupancy(11, 6, epoch="e2"))
    judge.at(15, heartbeat(15, epoch="e2"))
    judge.at(25, heartbeat(25, epoch="e2"))
    assert judge.state() is HealthState.CONDEMNED
    judge.at(26)
    assert judge.state() is HealthState.QUARANTINED


def test_an_agent_that_fell_silent_proves_nothing() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(1, 6))
    judge.at(80)
    assert judge.state() is HealthState.CONDEMNED


def test_a_marked_card_stays_marked_while_sources_are_unreadable_and_not_when_somebody_came() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(1, 6))
    beats(judge, 2, 20)
    judge.at(21, occupancy(21, 6, unreadable="checkpoint"))
    assert judge.state() is HealthState.QUARANTINED
    judge.at(22, occupancy(22, 6, holds=A))
    assert (judge.state(), judge.verdict().withheld) == (HealthState.CONDEMNED, False)


def test_a_card_that_was_opened_and_closed_again_needs_occupancy_of_after_the_second_closing() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), ledger(7), ledger(8, closed=(A,)), occupancy(2, 7))
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED


def test_a_ledger_that_is_incomplete_or_new_proves_nothing() -> None:
    judge = condemned()
    judge.at(1, ledger(6, closed=(A,)), occupancy(1, 6), LedgerLost())
    beats(judge, 2, 100)
    assert judge.state() is HealthState.CONDEMNED


def test_a_card_that_leaves_the_inventory_is_lost_and_its_neighbour_is_not() -> None:
    judge = condemned()
    judge.at(10, inventory(10, A))
    assert judge.state(B) is HealthState.LOST
    judge.at(20, inventory(20, A, B))
    assert judge.state(B) is HealthState.RECOVERING


def test_heartbeats_that_stop_make_the_cards_of_the_node_unknown() -> None:
    judge = condemned()
    judge.at(90)
    assert (judge.state(A), judge.state(B)) == (HealthState.CONDEMNED, HealthState.UNKNOWN)


def test_an_inventory_that_still_lists_a_lost_card_does_not_bring_it_back() -> None:
    judge = condemned()
    judge.at(1, sees(1, "probe", B, value="lost", boot_id="b1"), inventory(2, A, B))
    assert judge.state(B) is HealthState.LOST


def test_a_card_that_a_signal_named_first_gets_its_place_from_the_inventory() -> None:
    judge = Clocked()
    judge.at(0, sees(0, "probe", B, value="ok", boot_id="b1"), inventory(1, A, B))
    judge.at(2, sees(2, "kmsg", None, raw="NVRM: Xid (PCI:0000:01:00): 79, gone"))
    assert (judge.reasons(A), judge.reasons(B)) == ([], ["xid:79"])
