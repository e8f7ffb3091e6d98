"""`sublet health replay`: healthd's judge over a file."""

import json

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
