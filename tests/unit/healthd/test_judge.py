"""What observations make of a card."""

from dataclasses import replace

import pytest
from sublet_healthd.core.event import Unnamed
from sublet_healthd.core.judge import Refreshed, Transition
from sublet_healthd.core.policy import Policy

from sublet.model.health import Action, HealthState, Mode
from tests.unit.healthd.words import (
    NODE,
    POLICY,
    A,
    B,
    Clocked,
    heartbeat,
    nobody,
    person,
    sees,
    somebody,
    xid,
)


def idle_card(mode: Mode = Mode.ENFORCE) -> Clocked:
    judge = Clocked(mode=mode)
    judge.at(0, sees(0, "card", pci="0000:b3:00.0", boot_id="b1"), nobody())
    return judge


def busy_card(policy: Policy = POLICY) -> Clocked:
    judge = Clocked(policy=policy)
    judge.at(0, sees(0, "card", pci="0000:b3:00.0", boot_id="b1"), somebody())
    return judge


def test_the_first_sight_of_a_healthy_card_is_no_transition() -> None:
    [effect, *_] = Clocked().at(0, sees(0, "card"))
    assert isinstance(effect, Refreshed)
    assert (effect.verdict.state, effect.verdict.seq) == (HealthState.HEALTHY, 0)


@pytest.mark.parametrize("code", [48, 62, 79, 95, 119])
def test_a_hard_fault_condemns_an_idle_card_at_once_and_quarantines_it_after_the_grace_period(
    code: int,
) -> None:
    judge = idle_card()
    judge.at(10, xid(10, code))
    assert (judge.state(), judge.verdict().schedulable, judge.verdict().withheld) == (
        "condemned",
        False,
        False,
    )
    judge.at(24.9)
    assert judge.state() is HealthState.CONDEMNED
    judge.at(25)
    assert (judge.state(), judge.verdict().withheld) == (HealthState.QUARANTINED, True)


@pytest.mark.parametrize("code", [13, 31, 43, 45, 94, 9999])
def test_a_fault_of_an_application_and_an_unknown_code_are_only_counted(code: int) -> None:
    judge = idle_card()
    judge.at(10, xid(10, code))
    assert (judge.state(), judge.verdict().schedulable) == (HealthState.HEALTHY, True)
    assert judge.reasons() == [f"xid:{code}"]
    judge.at(610)
    assert judge.reasons() == []


def test_a_busy_card_is_condemned_and_never_withheld_until_its_last_pod_is_gone() -> None:
    judge = busy_card()
    judge.at(10, xid(10, 79))
    judge.at(1000)
    assert (judge.state(), judge.verdict().withheld) == (HealthState.CONDEMNED, False)
    judge.at(2000, nobody())
    judge.at(2015)
    assert (judge.state(), judge.verdict().withheld) == (HealthState.QUARANTINED, True)


def test_a_pod_that_lands_after_the_card_was_marked_makes_it_condemned_again() -> None:
    judge = idle_card()
    judge.at(10, xid(10, 79))
    judge.at(30, somebody())
    assert (judge.state(), judge.verdict().withheld) == (HealthState.CONDEMNED, False)


def test_before_anybody_told_of_its_use_a_card_counts_as_in_use() -> None:
    judge = Clocked()
    judge.at(0, xid(0, 79))
    judge.at(1000)
    assert judge.state() is HealthState.CONDEMNED


def test_a_reset_brings_a_card_back_after_probation() -> None:
    judge = idle_card()
    judge.at(10, xid(10, 48))
    judge.at(100, sees(100, "reset"))
    assert (judge.state(), judge.verdict().withheld) == (HealthState.RECOVERING, True)
    judge.at(160)
    assert (judge.state(), judge.verdict().schedulable, judge.verdict().withheld) == ("healthy", True, False)


def test_a_reset_is_not_enough_for_a_card_that_fell_off_the_bus_another_boot_is() -> None:
    judge = idle_card()
    judge.at(10, xid(10, 79))
    judge.at(100, sees(100, "reset"), sees(101, "boot", None, boot_id="b1"))
    assert judge.state() is HealthState.QUARANTINED
    judge.at(200, sees(200, "boot", None, boot_id="b2"))
    assert judge.state() is HealthState.RECOVERING


def test_another_boot_counts_as_a_reset_of_every_card_of_the_node() -> None:
    judge = idle_card()
    judge.at(10, sees(10, "card", B, boot_id="b1"), xid(10, 48), xid(10, 95, B))
    judge.at(100, sees(100, "probe", B, value="ok", boot_id="b2"))
    assert {judge.state(A), judge.state(B)} == {HealthState.RECOVERING}


