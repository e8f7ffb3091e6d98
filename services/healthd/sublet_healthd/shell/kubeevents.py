"""The one maker of Kubernetes Events, with reason, severity and what counts as the same, and their writer."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from sublet.kube.errors import Forbidden, Invalid, NotFound, Throttled
from sublet.kube.kind import EVENTS
from sublet.kube.port import Json, Kube, MergePatch
from sublet.model.errors import SubletError, Unavailable
from sublet.model.health import Breaker, BreakerState, HealthState, Verdict
from sublet_healthd.core.judge import Transition
from sublet_healthd.shell.nodestatus import describe, second

log = structlog.get_logger()

COMPONENT = "sublet-healthd"
NODES_NAMESPACE = "default"
"""Where events of objects without a namespace live."""
REMEMBERED = 10_000

CARD_REASONS = {
    HealthState.LOST: "CardLost",
    HealthState.HELD: "CardHeld",
    HealthState.QUARANTINED: "CardQuarantined",
    HealthState.CONDEMNED: "CardCondemned",
    HealthState.RECOVERING: "CardRecovering",
    HealthState.SUSPECT: "CardSuspect",
    HealthState.UNKNOWN: "CardUnknown",
    HealthState.HEALTHY: "CardHealthy",
}
BREAKER_REASONS = {
    BreakerState.OPEN: "BreakerOpened",
    BreakerState.HALF_OPEN: "BreakerHalfOpen",
    BreakerState.CLOSED: "BreakerClosed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeEvent:
    """`first`: create `body`; otherwise patch `name` with `repeat`."""

    name: str
    namespace: str
    first: bool
    body: Json
    repeat: Json


class KubeEvents:
    """Counts what repeats, so that a card that flaps fills one Event and not a hundred."""

    def __init__(self, *, namespace: str, run: str, unix_ms: Callable[[], int]) -> None:
        self._namespace = namespace
        self._run = run
        self._unix_ms = unix_ms
        self._counts: OrderedDict[str, int] = OrderedDict()

    def of_card(self, transition: Transition, *, node_uid: str) -> KubeEvent:
        """On the Node."""
        verdict = transition.verdict
        calm = verdict.state.accepts_shares or verdict.state is HealthState.RECOVERING
        return self._event(
            CARD_REASONS[verdict.state],
            _message(transition),
            calm=calm,
            same=f"{verdict.node}/{verdict.card}",
            about={"apiVersion": "v1", "kind": "Node", "name": verdict.node, "uid": node_uid},
            namespace=NODES_NAMESPACE,
        )

    def of_breaker(self, breaker: Breaker) -> KubeEvent:
        """On healthd's Deployment: it is about the fleet, and no single node."""
        why = f": {breaker.why}" if breaker.why else ""
        by = f", by {breaker.by}" if breaker.by else ""
        return self._event(
            BREAKER_REASONS[breaker.state],
            f"the breaker is {breaker.state}{by}{why}",
            calm=breaker.state is BreakerState.CLOSED,
            same="breaker",
            about={
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": COMPONENT,
                "namespace": self._namespace,
            },
            namespace=self._namespace,
        )

    def _event(
        self, reason: str, text: str, *, calm: bool, same: str, about: Json, namespace: str
    ) -> KubeEvent:
        digest = hashlib.sha256(f"{self._run}/{same}/{reason}".encode()).hexdigest()
        name = f"sublet-{digest[:20]}"
        count = self._counts.pop(name, 0) + 1
        self._counts[name] = count
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        now = second(self._unix_ms())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": text,
            "type": "Normal" if calm else "Warning",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": f"{self._namespace}/{COMPONENT}",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": count,
        }
        repeat = {"count": count, "lastTimestamp": now, "message": text}
        return KubeEvent(name=name, namespace=namespace, first=count == 1, body=body, repeat=repeat)

    def forget(self, event: KubeEvent) -> None:
        """It could not be written, or is gone from the API server: begin anew."""
        self._counts.pop(event.name, None)


class EventWriter:
    """Events are for people; the public stream has what must not be lost, so a failure is logged."""

    def __init__(self, kube: Kube, events: KubeEvents) -> None:
        self._kube = kube
        self._events = events

    async def tell_card(self, transition: Transition, *, node_uid: str) -> None:
        await self._write(self._events.of_card(transition, node_uid=node_uid))

    async def tell_breaker(self, breaker: Breaker) -> None:
        await self._write(self._events.of_breaker(breaker))

    async def _write(self, event: KubeEvent) -> None:
        try:
            if event.first:
                await self._kube.create(EVENTS, event.body, namespace=event.namespace)
            else:
                repeat = MergePatch(event.repeat)
                await self._kube.patch(EVENTS, event.name, repeat, namespace=event.namespace)
        except (NotFound, Forbidden, Invalid, Unavailable, Throttled) as error:
            self._events.forget(event)
            _log_untold(event, error)
        except SubletError as error:
            _log_untold(event, error)


def _log_untold(event: KubeEvent, error: SubletError) -> None:
    about = event.body["involvedObject"]["name"]
    log.warning("event.untold", about=about, reason=event.body["reason"], error=str(error))


def _message(transition: Transition) -> str:
    verdict: Verdict = transition.verdict
    text = f"card {verdict.card}: {transition.previous} -> {describe(verdict)}; action {verdict.action}"
    if not verdict.not_done:
        return text
    held_back = (
        f"by the breaker, which is {verdict.breaker}" if verdict.breaker else f"in mode {verdict.mode}"
    )
    return f"{text}; not done {held_back}: {verdict.not_done}"
