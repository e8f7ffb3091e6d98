"""Pods as the API server has them, into what the stand-in kubelet runs, and back as a status."""

from collections.abc import Mapping
from datetime import UTC, datetime

from sublet.contract import keys, podspec
from sublet.demo.kubelet.spec import ContainerSpec, PodSpec
from sublet.kube.port import Json
from sublet.model.claim import ContainerKind

_ANNOTATION = "metadata.annotations['"


def pod_spec(pod: Json) -> PodSpec:
    """Of the extended resources only the slot is a device plugin's; totals are plain numbers."""
    found = list(podspec.containers(pod))
    return PodSpec(
        uid=pod["metadata"]["uid"],
        name=pod["metadata"]["name"],
        namespace=pod["metadata"]["namespace"],
        annotations=podspec.annotations(pod),
        init=tuple(_container(one) for one in found if one.kind is not ContainerKind.MAIN),
        containers=tuple(_container(one) for one in found if one.kind is ContainerKind.MAIN),
    )


def _container(container: podspec.ContainerSpec) -> ContainerSpec:
    slots = int(container.limits.get(keys.SLOT, 0))
    env: dict[str, str] = {}
    from_annotations: dict[str, str] = {}
    for variable in container.raw.get("env") or ():
        path = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        if path.startswith(_ANNOTATION):
            from_annotations[variable["name"]] = path.removeprefix(_ANNOTATION).removesuffix("']")
        elif "value" in variable:
            env[variable["name"]] = variable["value"]
    return ContainerSpec(
        name=container.name,
        devices={keys.SLOT: slots} if slots else {},
        env=env,
        from_annotations=from_annotations,
        restartable=container.kind is ContainerKind.SIDECAR,
    )


def running_status(pod: Json, *, now_ms: int) -> Json:
    """Plain init containers are over, everything else runs."""
    running = {"running": {"startedAt": stamp(now_ms)}}
    over = _over(now_ms)
    states = {
        one.name: over if one.kind is ContainerKind.INIT else running for one in podspec.containers(pod)
    }
    return _status(pod, "Running", states, now_ms=now_ms)


def ended_status(pod: Json, *, now_ms: int) -> Json:
    states = {one.name: _over(now_ms) for one in podspec.containers(pod)}
    return _status(pod, "Succeeded", states, now_ms=now_ms)


def failed_status(pod: Json, why: str, *, now_ms: int) -> Json:
    status = _status(pod, "Failed", {}, now_ms=now_ms)
    return {**status, "reason": "UnexpectedAdmissionError", "message": why}


def _over(now_ms: int) -> Json:
    return {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": stamp(now_ms)}}


def _status(pod: Json, phase: str, states: Mapping[str, Json], *, now_ms: int) -> Json:
    before = pod.get("status") or {}
    ready = {"type": "Ready", "status": str(phase == "Running"), "lastTransitionTime": stamp(now_ms)}
    kept = [one for one in before.get("conditions") or () if one["type"] != "Ready"]

    def told(part: str) -> list[Json]:
        names = [one["name"] for one in pod["spec"].get(part) or ()]
        return [
            {"name": name, "state": states[name], "ready": "running" in states[name], "restartCount": 0}
            for name in names
            if name in states
        ]

    return {
        "phase": phase,
        "startTime": before.get("startTime") or stamp(now_ms),
        "conditions": [*kept, ready],
        "initContainerStatuses": told("initContainers"),
        "containerStatuses": told("containers"),
    }


def stamp(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
