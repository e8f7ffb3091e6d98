"""What a judge makes of verdicts that agents remember, when its own records are gone."""

from dataclasses import replace

import pytest
from sublet_healthd.core.annotation import read_annotation, write_annotation
from sublet_healthd.core.event import Restored
from sublet_healthd.core.judge import Refreshed

from sublet.model.health import HealthState, Verdict
from sublet.model.ids import NodeName
from tests.unit.healthd.words import NODE, A, B, Clocked, heartbeat, inventory, nobody, sees, xid


def remembered(code: int, boot: str = "b1") -> Verdict:
    """The verdict, of an earlier life, of an idle card with that fault."""
    judge = Clocked()
    judge.at(0, sees(0, "card", boot_id=boot), nobody())
    judge.at(1, xid(1, code, boot_id=boot))
    judge.at(20)
    return judge.verdict()


def test_an_agents_verdict_brings_back_what_nobody_else_knows() -> None:
    verdict = remembered(79)
    judge = Clocked()
    effects = judge.at(100, inventory(100, A, B, verdicts=(verdict,)), heartbeat(100))
    assert {one.verdict.card for one in effects if isinstance(one, Refreshed)} == {A, B}
    assert (judge.state(), judge.reasons(), judge.verdict().withheld) == ("quarantined", ["xid:79"], True)
    assert judge.verdict().seq == verdict.seq
    assert judge.transitions == []
    assert judge.state(B) is HealthState.HEALTHY


def test_what_was_heard_before_the_agents_verdict_stays_beside_it() -> None:
    judge = Clocked()
    judge.at(100, sees(100, "card", boot_id="b1"), xid(100, 48, boot_id="b1"))
    judge.at(101, inventory(101, A, verdicts=(remembered(79),)))
    assert judge.reasons() == ["xid:48", "xid:79"]
    assert judge.verdict().seq > remembered(79).seq


def test_a_reset_heard_before_the_agents_verdict_still_clears_what_it_clears() -> None:
    judge = Clocked()
    judge.at(100, sees(100, "card", boot_id="b1"), sees(100.5, "reset", boot_id="b1"))
    judge.at(101, inventory(101, A, verdicts=(remembered(48),)))
    assert judge.reasons() == []


@pytest.mark.parametrize(("boot", "reasons"), [("b1", ["xid:79"]), ("b2", [])])
def test_what_ends_with_a_boot_is_judged_by_the_boot_that_the_agent_is_in(
    boot: str, reasons: list[str]
) -> None:
    judge = Clocked()
    judge.at(99, sees(99, "boot", None, boot_id=boot))
    judge.at(100, inventory(100, A, boot=boot, verdicts=(remembered(79),)))
    assert judge.reasons() == reasons
    assert judge.state() is (HealthState.QUARANTINED if reasons else HealthState.RECOVERING)


def test_what_was_heard_too_long_ago_to_be_told_apart_is_kept_beside_the_agents_verdict() -> None:
    judge = Clocked()
    judge.at(100, sees(100, "card", boot_id="b1"), xid(100, 62, boot_id="b1"))
    for second in range(101, 140):
        judge.at(second, sees(second, "level", name="nvlink_errors", value=str(second), boot_id="b1"))
    judge.at(140, inventory(140, A, verdicts=(remembered(79),)))
    assert {"xid:62", "xid:79"} <= set(judge.reasons())


def test_a_verdict_that_we_still_have_is_not_overruled_by_an_agents_older_one() -> None:
    stale = remembered(79)
    judge = Clocked()
    judge.at(90, Restored(verdict=replace(stale, state=HealthState.HEALTHY, reasons=(), seq=stale.seq + 1)))
    judge.at(100, inventory(100, A, verdicts=(stale,)))
    assert (judge.state(), judge.reasons()) == (HealthState.HEALTHY, [])


def test_a_record_older_than_what_the_agent_heard_gives_way() -> None:
    old = remembered(79)
    newer = replace(old, state=HealthState.HEALTHY, schedulable=True, withheld=False, reasons=())
    judge = Clocked()
    judge.at(90, Restored(verdict=old))
    judge.at(100, inventory(100, A, verdicts=(replace(newer, seq=old.seq + 2),)))
    assert (judge.state(), judge.reasons()) == (HealthState.HEALTHY, [])
    assert judge.verdict().seq > old.seq


def test_the_annotation_remembers_which_cards_are_well_again() -> None:
    judge = Clocked()
    judge.at(0, sees(0, "card", boot_id="b1"), nobody(), xid(0, 48, boot_id="b1"))
    stale = judge.verdict()
    judge.at(10, sees(10, "reset", boot_id="b1"))
    judge.at(100)
    assert judge.state() is HealthState.HEALTHY
    text = write_annotation(judge.engine.known.of_node(NODE))
    assert text is not None
    again = Clocked()
    again.at(200, *read_annotation(NODE, text))
    again.at(201, inventory(201, A, verdicts=(stale,)))
    assert (again.state(), again.reasons()) == (HealthState.HEALTHY, [])
    assert again.verdict().seq == judge.verdict().seq


def test_an_agent_that_says_the_same_again_revives_nothing() -> None:
    verdict = remembered(48)
    judge = Clocked()
    judge.at(100, inventory(100, A, verdicts=(verdict,)))
    judge.at(110, sees(110, "reset", boot_id="b1"))
    judge.at(120, inventory(120, A, epoch="e2", verdicts=(verdict,)))
    assert judge.reasons() == []


def test_an_agent_speaks_for_its_own_node_only() -> None:
    judge = Clocked()
    judge.at(100, inventory(100, A, verdicts=(replace(remembered(79), node=NodeName("n2")),)))
    assert judge.reasons() == []
    assert judge.engine.known.nodes() == [NODE]
