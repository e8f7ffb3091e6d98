"""What the API server fills into a pod: defaults, in-tree admission's additions, the first status."""

from collections.abc import Iterable
from typing import Any

from sublet.demo.quantity import quantity
from sublet.kube.port import Json

GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
    "lastTransitionTime": None,
}
_SPEC: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER: Json = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def defaulted(pod: Json) -> Json:
    """The pod as the scheduler and webhooks see it; doing it twice changes nothing."""
    spec: Json = _SPEC | (pod.get("spec") or {})
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_container(each) for each in spec[field]]
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    return {**pod, "spec": spec}


def first_status(spec: Json) -> Json:
    """The status of a pod nobody has looked at yet."""
    status: Json = {"phase": "Pending", "qosClass": _qos(spec)}
    return status | ({"conditions": [dict(GATED)]} if spec.get("schedulingGates") else {})


def containers(spec: Json) -> Iterable[tuple[str, Json]]:
    """All containers with the path at which each stands."""
    for field in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(field) or []):
            yield f"spec.{field}[{number}]", container


def _container(container: Json) -> Json:
    filled = _CONTAINER | container
    limits = (filled["resources"] or {}).get("limits")
    if limits:
        requests = limits | (filled["resources"].get("requests") or {})
        filled["resources"] = {**filled["resources"], "requests": requests}
    return filled


def _tolerations(own: list[Json]) -> list[Json]:
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _TOLERATED
        if not any(each.get("key") in (key, None) and _covers(each) for each in own)
    ]
    return own + added


def _covers(toleration: Json) -> bool:
    return toleration.get("effect", "") in ("", "NoExecute")


def _qos(spec: Json) -> str:
    asked = [_cpu_and_memory(container) for _, container in containers(spec)]
    if not any(requests or limits for requests, limits in asked):
        return "BestEffort"
    guaranteed = all(len(limits) == 2 and requests == limits for requests, limits in asked)
    return "Guaranteed" if guaranteed else "Burstable"


def _cpu_and_memory(container: Json) -> tuple[dict[str, Any], dict[str, Any]]:
    resources = container.get("resources") or {}

    def compute(part: str) -> dict[str, Any]:
        return {
            name: quantity(value)
            for name, value in (resources.get(part) or {}).items()
            if name in ("cpu", "memory")
        }

    return compute("requests"), compute("limits")
