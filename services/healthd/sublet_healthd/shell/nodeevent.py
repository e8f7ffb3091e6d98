"""The one maker of Kubernetes Events: reason, severity and what counts as the same event again."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sublet.kube.port import Json
from sublet.model.health import HealthState, Verdict
from sublet_healthd.core.judge import Transition
from sublet_healthd.shell.nodestatus import describe, second

EVENT_NAMESPACE = "default"  # where events of objects without a namespace live
COMPONENT = "sublet-healthd"
REMEMBERED = 10_000

REASONS = {
    HealthState.LOST: "CardLost",
    HealthState.HELD: "CardHeld",
    HealthState.QUARANTINED: "CardQuarantined",
    HealthState.CONDEMNED: "CardCondemned",
    HealthState.RECOVERING: "CardRecovering",
    HealthState.SUSPECT: "CardSuspect",
    HealthState.UNKNOWN: "CardUnknown",
    HealthState.HEALTHY: "CardHealthy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """`first`: create `body`; otherwise patch `name` with `repeat`."""

    name: str
    first: bool
    body: Json
    repeat: Json


class NodeEvents:
    """Counts what repeats, so that a card that flaps fills one Event and not a hundred."""

    def __init__(self, *, namespace: str, run: str, unix_ms: Callable[[], int]) -> None:
        self._instance = f"{namespace}/{COMPONENT}"
        self._run = run
        self._unix_ms = unix_ms
        self._counts: OrderedDict[str, int] = OrderedDict()

    def make(self, transition: Transition, *, node_uid: str) -> NodeEvent:
        verdict = transition.verdict
        reason = REASONS[verdict.state]
        same = f"{self._run}/{verdict.node}/{verdict.card}/{reason}"
        name = f"sublet-{hashlib.sha256(same.encode()).hexdigest()[:20]}"
        count = self._counts.pop(name, 0) + 1
        self._counts[name] = count
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        now, text = second(self._unix_ms()), _message(transition)
        calm = verdict.state.accepts_shares or verdict.state is HealthState.RECOVERING
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": EVENT_NAMESPACE},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": verdict.node, "uid": node_uid},
            "reason": reason,
            "message": text,
            "type": "Normal" if calm else "Warning",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": count,
        }
        repeat = {"count": count, "lastTimestamp": now, "message": text}
        return NodeEvent(name=name, first=count == 1, body=body, repeat=repeat)

    def forget(self, event: NodeEvent) -> None:
        """It could not be written, or is gone from the API server: begin anew."""
        self._counts.pop(event.name, None)


def _message(transition: Transition) -> str:
    verdict: Verdict = transition.verdict
    text = f"card {verdict.card}: {transition.previous} -> {describe(verdict)}; action {verdict.action}"
    if not verdict.not_done:
        return text
    held_back = (
        f"by the breaker, which is {verdict.breaker}" if verdict.breaker else f"in mode {verdict.mode}"
    )
    return f"{text}; not done {held_back}: {verdict.not_done}"
