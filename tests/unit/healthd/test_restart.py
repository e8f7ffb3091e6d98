"""What a judge that was started anew makes of what it hears."""

from sublet_healthd.core.event import CaughtUp, Restored

from sublet.model.health import HealthState
from tests.unit.healthd.words import A, B, Clocked, heartbeat, inventory, nobody, sees, somebody, xid


def started_anew(before: Clocked, second: float) -> Clocked:
    again = Clocked()
    again.at(second, Restored(verdict=before.verdict()))
    return again


def with_fault(code: int, boot: str = "b1") -> Clocked:
    judge = Clocked()
    judge.at(0, sees(0, "card", boot_id=boot), nobody())
    judge.at(1, xid(1, code, boot_id=boot))
    return judge


def test_a_quarantined_card_stays_withheld_until_somebody_is_seen_on_it() -> None:
    before = with_fault(48)
    before.at(20)
    judge = started_anew(before, 30)
    judge.at(40, inventory(40, A), heartbeat(40))
    assert (judge.state(), judge.verdict().withheld) == (HealthState.QUARANTINED, True)
    judge.at(50, somebody())
    assert (judge.state(), judge.verdict().withheld) == (HealthState.CONDEMNED, False)


def test_probation_goes_on_where_it_was() -> None:
    before = with_fault(48)
    before.at(10, sees(10, "reset", boot_id="b1"))
    judge = started_anew(before, 40)
    judge.at(69, heartbeat(69))
    assert judge.state() is HealthState.RECOVERING
    judge.at(70)
    assert judge.state() is HealthState.HEALTHY


def test_an_old_reset_clears_nothing_that_happened_after_it() -> None:
    judge = started_anew(with_fault(48), 30)
    judge.at(31, sees(0.5, "reset", boot_id="b1"))
    assert judge.reasons() == ["xid:48"]


def test_an_older_boot_told_late_clears_nothing_of_the_newer_one() -> None:
    judge = started_anew(with_fault(79, boot="b2"), 30)
    judge.at(31, sees(0.5, "boot", None, boot_id="b1"), sees(20, "probe", value="ok", boot_id="b2"))
    assert judge.reasons() == ["xid:79"]


def test_a_level_that_nobody_told_of_since_still_reads_bad() -> None:
    before = Clocked()
    before.at(0, sees(0, "level", name="ecc_uncorrectable", value="1"))
    before.at(30)
    judge = started_anew(before, 40)
    judge.at(50, sees(50, "reset"))
    assert judge.reasons() == ["level:ecc_uncorrectable"]
    judge.at(60, sees(60, "level", name="ecc_uncorrectable", value="0"))
    judge.at(90)
    assert judge.reasons() == []


def test_catching_up_shows_no_state_in_between() -> None:
    before = with_fault(48)
    before.at(10, sees(10, "reset", boot_id="b1"))
    before.at(80)
    judge = started_anew(before, 90)
    past = (xid(1, 48, boot_id="b1"), sees(10, "reset", boot_id="b1"))
    judge.at(90, CaughtUp((*past, xid(85, 48, B, boot_id="b1"))))
    assert [(card, to) for _, card, _, to in judge.transitions] == [(B, "condemned")]


def test_an_unknown_card_stays_unknown_until_somebody_tells_of_it() -> None:
    before = Clocked()
    before.at(0, sees(0, "probe", value="ok"))
    before.at(100)
    judge = started_anew(before, 110)
    judge.at(111)
    assert judge.state() is HealthState.UNKNOWN
    judge.at(112, sees(112, "probe", value="ok"))
    assert judge.state() is HealthState.HEALTHY
