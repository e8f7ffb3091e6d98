"""CloudEvents 1.0 in binary mode over NATS: attributes as ``ce-*`` headers, the JSON body untouched.

`datacontenttype` is a header like the others; the plain ``Content-Type`` is left to mean structured mode.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from sublet.contract import subjects
from sublet.model.errors import BadRequest

_SPEC: Final = "1.0"
_CONTENT: Final = "application/json"
_SEQUENCE_DIGITS: Final = 20  # as many as the largest uint64 has, so that text order is number order
_SCHEMAS: Final = {
    "card": "proto:sublet.v1.CardEvent",
    "health": "proto:sublet.v1.HealthEvent",
    "share": "proto:sublet.v1.ShareEvent",
    "pod": "proto:sublet.v1.ShareEvent",
    "audit": "proto:sublet.v1.AuditEvent",
}
_TYPE: Final = re.compile(r"dev\.sublet\.([a-z]+)\.[a-z_]+\.v1")
_WORD: Final = re.compile(r"[a-z]+(_[a-z]+)*")
_TRACE: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_PRINTABLE: Final = frozenset(range(0x21, 0x7F)) - frozenset(b'"%')


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What an event says about itself.

    `id` is the same whenever the same fact is published again; `subject` is the card's uuid, or what else the
    event is about; `partitionkey` groups what must stay in order; `sequence` counts within it and only rises.
    `traceparent`, as W3C has it, is of one trace for all events that one thing led to; empty where none is.
    """

    id: str
    source: str
    type: str
    subject: str
    time: datetime
    dataschema: str
    partitionkey: str
    sequence: int
    traceparent: str = ""


def describe(
    kind: str,
    what: str,
    *,
    event_id: str,
    node: str | None,
    about: str,
    time: datetime,
    sequence: int,
    cluster: str = "",
    trace: str = "",
) -> Attributes:
    """The attributes of one of our events, type ``dev.sublet.<kind>.<what>.v1``.

    Args:
        kind: one of `subjects.EVENT_KINDS`.
        what: what happened, one lower-case word or several joined by ``_``.
        node: where; `None` where no node is concerned.
        about: the card's uuid, or ``namespace/name`` of a pod.
        time: when it was observed.
        cluster: which one, such as the UID of its namespace kube-system; empty where it is not known.
        trace: names what led to the event, the same for all that it led to, such as the decision about a pod;
            32 hexadecimal digits are the trace id itself. Without it the event is a trace of its own.

    Raises:
        BadRequest: `kind` is unknown, `what` no such word, or `time` without a zone.
    """
    if kind not in _SCHEMAS or not _WORD.fullmatch(what):
        raise BadRequest(f"{kind}.{what} is no type of event", hint=f"Kinds: {', '.join(_SCHEMAS)}")
    if time.tzinfo is None:
        raise BadRequest(f"the time {time.isoformat()} of event {event_id} has no zone")
    return Attributes(
        id=event_id,
        source=f"/cluster/{cluster or subjects.MISSING}/node/{node or subjects.MISSING}",
        type=f"dev.sublet.{kind}.{what}.v1",
        subject=about,
        time=time,
        dataschema=_SCHEMAS[kind],
        partitionkey=about,
        sequence=sequence,
        traceparent=_traceparent(trace or event_id, event_id),
    )


def _traceparent(trace: str, event_id: str) -> str:
    """Not sampled: nobody is sent a span."""
    trace_id = trace if _TRACE.fullmatch(trace) else hashlib.sha256(trace.encode()).hexdigest()[:32]
    return f"00-{trace_id}-{hashlib.sha256(event_id.encode()).hexdigest()[:16]}-00"


def to_headers(event: Attributes) -> dict[str, str]:
    return {
        f"ce-{name}": _encoded(value)
        for name, value in {
            "specversion": _SPEC,
            "id": event.id,
            "source": event.source,
            "type": event.type,
            "subject": event.subject,
            "time": event.time.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "datacontenttype": _CONTENT,
            "dataschema": event.dataschema,
            "partitionkey": event.partitionkey,
            "sequence": f"{event.sequence:0{_SEQUENCE_DIGITS}d}",
            "traceparent": event.traceparent,
        }.items()
        if value
    }


def from_headers(headers: Mapping[str, str]) -> Attributes:
    """Read an event's headers; names in any case, unknown ones ignored.

    Raises:
        BadRequest: it is not a CloudEvents 1.0 event of ours; the message names the header.
    """
    given = {name.lower(): unquote(value) for name, value in headers.items()}

    def read(name: str) -> str:
        if value := given.get(f"ce-{name}"):
            return value
        raise BadRequest(f"the header ce-{name} is missing")

    if read("specversion") != _SPEC:
        raise BadRequest(f"ce-specversion={read('specversion')!r} is not {_SPEC}")
    if not _TYPE.fullmatch(read("type")):
        raise BadRequest(f"ce-type={read('type')!r} is not dev.sublet.<kind>.<what>.v1")
    try:
        time = datetime.fromisoformat(read("time"))
        sequence = int(read("sequence"))
    except ValueError as error:
        raise BadRequest(f"ce-time or ce-sequence cannot be read: {error}") from None
    return Attributes(
        id=read("id"),
        source=read("source"),
        type=read("type"),
        subject=read("subject"),
        time=time,
        dataschema=read("dataschema"),
        partitionkey=read("partitionkey"),
        sequence=sequence,
        traceparent=given.get("ce-traceparent", ""),
    )


def _encoded(value: str) -> str:
    """Percent-encode what a header may not carry: spaces, quotes, percent signs, anything but ASCII."""
    return "".join(chr(byte) if byte in _PRINTABLE else f"%{byte:02X}" for byte in value.encode())