def test_a_message_of_a_boot_that_is_over_resets_nothing_and_blames_nobody() -> None:
    judge = idle_card()
    judge.at(10, sees(10, "boot", None, boot_id="b2"), xid(11, 48))
    judge.at(20, sees(9, "probe", value="ok", boot_id="b1"), xid(9, 79, boot_id="b1"))
    assert judge.reasons() == ["xid:48"]


def test_a_healthy_probe_never_clears_an_xid() -> None:
    judge = idle_card()
    judge.at(0, xid(0, 119), sees(0, "recovery_action", value="gpu_reset"))
    for second in range(5, 600, 10):
        judge.at(second, sees(second, "probe", value="ok"))
    assert judge.reasons() == ["recovery_action:gpu_reset", "xid:119"]


def test_the_recovery_action_back_to_none_is_the_observation_of_a_reset() -> None:
    judge = idle_card()
    judge.at(0, xid(0, 119), sees(0, "recovery_action", value="gpu_reset"))
    judge.at(600, sees(600, "recovery_action", value="none"))
    assert (judge.state(), judge.reasons()) == (HealthState.RECOVERING, [])


def test_a_recovery_action_of_none_that_never_was_another_clears_nothing() -> None:
    judge = idle_card()
    judge.at(0, xid(0, 48))
    judge.at(9, sees(9, "recovery_action", value="none"))
    assert judge.reasons() == ["xid:48"]


def test_a_later_harmless_fault_never_brings_a_bad_card_back() -> None:
    judge = busy_card()
    judge.at(0, xid(0, 48))
    judge.at(1, xid(1, 43))
    assert (judge.state(), judge.verdict().action) == (HealthState.CONDEMNED, Action.RESET_GPU)


def test_the_same_fault_told_by_kernel_and_driver_counts_once() -> None:
    judge = busy_card()
    judge.at(1, xid(1, 48, source="nvml"))
    judge.at(3, xid(3, 48, source="kmsg"))
    assert judge.verdict().reasons[0].count == 1
    judge.at(3.5, xid(3.5, 48, source="nvml"))
    assert judge.verdict().reasons[0].count == 2


BUG = "NVRM: Xid (PCI:0000:b3:00): 74, NVLink: error on link 3(0x2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"


@pytest.mark.parametrize("first", ["kmsg", "nvml"])
def test_of_two_ways_that_tell_of_a_fault_the_one_that_says_more_counts(first: str) -> None:
    told = {"kmsg": xid(1, 74, source="kmsg", raw=BUG), "nvml": xid(1, 74, source="nvml")}
    judge = busy_card()
    judge.at(1, told.pop(first))
    judge.at(2, *told.values())
    [reason] = judge.verdict().reasons
    assert (reason.leave, reason.klass, reason.count) == (False, "degraded", 1)


def test_repeats_raise_the_count_without_a_transition() -> None:
    judge = busy_card()
    judge.at(1, xid(1, 48))
    effects = judge.at(20, xid(20, 48))
    assert [type(effect) for effect in effects] == [Refreshed]
    assert judge.verdict().reasons[0].count == 2


def test_faults_of_several_workloads_make_the_card_suspect_those_of_one_do_not() -> None:
    judge = idle_card()
    for second in (1, 2, 3):
        judge.at(second, somebody("default/same"), xid(second, 31))
    assert judge.state() is HealthState.HEALTHY
    judge.at(4, somebody("default/other"), xid(4, 31))
    assert (judge.state(), judge.verdict().schedulable) == (HealthState.SUSPECT, True)


def test_a_storm_under_one_pod_does_not_hide_what_another_saw_before() -> None:
    judge = Clocked()
    judge.at(0, somebody("default/a"), xid(0, 31))
    judge.at(60, somebody("default/b"), *(xid(60, 13, source="file", seq=n) for n in range(1, 40)))
    judge.at(61, xid(61, 31))
    assert judge.state() is HealthState.SUSPECT


def test_a_lost_card_is_lost_at_once_and_recovers_when_it_is_seen_again() -> None:
    judge = idle_card()
    judge.at(10, sees(10, "probe", value="lost"))
    assert (judge.state(), judge.verdict().schedulable) == (HealthState.LOST, False)
    judge.at(25)
    assert judge.verdict().withheld
    judge.at(100, sees(100, "card"))
    assert judge.state() is HealthState.RECOVERING


def test_an_xid_79_alone_is_a_reason_and_not_the_lost_state() -> None:
    judge = busy_card()
    judge.at(1, xid(1, 79))
    assert judge.state() is HealthState.CONDEMNED


