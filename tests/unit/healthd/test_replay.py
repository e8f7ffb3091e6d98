"""The offline replay: its input, its timers, its output."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from sublet_healthd.core.replay import replay

from sublet.model.errors import BadRequest
from tests.unit.healthd.words import POLICY


def judged(*records: Mapping[str, Any]) -> list[dict[str, Any]]:
    lines = [json.dumps({"node": "n1", "card": "A", **record}) for record in records]
    return list(replay(POLICY, lines))


def test_a_bad_idle_card_gives_two_lines_and_the_second_carries_the_due_time() -> None:
    lines = judged(
        {"t": 0, "kind": "occupancy", "pods": []},
        {"t": 10, "kind": "xid", "code": 79, "source": "nvml"},
        {"t": 100, "kind": "tick"},
    )
    assert lines == [
        {
            "t": 10,
            "node": "n1",
            "card": "A",
            "from": "healthy",
            "to": "condemned",
            "schedulable": False,
            "kubelet": "Healthy",
            "reasons": ["xid:79"],
            "action": "reboot_node",
            "notDone": "",
            "rule": "xid:79",
        },
        {
            "t": 25,
            "node": "n1",
            "card": "A",
            "from": "condemned",
            "to": "quarantined",
            "schedulable": False,
            "kubelet": "Unhealthy",
            "reasons": ["xid:79"],
            "action": "reboot_node",
            "notDone": "",
            "rule": "xid:79",
        },
    ]


def test_the_first_sight_of_a_healthy_card_gives_no_line() -> None:
    assert judged({"t": 0, "kind": "card", "bootId": "b1"}, {"t": 9, "kind": "tick"}) == []


def test_after_the_last_line_no_timer_fires() -> None:
    lines = judged({"t": 0, "kind": "occupancy", "pods": []}, {"t": 10.5, "kind": "xid", "code": 48})
    assert [(line["t"], line["to"]) for line in lines] == [(10.5, "condemned")]


def test_timers_fire_in_order_before_the_next_line() -> None:
    lines = judged(
        {"t": 0, "kind": "occupancy", "pods": []},
        {"t": 0, "kind": "xid", "code": 48},
        {"t": 5, "kind": "xid", "code": 31},
        {"t": 20, "kind": "reset"},
        {"t": 1000, "kind": "tick"},
    )
    assert [(line["t"], line["to"], line["reasons"]) for line in lines] == [
        (0, "condemned", ["xid:48"]),
        (5, "condemned", ["xid:31", "xid:48"]),
        (15, "quarantined", ["xid:31", "xid:48"]),
        (20, "recovering", ["xid:31"]),
        (80, "healthy", ["xid:31"]),
        (605, "healthy", []),
    ]


def test_a_boot_line_alone_brings_back_a_card_whose_earlier_boot_nobody_named() -> None:
    lines = judged({"t": 0, "kind": "xid", "code": 79}, {"t": 9, "kind": "boot", "bootId": "b2"})
    assert [line["to"] for line in lines] == ["condemned", "recovering"]


def test_people_hold_release_and_acknowledge() -> None:
    lines = judged(
        {"t": 0, "kind": "hold", "by": "ada", "note": "fan"},
        {"t": 1, "kind": "xid", "code": 54},
        {"t": 2, "kind": "release", "by": "ada", "note": ""},
        {"t": 3, "kind": "ack", "by": "ada", "note": "cable"},
    )
    assert [(line["to"], line["reasons"]) for line in lines] == [
        ("held", ["manual:hold"]),
        ("held", ["manual:hold", "xid:54"]),
        ("condemned", ["xid:54"]),
        ("recovering", []),
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("nonsense", "line 2 is not JSON"),
        ("[]", "line 2 is not an object"),
        ('{"kind": "tick"}', "line 2: t=None"),
        ('{"t": 3, "kind": "tick"}', "before the line above"),
        ('{"t": 6, "kind": "wish"}', "kind='wish' is unknown"),
        ('{"t": 6, "kind": "xid", "node": "n", "card": "A"}', "code=None is not a whole number"),
        ('{"t": 6, "kind": "xid", "node": "n", "code": 1}', "card=None is not a text"),
        (
            '{"t": 6, "kind": "probe", "node": "n", "card": "A", "result": "bad"}',
            "result='bad' is not one of",
        ),
        ('{"t": 6, "kind": "occupancy", "node": "n", "card": "A", "pods": "x"}', "pods='x'"),
        ('{"t": 6, "kind": "level", "node": "n", "card": "A", "name": "x", "value": []}', "value=[]"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_by_its_number(line: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        list(replay(POLICY, ['{"t": 5, "kind": "tick"}', line]))
    assert complaint in str(refused.value)
