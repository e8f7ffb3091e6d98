"""Headers of public events."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.contract import cloudevents
from sublet.contract.cloudevents import Attributes
from sublet.model.errors import BadRequest

NOON = datetime(2026, 12, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def event(about: str = "GPU-1", event_id: str = "e1") -> Attributes:
    return cloudevents.describe(
        "health", "transition", event_id=event_id, node="n1", about=about, time=NOON, sequence=7
    )


def test_headers_are_those_of_cloudevents_in_binary_mode() -> None:
    written = event()
    assert cloudevents.to_headers(written) == {
        "ce-specversion": "1.0",
        "ce-id": "e1",
        "ce-source": "/cluster/-/node/n1",
        "ce-type": "dev.sublet.health.transition.v1",
        "ce-subject": "GPU-1",
        "ce-time": "2026-12-01T12:00:00.250000Z",
        "ce-datacontenttype": "application/json",
        "ce-dataschema": "proto:sublet.v1.HealthEvent",
        "ce-partitionkey": "GPU-1",
        "ce-sequence": "00000000000000000007",
        "ce-traceparent": written.traceparent,
    }


def traced(event_id: str, trace: str = "") -> list[str]:
    described = cloudevents.describe(
        "pod", "held", event_id=event_id, node=None, about="ns/p", time=NOON, sequence=1, trace=trace
    )
    return described.traceparent.split("-")


def test_what_one_thing_led_to_is_one_trace_of_which_each_event_is_a_part() -> None:
    decision = "308c189219ac408a8c504e529a0d3ed0"
    version, trace, parent, flags = traced("e1", decision)
    assert (version, trace, flags) == ("00", decision, "00")
    assert traced("e2", decision)[1] == trace
    assert traced("e2", decision)[2] != parent
    assert traced("e1", decision)[2] == parent
    for other in ("", "0" * 32, "signal/GPU-1/79"):
        _, trace, parent, _ = traced("e1", other)
        assert len(bytes.fromhex(trace)) == 16
        assert any(bytes.fromhex(trace))
        assert len(bytes.fromhex(parent)) == 8


def test_an_event_of_before_traces_is_read() -> None:
    headers = cloudevents.to_headers(event())
    del headers["ce-traceparent"]
    assert cloudevents.from_headers(headers).traceparent == ""


def test_the_source_names_cluster_and_node() -> None:
    described = cloudevents.describe(
        "pod", "held", event_id="e", node="n1", about="ns/p", time=NOON, sequence=1, cluster="c1"
    )
    assert described.source == "/cluster/c1/node/n1"


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_any_text_survives_as_a_header(about: str, event_id: str) -> None:
    written = event(about.replace("\ud800", ""), event_id) if about else event()
    headers = cloudevents.to_headers(written)
    assert all(value.isascii() and value.isprintable() and " " not in value for value in headers.values())
    assert cloudevents.from_headers(headers) == written


def test_times_are_written_in_utc() -> None:
    local = NOON.astimezone(timezone(timedelta(hours=2)))
    written = cloudevents.describe(
        "pod", "placed", event_id="1", node=None, about="ns/p", time=local, sequence=0
    )
    assert cloudevents.to_headers(written)["ce-time"].endswith("12:00:00.250000Z")
    assert written.source == "/cluster/-/node/-"


def test_what_is_missing_or_wrong_is_named() -> None:
    good = cloudevents.to_headers(event())
    for name, value, said in (
        ("ce-id", "", "ce-id is missing"),
        ("ce-specversion", "0.3", "'0.3' is not 1.0"),
        ("ce-type", "com.example.x", "com.example.x"),
        ("ce-time", "noon", "noon"),
        ("ce-sequence", "x", "x"),
    ):
        with pytest.raises(BadRequest, match=said):
            cloudevents.from_headers(good | {name: value})


def test_an_event_needs_a_known_kind_a_word_and_a_zone() -> None:
    for kind, what, time in (
        ("signal", "seen", NOON),
        ("health", "Bad-Word", NOON),
        ("health", "transition", NOON.replace(tzinfo=None)),
    ):
        with pytest.raises(BadRequest):
            cloudevents.describe(kind, what, event_id="1", node="n", about="c", time=time, sequence=1)
