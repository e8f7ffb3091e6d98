"""The public stream: headers and bodies."""

import html
import re
from datetime import UTC, datetime

from sublet.contract import cloudevents, subjects
from tools.reference.page import ROOT, code, page, table

PROTO = ROOT / "proto" / "sublet" / "v1" / "event.proto"
MESSAGE = re.compile(r"((?:^//[^\n]*\n)*)^message (\w+) \{\n([^}]*)^\}", re.MULTILINE)
FIELD = re.compile(r"^\s*(repeated |optional )?(map<.+?>|[\w.]+) (\w+) = \d+;(?:\s*// (.*))?$", re.MULTILINE)
HEADERS = {
    "ce-specversion": "CloudEvents 1.0, binary mode",
    "ce-id": "the same whenever the same fact is published again",
    "ce-source": "where: the cluster, by `SUBLET_CLUSTER` or the UID of its namespace kube-system, and the node; `-` "
    "where there is none",
    "ce-type": "`dev.sublet.<kind>.<what>.v1`",
    "ce-subject": "the card's UUID, or what else it is about",
    "ce-time": "when it was observed, UTC",
    "ce-datacontenttype": "of the body",
    "ce-dataschema": "the message of `sublet.v1` whose JSON the body is",
    "ce-partitionkey": "what must stay in order",
    "ce-sequence": "only rises within one partition key; as wide as the largest number, so that text order is its order",
    "ce-traceparent": "W3C trace context, one trace for all events that one decision or one signal led to; not sampled",
}


def render() -> str:
    return page(
        "Events",
        f"The stream `{subjects.EVENTS_STREAM}` carries what happened, as canonical protobuf JSON with CloudEvents "
        "headers. Field names in JSON are the camel-case form of those below; a field that has its zero value is "
        "left out; 64-bit numbers are strings. Read it with `sublet events` or, in Python, with "
        "`sublet.client.events` ([how](../howto/subscribe.md)).",
        "## Headers",
        table(("header", "example", "means"), _headers()),
        "A value that a header cannot carry is percent-encoded.",
        "## Bodies",
        *_messages(),
    )


def _headers() -> list[tuple[str, ...]]:
    example = cloudevents.describe(
        "health",
        "changed",
        event_id="GPU-0001.12",
        node="n1",
        about="GPU-0001",
        time=datetime(2026, 11, 29, 12, tzinfo=UTC),
        sequence=12,
        cluster="5e3e3e3c-2f0f-4f59-9a0f-0d6c9f1f5d11",
    )
    return [
        (code(name), code(value), HEADERS[name]) for name, value in cloudevents.to_headers(example).items()
    ]


def _messages() -> list[str]:
    blocks: list[str] = []
    for comment, name, body in MESSAGE.findall(PROTO.read_text()):
        blocks.append(f"### {name}")
        said = " ".join(line.removeprefix("//").strip() for line in comment.splitlines())
        if said:
            blocks.append(html.escape(said, quote=False))
        rows = [
            (code(field), code(f"{label}{kind}"), note) for label, kind, field, note in FIELD.findall(body)
        ]
        blocks.append(table(("field", "type", "notes"), rows))
    return blocks
