"""`sublet health replay` and `policy`: healthd's judge and its table, offline."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from sublet.cli.events import event_line
from sublet.cli.health.manual import answer_words
from sublet.client import PublicEvent
from sublet.model.health import ManualAct
from sublet.model.ids import CardId, NodeName
from tests.unit.cli.running import Sublet

LINES = "\n".join(
    json.dumps(line)
    for line in (
        {"t": 0, "node": "n1", "card": "A", "kind": "card", "pci": "0000:3b:00.0", "bootId": "b1"},
        {"t": 1, "node": "n1", "card": "A", "kind": "occupancy", "pods": []},
        {"t": 2, "node": "n1", "card": "A", "kind": "xid", "code": 79, "source": "nvml"},
        {"t": 60, "kind": "tick"},
    )
)


def test_a_bad_idle_card_gives_two_lines(sublet: Sublet) -> None:
    ran = sublet("health", "replay", "-f", sublet.file("l.jsonl", LINES), "-o", "json")
    changes = [json.loads(line) for line in ran.out.splitlines()]
    assert [(one["t"], one["to"], one["kubelet"]) for one in changes] == [
        (2, "condemned", "Healthy"),
        (17, "quarantined", "Unhealthy"),
    ]


def test_the_mode_says_what_is_not_done(sublet: Sublet) -> None:
    ran = sublet("health", "replay", "-f", sublet.file("l.jsonl", LINES), "-o", "json", "--mode", "observe")
    assert json.loads(ran.out.splitlines()[0])["notDone"]


def test_a_bad_line_ends_with_2_and_its_number(sublet: Sublet) -> None:
    ran = sublet("health", "replay", "-f", sublet.file("l.jsonl", "{}\n"), "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "l.jsonl: line 1: " in ran.err


def test_a_preset_stands_where_a_policy_file_may_stand(sublet: Sublet) -> None:
    lines = json.dumps({"t": 0, "node": "n1", "card": "A", "kind": "xid", "code": 109})
    ran = sublet("health", "replay", "-f", sublet.file("l.jsonl", lines), "--policy", "eks", "-o", "json")
    assert json.loads(ran.out)["to"] == "condemned"
    ran = sublet(
        "health", "replay", "-f", sublet.file("l.jsonl", lines), "--policy", "device-plugin", "-o", "json"
    )
    assert json.loads(ran.out)["to"] == "healthy"


def test_rows_of_a_policy_are_shown_as_they_are_for_a_model(sublet: Sublet) -> None:
    own = """
preset: catalogue
name: mine
version: "2"
products:
- model: a100
  xid:
  - {codes: "94", leave: true, action: reset_gpu, clears_on: reset, differs: we had trouble with it}
"""
    path = sublet.file("mine.yaml", own)
    shown = sublet("health", "policy", "show", "xid:94", "--policy", path, "-o", "json").json
    assert (shown["policy"], shown["rules"][0]["leave"]) == ("mine/v2", False)
    shown = sublet(
        "health", "policy", "show", "xid:94", "--policy", path, "--model", "NVIDIA A100-SXM4", "-o", "json"
    ).json
    assert (shown["rules"][0]["leave"], shown["rules"][0]["name"]) == (True, "contained memory error")
    assert sublet("health", "policy", "lint", "--policy", path).code == 0


def test_lint_ends_with_1_where_a_row_differs_silently(sublet: Sublet) -> None:
    own = (
        "preset: catalogue\nname: mine\nversion: '1'\nxid:\n- {codes: '48,79', leave: false, action: none}\n"
    )
    ran = sublet("health", "policy", "lint", "--policy", sublet.file("mine.yaml", own))
    assert ran.code == 1
    assert "xid:48: the vendor says WORKFLOW_XID_48" in ran.out
    assert "xid:79: action none where the vendor says RESTART_BM" in ran.out


def test_a_row_that_is_not_there_is_an_error_that_names_it(sublet: Sublet) -> None:
    ran = sublet("health", "policy", "show", "xid:79", "xid:9x")
    assert (ran.code, ran.out) == (2, "")
    assert "no row for xid:9x" in ran.err


def test_lint_calls_a_preset_by_its_name(sublet: Sublet) -> None:
    assert sublet("health", "policy", "lint").out.startswith("catalogue (")


def test_what_is_asked_of_the_breaker_is_said_in_words() -> None:
    act = ManualAct(
        id="1", node=None, card=None, what="breaker_half_open", by="ann", note="", at_ms=0, until_ms=0
    )
    told = answer_words(act, {"what": "asked_breaker_half_open"})
    assert told == "healthd was asked by ann to set the breaker half-open; `sublet health breaker` shows it"
    card = replace(act, node=NodeName("n"), card=CardId("A"), what="hold")
    assert answer_words(card, {"what": "held"}) == "A: held by ann"


def test_an_audit_event_says_who_and_why() -> None:
    event = PublicEvent(
        id="1",
        type="dev.sublet.audit.held.v1",
        source="healthd",
        subject="A",
        time=datetime(2026, 11, 29, tzinfo=UTC),
        sequence=1,
        position=1,
        kind="audit",
        node=NodeName("n"),
        card=CardId("A"),
        data={"what": "held", "by": "ann", "note": "fan is loud"},
    )
    assert event_line(event).endswith("by ann: fan is loud")


def test_a_policy_that_is_neither_a_preset_nor_a_file_ends_with_2(sublet: Sublet) -> None:
    assert sublet("health", "policy", "lint", "--policy", "favourite").code == 2
