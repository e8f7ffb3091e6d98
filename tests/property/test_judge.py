"""Laws of the judge that hold in any history."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from sublet_healthd.core.event import Acted, CaughtUp, Event, Restored, Told
from sublet_healthd.core.judge import Tick, Transition

from sublet.model.health import HealthState, Signal, Verdict
from tests.unit.healthd.words import Clocked, nobody, person, sees, somebody, xid


@st.composite
def signals(draw: st.DrawFn, most: int = 12) -> list[Signal | Acted]:
    """One card's observations at distinct seconds."""
    seconds = draw(st.lists(st.integers(1, 400), unique=True, max_size=most))
    return [draw(observation(second)) for second in sorted(seconds)]


def observation(second: int) -> st.SearchStrategy[Signal | Acted]:
    boot = "b1" if second < 150 else "b2"
    return st.one_of(
        st.sampled_from((13, 31, 43, 48, 54, 79, 94, 95, 119, 9999)).map(
            lambda code: xid(second, code, boot_id=boot)
        ),
        st.sampled_from(("none", "gpu_reset", "node_reboot", "drain_p2p")).map(
            lambda value: sees(second, "recovery_action", value=value, boot_id=boot)
        ),
        st.tuples(st.sampled_from(("remap_pending", "ecc_uncorrectable")), st.sampled_from("01")).map(
            lambda told: sees(second, "level", name=told[0], value=told[1], boot_id=boot)
        ),
        st.sampled_from(("ok", "lost", "error")).map(
            lambda value: sees(second, "probe", value=value, boot_id=boot)
        ),
        st.just(sees(second, "reset", boot_id=boot)),
        st.just(sees(second, "card", boot_id=boot, pci="0000:b3:00.0")),
        st.sampled_from(("hold", "release", "ack")).map(lambda what: person(second, what)),
    )


def final(events: list[Signal | Acted]) -> tuple[HealthState, list[tuple[str, str, int]]]:
    """State and reasons after all of it has been told, long after it happened."""
    judge = Clocked()
    judge.at(450, sees(0, "card", boot_id="b1"), nobody(), *events)
    judge.at(200_000, sees(200_000, "probe", value="ok"))
    return judge.state(), [(one.id, one.klass, one.count) for one in judge.verdict().reasons]


@given(signals(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_any_order_of_arrival_gives_the_same_verdict(told: list[Signal | Acted], dice: Random) -> None:
    mixed = list(told)
    dice.shuffle(mixed)
    assert final(mixed) == final(told)


@given(signals())
@settings(max_examples=60, deadline=None)
def test_telling_everything_twice_changes_nothing(told: list[Signal | Acted]) -> None:
    judge = Clocked()
    judge.at(450, nobody(), *told)
    before, seen = judge.verdict(), len(judge.transitions)
    judge.at(450, *told)
    assert judge.verdict() == before
    assert len(judge.transitions) == seen


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, Event]]:
    told: list[tuple[int, Event]] = [
        (one.manual.at_ms if isinstance(one, Acted) else one.at_ms, one) for one in draw(signals())
    ]
    start = sees(0, "card").at_ms
    uses = draw(st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=6))
    told += [(start + second * 1000, somebody() if busy else nobody()) for second, busy in uses]
    told += [(start + second * 1000, Tick()) for second in draw(st.lists(st.integers(1, 900), max_size=4))]
    return sorted(told, key=lambda one: one[0])


def seconds(at_ms: int) -> float:
    return (at_ms - sees(0, "card").at_ms) / 1000


@given(histories())
@settings(max_examples=60, deadline=None)
def test_a_card_with_a_pod_on_it_is_never_withheld(history: list[tuple[int, Event]]) -> None:
    judge = Clocked()
    judge.at(0, sees(0, "card"))
    busy = False
    for at_ms, event in history:
        judge.at(seconds(at_ms), event)
        busy = bool(event.pods) if isinstance(event, Told) else busy
        assert not (busy and judge.verdict().withheld)


@given(histories())
@settings(max_examples=60, deadline=None)
def test_every_transition_has_another_state_or_set_of_reasons_and_the_next_number(
    history: list[tuple[int, Event]],
) -> None:
    judge = Clocked()
    judge.at(0, sees(0, "card"))
    last = judge.verdict()
    for at_ms, event in history:
        for effect in judge.at(seconds(at_ms), event):
            if isinstance(effect, Transition):
                now = effect.verdict
                assert (last.state, _ids(last)) != (now.state, _ids(now))
                assert (effect.previous, now.seq) == (last.state, last.seq + 1)
                last = now


@given(histories())
@settings(max_examples=60, deadline=None)
def test_only_its_own_condition_takes_a_latched_reason_back(history: list[tuple[int, Event]]) -> None:
    judge = Clocked()
    judge.at(0, sees(0, "card", boot_id="b1"))
    for at_ms, event in history:
        before = {one.id: one for one in judge.verdict().reasons}
        judge.at(seconds(at_ms))
        idle = {one.id: one for one in judge.verdict().reasons}
        by_time = [before[name] for name in before.keys() - idle.keys() if before[name].latched]
        assert all(one.kind == "level" for one in by_time)  # its samples are observations
        judge.at(seconds(at_ms), event)
        gone = [idle[name] for name in idle.keys() - set(judge.reasons()) if idle[name].latched]
        assert all(_may_go(one.clears_on, one.kind, event) for one in gone)


def _may_go(clears_on: str, kind: str, event: Event) -> bool:
    if isinstance(event, Acted):
        return event.manual.what == ("release" if kind == "manual" else "ack")
    assert isinstance(event, Signal)
    if event.boot_id == "b2":
        return True
    return {
        "reset": event.kind == "reset" or (event.kind == "recovery_action" and event.value == "none"),
        "level": event.kind in ("level", "recovery_action"),
        "presence": event.kind in ("card", "reset", "probe", "recovery_action"),
    }.get(clears_on, False)


@given(signals(), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_what_was_judged_before_a_restart_changes_nothing_when_it_is_told_again(
    told: list[Signal | Acted], unjudged: int
) -> None:
    """A judge that starts anew and hears everything again knows all that one knows that lived through it."""
    heard = [sees(0, "card", boot_id="b1"), *(one for one in told if isinstance(one, Signal))]
    lived, first, again = Clocked(), Clocked(), Clocked()
    lived.at(450, *heard)
    first.at(450, *heard[: max(len(heard) - unjudged, 1)])
    again.at(451, Restored(verdict=first.verdict()), CaughtUp(tuple(heard)))
    for judge in (lived, again):
        judge.at(600, sees(600, "probe", value="ok"))
    assert _latched(lived) <= _latched(again)


@given(histories(), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_a_judge_that_starts_anew_from_its_verdict_returns_no_latched_card(
    history: list[tuple[int, Event]], killed_after: int
) -> None:
    judge = Clocked()
    judge.at(0, sees(0, "card", boot_id="b1"))
    for number, (at_ms, event) in enumerate(history):
        judge.at(seconds(at_ms), event)
        if number != killed_after:
            continue
        latched = {one.id for one in judge.verdict().reasons if one.latched}
        again = Clocked()
        again.at(seconds(at_ms), Restored(verdict=replace(judge.verdict(), events=("x",))), event)
        assert latched <= set(again.reasons())
        assert again.verdict().schedulable == judge.verdict().schedulable or again.state() == "unknown"
        judge = again


def _ids(verdict: Verdict) -> list[str]:
    return [one.id for one in verdict.reasons]


def _latched(judge: Clocked) -> set[str]:
    return {one.id for one in judge.verdict().reasons if one.latched}