def test_three_probes_without_an_answer_make_a_card_unknown_and_never_worse() -> None:
    judge = idle_card()
    for second in (1, 2, 3, 4):
        judge.at(second, sees(second, "probe", value="hang"))
    assert (judge.state(), judge.verdict().schedulable) == (HealthState.UNKNOWN, True)
    judge.at(5, sees(5, "probe", value="ok"))
    assert judge.state() is HealthState.HEALTHY


def test_one_good_probe_and_then_heartbeats_keep_a_card_healthy() -> None:
    judge = idle_card()
    judge.at(0, sees(0, "probe", value="ok"))
    for second in range(5, 600, 5):
        judge.at(second, heartbeat(second))
    assert judge.transitions == []
    for second in (600, 610, 620):
        judge.at(second, heartbeat(second), sees(second, "probe", value="hang"))
    assert judge.state() is HealthState.UNKNOWN
    judge.at(630, sees(630, "probe", value="ok"))
    for second in range(635, 900, 5):
        judge.at(second, heartbeat(second))
    assert judge.state() is HealthState.HEALTHY


def test_silence_makes_only_a_card_unknown_that_was_ever_probed() -> None:
    judge = idle_card()
    judge.at(500)
    assert judge.state() is HealthState.HEALTHY
    judge.at(500, sees(500, "probe", value="ok"))
    judge.at(589)
    assert judge.state() is HealthState.HEALTHY
    judge.at(590)
    assert judge.state() is HealthState.UNKNOWN


def test_silence_never_heals_a_card_that_was_closed() -> None:
    judge = idle_card()
    judge.at(0, xid(0, 48), sees(1, "reset"))
    judge.at(100, sees(100, "probe", value="ok"), xid(100, 48))
    judge.at(120, sees(120, "reset"))  # probation lasts 120 s now, silence is noticed after 90
    judge.at(300)
    assert (judge.state(), judge.verdict().schedulable, judge.verdict().withheld) == ("unknown", False, True)
    judge.at(301, sees(301, "probe", value="ok"))
    assert (judge.state(), judge.verdict().schedulable) == (HealthState.HEALTHY, True)


def test_a_latched_reason_outranks_silence() -> None:
    judge = idle_card()
    judge.at(10, xid(10, 48), sees(10, "probe", value="ok"))
    judge.at(5000)
    assert judge.state() is HealthState.QUARANTINED


def test_a_level_is_bad_after_three_of_five_samples_and_good_again_likewise() -> None:
    judge = idle_card()
    judge.at(10, sees(10, "level", name="remap_pending", value="true"))
    judge.at(29)
    assert judge.state() is HealthState.HEALTHY
    judge.at(30)
    assert (judge.state(), judge.reasons()) == (HealthState.SUSPECT, ["level:remap_pending"])
    judge.at(100, sees(100, "level", name="remap_pending", value="false"))
    judge.at(119)
    assert judge.state() is HealthState.SUSPECT
    judge.at(120)
    assert judge.state() is HealthState.HEALTHY


def test_a_level_that_flickers_once_is_nothing() -> None:
    judge = idle_card()
    judge.at(10, sees(10, "level", name="thermal_slowdown", value="true"))
    judge.at(25, sees(25, "level", name="thermal_slowdown", value="false"))
    judge.at(500)
    assert judge.transitions == []


def test_uncorrectable_errors_need_a_reset_and_a_counter_that_reads_zero() -> None:
    judge = idle_card()
    judge.at(0, sees(0, "level", name="ecc_uncorrectable", value="2"))
    judge.at(60, sees(60, "reset"))
    assert judge.reasons() == ["level:ecc_uncorrectable"]
    judge.at(70, sees(70, "level", name="ecc_uncorrectable", value="0"))
    judge.at(90)
    assert judge.state() is HealthState.RECOVERING


def test_a_held_card_stays_held_until_it_is_released_whatever_else_clears() -> None:
    judge = idle_card()
    judge.at(1, person(1, "hold"), xid(1, 48))
    judge.at(20, sees(20, "reset"))
    assert (judge.state(), judge.reasons()) == (HealthState.HELD, ["manual:hold"])
    judge.at(30, person(30, "release"))
    assert judge.state() is HealthState.RECOVERING


def test_releasing_a_hold_clears_no_fault() -> None:
    judge = idle_card()
    judge.at(1, person(1, "hold"), xid(1, 48))
    judge.at(2, person(2, "release"))
    assert judge.reasons() == ["xid:48"]


