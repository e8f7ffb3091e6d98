"""The policy as data, and the annotation that a judge is rebuilt from."""

import pytest
from sublet_healthd.core.annotation import read_annotation, write_annotation
from sublet_healthd.core.nvlink import DECODED
from sublet_healthd.core.policyfile import PRESETS, parse_policy, preset
from sublet_healthd.core.policylint import lint

from sublet.model.errors import BadRequest
from sublet.model.health import Action
from tests.unit.healthd.words import NODE, POLICY, A, B, Clocked, nobody, person, sees, xid

MINE = "preset: catalogue\nname: mine\nversion: '1'\n"
ROW = "name: p\nversion: '1'\nxid:\n- {codes: '%s', class: app, action: %s, leave: %s, clears_on: %s}\n"


@pytest.mark.parametrize("name", PRESETS)
def test_every_row_of_a_preset_follows_the_vendor_or_says_why_not(name: str) -> None:
    assert lint(preset(name)) == []


def test_codes_without_a_sourced_action_are_warnings_only() -> None:
    rules = [POLICY.rules.xid_rule(code) for code in range(162, 173) if code != 168]
    assert not any(rule.leave or rule.action is not Action.NONE for rule in rules)


def test_the_preset_eks_takes_out_what_its_agent_calls_fatal_and_nothing_else() -> None:
    fatal = {46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 142, 143, 151, 155, 156, 158}
    rules = preset("eks").rules
    assert {code for code in range(1, 1000) if rules.xid_rule(code).leave} == fatal


def test_the_preset_device_plugin_takes_a_card_out_for_every_code_but_those_that_it_ignores() -> None:
    rules = preset("device-plugin").rules
    stays = {code for code in range(1, 1000) if not rules.xid_rule(code).leave}
    assert stays == {13, 31, 43, 45, 68, 109, 154}  # 154: its action is judged for itself


def test_a_row_that_judges_otherwise_is_not_undone_by_what_a_line_says() -> None:
    for name in ("eks", "device-plugin"):
        rules = preset(name).rules
        assert not any(rules.xid_rule(code).decode for code in DECODED)
    mine = parse_policy(MINE + "xid:\n- {codes: '74', leave: false, clears_on: time}\n").rules
    assert (mine.xid_rule(74).decode, mine.xid_rule(149).decode) == (False, True)
    renamed = parse_policy(MINE + "xid:\n- {codes: '74', name: a bridge}\n").rules
    assert renamed.xid_rule(74).decode


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- x", "not a mapping"),
        ("{", "not YAML"),
        ("name: p\nversion: '1'\nxids: []", "unknown keys xids"),
        ("version: '1'", "lacks 'name'"),
        (ROW % ("x", "none", "false", "time"), "neither a code nor a range"),
        (ROW % ("1,1", "none", "false", "time"), "names xid 1 twice"),
        (ROW % ("1", "explode", "false", "time"), "action 'explode'"),
        (ROW % ("1", "none", "false", "time, decode: true"), "decode is for XIDs whose lines are decoded"),
        (ROW % ("1", "none", "false", "luck"), "clears_on 'luck'"),
        (ROW % ("1", "none", "true", "time"), "time alone never brings a card back"),
        ("name: p\nversion: '1'\nxid:\n- {codes: '1', leave: true}\n", "lacks action, class, clears_on"),
        (MINE + "xid:\n- {codes: '79', leaves: false}\n", "unknown keys leaves"),
        (MINE + "xid:\n- {codes: '13', repeat: {times: 2}}\n", "repeat {'times': 2} does not consist of"),
        (MINE + "xid:\n- {codes: '13', repeat: {count: 0}}\n", "repeat count 0"),
        (MINE + "level:\n- {name: power_brake, above: much}\n", "above 'much' is not a number"),
        (MINE + "products:\n- {xid: []}\n", "names no model"),
        (MINE + "products:\n- {model: a100, breaker: {}}\n", "unknown keys breaker"),
        (MINE + "breaker: {fleet: 1}\n", "unknown key fleet"),
        (MINE + "offender: {resets: 0}\n", "resets=0 is not a number above 0"),
        (MINE + "xid: 79\n", "xid is '79', not a list of rows"),
        (MINE + "xid: [79]\n", "xid is '[79]', not a list of rows"),
        (MINE + "xid: {codes: '79'}\n", "not a list of rows"),
        (MINE + "xid:\n- {codes: '79', 1: x}\n", "unknown keys 1"),
        (MINE + "xid:\n- {codes: '1-99999999999'}\n", "neither a code nor a range"),
        (MINE + "xid:\n- {codes: '41-39'}\n", "neither a code nor a range"),
        (MINE + "xid:\n- {codes: '²'}\n", "neither a code nor a range"),
        (MINE + "level:\n- {name: power_brake, above: .nan}\n", "above nan is not a number"),
        (MINE + "products: a100\n", "products is 'a100', not a list of rows"),
        (MINE + "source: nvidia\n", "source 'nvidia'"),
        (MINE + "breaker: 3\n", "breaker 3 is not a mapping"),
        (MINE + "offender: {1: 2}\n", "unknown key 1"),
        (MINE + "offender: {resets: .inf}\n", "resets=inf is not a number above 0"),
        (MINE + "window_s: .inf\n", "window_s=inf is not a number of seconds"),
        ("preset: mine\nname: p\nversion: '1'\n", "no policy preset 'mine'"),
    ],
)
def test_a_policy_that_cannot_be_read_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_policy(text)
    assert complaint in str(refused.value)


