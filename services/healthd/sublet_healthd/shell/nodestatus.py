"""What a Node object says of its cards: the annotation a judge is rebuilt from, and the condition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sublet.contract.keys import HEALTH_ANNOTATION, NODE_CONDITION
from sublet.kube.port import Json
from sublet.model.health import HealthState, Verdict
from sublet.wire.judged import rfc3339
from sublet_healthd.core.annotation import write_annotation
from sublet_healthd.core.card import GONE, CardState
from sublet_healthd.core.judge import COMMON_CAUSE

MESSAGE_CHARACTERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What the condition says; the time of the last change goes with `status`."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """What a Node object says or should say; `since` is when the condition got its status."""

    annotation: str | None = None
    condition: Condition | None = None
    since: str = ""


def wanted_status(cards: Sequence[CardState]) -> NodeStatus:
    here = [state.verdict for state in cards if state.verdict and state.verdict.rule not in GONE]
    return NodeStatus(annotation=write_annotation(cards), condition=_condition(here))


def read_status(node: Json) -> NodeStatus:
    metadata, status = node.get("metadata", {}), node.get("status", {})
    found: dict[str, Any] = next(
        (one for one in status.get("conditions") or [] if one.get("type") == NODE_CONDITION), {}
    )
    condition = Condition(
        status=found.get("status", ""), reason=found.get("reason", ""), message=found.get("message", "")
    )
    return NodeStatus(
        annotation=(metadata.get("annotations") or {}).get(HEALTH_ANNOTATION),
        condition=condition if found else None,
        since=found.get("lastTransitionTime", ""),
    )


def condition_patch(condition: Condition, *, since: str, now_ms: int) -> Json:
    told = {
        "type": NODE_CONDITION,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since,
        "lastHeartbeatTime": second(now_ms),
    }
    return {"status": {"conditions": [told]}}


def second(at_ms: int) -> str:
    """Kubernetes' times have whole seconds."""
    return rfc3339(at_ms - at_ms % 1000).replace(".000Z", "Z")


def _condition(verdicts: Sequence[Verdict]) -> Condition | None:
    if not verdicts:
        return None
    closed = [one for one in verdicts if one.state.accepts_shares is False]
    unknown = [one for one in verdicts if one.state is HealthState.UNKNOWN]
    if closed:
        return Condition(status="False", reason="CardsNotHealthy", message=_message(closed, len(verdicts)))
    if unknown and all(one.rule == COMMON_CAUSE for one in unknown):
        return Condition(status="Unknown", reason="CommonCause", message=_message(unknown, len(verdicts)))
    if unknown:
        return Condition(status="Unknown", reason="CardsUnknown", message=_message(unknown, len(verdicts)))
    return Condition(status="True", reason="CardsHealthy", message=f"{len(verdicts)} cards, none withheld")


def _message(verdicts: Sequence[Verdict], total: int) -> str:
    told = "; ".join(f"{one.card} {describe(one)}" for one in verdicts)
    text = f"{len(verdicts)} of {total} cards: {told}"
    return text if len(text) <= MESSAGE_CHARACTERS else f"{text[: MESSAGE_CHARACTERS - 1]}…"


def describe(verdict: Verdict) -> str:
    """State and reasons in a few words."""
    reasons = ", ".join(reason.id for reason in verdict.reasons)
    return f"{verdict.state} ({reasons})" if reasons else str(verdict.state)
