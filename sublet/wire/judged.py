"""The public event of a verdict, as canonical protobuf JSON."""

from datetime import UTC, datetime

from google.protobuf.json_format import MessageToJson

from sublet.model.card import Card
from sublet.model.health import HealthState, OpenReason, Verdict
from sublet.v1 import event_pb2 as pb


def health_event_out(previous: HealthState, verdict: Verdict, card: Card | None, *, decided_by: str) -> bytes:
    """What became of a card and why; `card` is its agent's description, where there is one."""
    name, _, version = verdict.policy.partition("/v")
    message = pb.HealthEvent(
        card=pb.CardInfo(
            uuid=verdict.card,
            serial=verdict.serial,
            pci=verdict.pci,
            index=card.index if card else 0,
            model=verdict.model,
            vendor=card.vendor if card else "",
        ),
        node=pb.NodeInfo(name=verdict.node, boot_id=verdict.boot_id),
        seq=verdict.seq,
        to=verdict.state,
        schedulable=verdict.schedulable,
        kubelet="Unhealthy" if verdict.withheld else "Healthy",
        reasons=[_reason(reason) for reason in verdict.reasons],
        action=verdict.action,
        not_done=verdict.not_done,
        policy=pb.PolicyInfo(name=name, version=version, rule=verdict.rule),
        decided_by=decided_by,
    )
    setattr(message, "from", str(previous))
    return MessageToJson(message, indent=None, always_print_fields_with_no_presence=True).encode()


def rfc3339(at_ms: int) -> str:
    """Unix milliseconds as text in UTC, such as ``2026-01-02T03:04:05.006Z``."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _reason(reason: OpenReason) -> pb.EventReason:
    message = pb.EventReason(
        code=reason.id,
        kind=reason.kind,
        first_seen=rfc3339(reason.first_seen_ms),
        last_seen=rfc3339(reason.last_seen_ms),
        count=reason.count,
        latched=reason.latched,
        clears_on=reason.clears_on,
    )
    setattr(message, "class", reason.klass)
    return message