def test_an_acknowledgement_clears_faults_but_not_what_can_be_seen_now() -> None:
    judge = idle_card()
    judge.at(0, sees(0, "level", name="remap_failed", value="true"), xid(0, 54))
    judge.at(30, person(30, "ack"))
    assert judge.reasons() == ["level:remap_failed"]
    judge.at(40, sees(40, "level", name="remap_failed", value="false"))
    judge.at(70)
    assert judge.reasons() == ["level:remap_failed"]
    judge.at(80, person(80, "ack"))
    assert judge.reasons() == []


def test_a_card_that_falls_ill_again_stays_twice_as_long_in_probation() -> None:
    judge = idle_card()
    judge.at(0, xid(0, 48), sees(1, "reset"))
    judge.at(100, xid(100, 48))
    judge.at(101, sees(101, "reset"))
    judge.at(220)
    assert judge.state() is HealthState.RECOVERING
    judge.at(221)
    assert judge.state() is HealthState.HEALTHY


def test_a_new_card_at_the_same_place_replaces_the_old_one() -> None:
    judge = busy_card()
    judge.at(1, xid(1, 48))
    judge.at(9, sees(9, "card", B, pci="00000000:B3:00.0"))
    assert (judge.state(A), judge.state(B)) == (HealthState.LOST, HealthState.HEALTHY)


def test_a_kernel_line_finds_its_card_by_address_in_any_form() -> None:
    judge = idle_card()
    judge.at(1, sees(1, "kmsg", None, raw="NVRM: Xid (PCI:00000000:B3:00): 79, pid=7, fallen off"))
    assert judge.reasons() == ["xid:79"]


def test_falling_off_the_bus_without_an_xid_is_read_over_several_lines() -> None:
    judge = idle_card()
    lines = (
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:2330)",
        "NVRM: fallen off the bus and is",
    )
    for number, line in enumerate(lines):
        judge.at(1 + number / 1000, sees(1 + number / 1000, "kmsg", None, raw=line))
    assert judge.reasons() == ["xid:79"]


def test_a_kernel_line_of_xid_154_carries_the_recovery_action() -> None:
    judge = idle_card()
    text = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    judge.at(1, sees(1, "kmsg", None, raw=f"NVRM: Xid (PCI:0000:b3:00): 154, {text}"))
    assert judge.reasons() == ["recovery_action:gpu_reset"]


def test_a_fault_whose_card_nobody_can_name_blames_no_card() -> None:
    judge = idle_card()
    [effect] = judge.at(1, xid(1, 79, None, pci="0000:ff:00.0"))
    assert isinstance(effect, Unnamed)
    assert judge.state() is HealthState.HEALTHY


def test_a_fatal_switch_fault_takes_every_card_of_the_node() -> None:
    judge = busy_card()
    judge.at(0, sees(0, "card", B))
    judge.at(1, sees(1, "sxid", None, code=22003))
    assert judge.verdict(A).action == judge.verdict(B).action == Action.RESET_FABRIC


@pytest.mark.parametrize(
    ("mode", "schedulable", "withheld", "not_done"),
    [
        (Mode.ENFORCE, False, True, ""),
        (Mode.GUARD, False, False, "withhold"),
        (Mode.OBSERVE, True, False, "close,withhold"),
    ],
)
def test_a_mode_changes_what_is_done_and_says_what_was_not(
    mode: Mode, schedulable: bool, withheld: bool, not_done: str
) -> None:
    judge = idle_card(mode)
    judge.at(1, xid(1, 48))
    judge.at(20)
    verdict = judge.verdict()
    assert verdict.state is HealthState.QUARANTINED
    assert (verdict.schedulable, verdict.withheld, verdict.not_done) == (schedulable, withheld, not_done)


def test_a_node_whose_clock_runs_ahead_does_not_stretch_timers() -> None:
    judge = idle_card()
    judge.at(1, xid(9999, 43))
    judge.at(601)
    assert judge.reasons() == []


def test_every_transition_is_numbered_and_names_policy_and_rule() -> None:
    judge = busy_card()
    judge.at(1, xid(1, 48))
    [effect] = judge.at(2, sees(2, "reset"))
    assert isinstance(effect, Transition)
    assert (effect.verdict.seq, effect.verdict.policy, effect.verdict.rule) == (
        2,
        "xid-policy/v1",
        "probation",
    )
    assert effect.verdict.node == NODE


def test_an_overridden_row_of_the_policy_is_followed() -> None:
    xid_48 = {48: replace(POLICY.rules.xid[48], leave=False)}
    judge = busy_card(replace(POLICY, rules=replace(POLICY.rules, xid={**POLICY.rules.xid, **xid_48})))
    judge.at(1, xid(1, 48))
    assert judge.state() is HealthState.HEALTHY