def test_a_row_on_top_of_a_preset_says_only_what_differs() -> None:
    policy = parse_policy(MINE + "window_s: 60\nxid:\n- {codes: '31,94', leave: true, clears_on: reset}\n")
    rule = policy.rules.xid_rule(94)
    assert (rule.leave, rule.clears_on, rule.action) == (True, "reset", Action.RESTART_APP)
    assert rule.name == "contained memory error"
    assert policy.rules.xid_rule(79) == POLICY.rules.xid_rule(79)
    assert policy.timing.window_ms == 60_000
    assert len(lint(policy)) == 2


def test_limits_and_patience_with_offenders_are_numbers_of_the_policy() -> None:
    text = MINE + "breaker: {fleet_percent: 5, window_s: 60}\noffender: {reboots: 4, window_s: 3600}\n"
    policy = parse_policy(text)
    assert (policy.limits.fleet_percent, policy.limits.window_ms, policy.limits.cards) == (5, 60_000, 2)
    assert (policy.offender.reboots, policy.offender.resets, policy.offender.window_ms) == (4, 3, 3_600_000)


def test_cards_of_a_product_are_judged_by_its_own_rows() -> None:
    policy = parse_policy(MINE + "products:\n- {model: A100, xid: [{codes: '109', leave: false}]}\n")
    judge = Clocked(policy=policy)
    judge.at(0, sees(0, "card", A, model="NVIDIA A100-SXM4-80GB"), sees(0, "card", B, model="NVIDIA H100"))
    judge.at(1, xid(1, 109, A), xid(1, 109, B))
    assert (judge.verdict(A).schedulable, judge.verdict(B).schedulable) == (True, False)


def test_a_code_without_a_row_is_judged_by_the_row_for_all_others() -> None:
    row = "xid:\n- {codes: '*', leave: true, action: inspect, clears_on: manual}\n"
    policy = parse_policy(MINE + row)
    assert policy.rules.xid_rule(9999).leave
    assert not POLICY.rules.xid_rule(9999).leave


def test_an_annotation_brings_back_state_reasons_hold_and_counters() -> None:
    judge = Clocked()
    judge.at(0, sees(0, "card", pci="0000:b3:00.0", boot_id="b1"), nobody(), xid(0, 48, boot_id="b1"))
    judge.at(20, person(20, "hold"))
    text = write_annotation(judge.engine.known.of_node(NODE))
    assert text is not None
    again = Clocked()
    again.at(30, *read_annotation(NODE, text))
    assert write_annotation(again.engine.known.of_node(NODE)) == text
    again.at(31, sees(31, "reset"), person(31, "release"))
    assert again.state() == "recovering"


def test_a_node_of_healthy_cards_needs_no_annotation() -> None:
    judge = Clocked()
    judge.at(0, sees(0, "card"))
    assert write_annotation(judge.engine.known.of_node(NODE)) is None


@pytest.mark.parametrize("text", ["", "[]", '{"cards": []}', '{"cards": {"A": {"state": "odd"}}}'])
def test_an_annotation_that_is_none_of_ours_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        read_annotation(NODE, text)
