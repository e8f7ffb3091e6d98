"""The public event of a verdict, as canonical protobuf JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime

from google.protobuf.json_format import MessageToJson

from sublet.model.card import Card
from sublet.model.health import HealthState, OpenReason, Verdict
from sublet.model.ids import PodRef, PodUid
from sublet.v1 import event_pb2 as pb

_HARDWARE = {HealthState.UNKNOWN: "", HealthState.HEALTHY: "ok", HealthState.SUSPECT: "degraded"}
"""OpenTelemetry's hw.state of what is not failed."""


def health_event_out(
    previous: HealthState,
    verdict: Verdict,
    card: Card | None,
    *,
    decided_by: str,
    epoch: str = "",
    in_use_by: Sequence[tuple[PodRef, PodUid]] = (),
    caused_by: Sequence[str] = (),
) -> bytes:
    """What became of a card and why; `card` is its agent's description, where there is one, `epoch` that
    agent's life, `in_use_by` the pods on the card where they may be named."""
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
        epoch=epoch,
        hw_state=_hardware(verdict),
        in_use_by=[pb.PodInfo(namespace=pod.namespace, name=pod.name, uid=uid) for pod, uid in in_use_by],
        caused_by=caused_by,
    )
    if verdict.hold is not None:
        hold = verdict.hold
        until = rfc3339(hold.until_ms) if hold.until_ms else ""
        message.override.CopyFrom(pb.Override(actor=hold.by, until=until, note=hold.note))
    if verdict.breaker:
        message.breaker.CopyFrom(pb.BreakerInfo(state=verdict.breaker))
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
    if reason.gi is not None:
        message.mig.gi = reason.gi
        if reason.ci is not None:
            message.mig.ci = reason.ci
    return message


def _hardware(verdict: Verdict) -> str:
    """A card that a person put aside, or that is on probation, is as good as its faults say."""
    if any(reason.leave and reason.kind != "manual" for reason in verdict.reasons):
        return "failed"
    return _HARDWARE.get(verdict.state, "ok")
