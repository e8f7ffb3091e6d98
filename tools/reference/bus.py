"""Subjects, streams and buckets."""

from sublet.bus.layout import LAYOUT
from sublet.contract import subjects
from tools.reference.page import block, code, codes, page, table

KEYS = {
    subjects.INVENTORY_BUCKET: (
        subjects.inventory_key("n1.example"),
        subjects.heartbeat_key("n1.example"),
        subjects.occupancy_key("n1.example"),
    ),
    subjects.VERDICTS_BUCKET: (subjects.verdict_key("n1.example", "GPU-0001"),),
    subjects.LEDGER_BUCKET: (subjects.ledger_key("n1.example"), subjects.LEDGER_META_KEY),
    subjects.HEALTHD_BUCKET: (subjects.BREAKER_KEY, subjects.HEALTHD_HEARTBEAT_KEY),
}
MIB = 1 << 20


def render() -> str:
    return page(
        "Bus: subjects, streams, buckets",
        "A subject is `"
        + subjects.PREFIX
        + ".<kind>.<node>.<card>`. A node name's `.` is written `_`, what does not "
        f"apply is `{subjects.MISSING}`, and a byte of a card's name that NATS could misread is written `=XX`. One "
        "subject a card, so that one consumer sees one card in order.",
        block("text", "\n".join(_examples())),
        "Kinds: " + codes(subjects.KINDS) + ".",
        "## Streams",
        table(
            ("stream", "subjects", "kept", "bytes", "a message", "the same id counts once within", "why"),
            (
                (
                    code(one.name),
                    codes(one.subjects),
                    f"{one.max_age_s / 86400:g} d",
                    f"{one.max_bytes // MIB} MiB",
                    f"{one.max_message_bytes // 1024} KiB",
                    f"{one.dedupe_s:g} s",
                    one.why,
                )
                for one in LAYOUT.streams
            ),
        ),
        "## Buckets",
        table(
            ("bucket", "keys, for node `n1.example`", "bytes", "a value", "why"),
            (
                (
                    code(one.name),
                    codes(KEYS[one.name]),
                    f"{one.max_bytes // MIB} MiB",
                    f"{one.max_value_bytes // 1024} KiB",
                    one.why,
                )
                for one in LAYOUT.buckets
            ),
        ),
        "Values of buckets and the stream of signals are binary protobuf, package `sublet.v1`; the public stream "
        "carries [JSON](events.md).",
    )


def _examples() -> list[str]:
    return [
        subjects.signal_subject("n1.example", "GPU-0001"),
        subjects.subject("health", "n1.example", "GPU-0001"),
        subjects.subject("pod", None, None),
        subjects.pattern("health", "n1.example"),
    ]
