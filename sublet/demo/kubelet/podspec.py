"""From a Pod of the API to what the stand-in runs, and back to the status that a kubelet writes."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from sublet.contract import keys
from sublet.demo.kubelet.spec import ContainerSpec, PodSpec
from sublet.kube.port import Json

# how a sample pod says when its containers end: there is nothing in them that could end by itself
RUNS_FOR_S = "demo.sublet.dev/runs-for-s"
IGNORES_TERM_FOR_S = "demo.sublet.dev/ignores-term-for-s"
_FIELD = "metadata.annotations["


def read_pod(pod: Json, devices: Container[str]) -> PodSpec:
    """`devices` are the resources which plugins serve; other extended resources do not concern a kubelet."""
    meta, spec = pod["metadata"], pod["spec"]
    return PodSpec(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        annotations=meta.get("annotations") or {},
        init=tuple(_container(one, devices) for one in spec.get("initContainers") or ()),
        containers=tuple(_container(one, devices) for one in spec["containers"]),
    )


def _container(container: Mapping[str, Any], devices: Container[str]) -> ContainerSpec:
    limits = (container.get("resources") or {}).get("limits") or {}
    env: dict[str, str] = {}
    fields: dict[str, str] = {}
    for one in container.get("env") or ():
        path = ((one.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        if path.startswith(_FIELD):
            fields[one["name"]] = path.removeprefix(_FIELD).rstrip("]").strip("'\"")
        elif "valueFrom" not in one:
            env[one["name"]] = one.get("value", "")
    return ContainerSpec(
        name=container["name"],
        devices={
            name: int(amount) for name, amount in limits.items() if name == keys.SLOT or name in devices
        },
        env=env,
        from_annotations=fields,
        restartable=container.get("restartPolicy") == "Always",
    )


def seconds(pod: Json, annotation: str) -> float | None:
    text = (pod["metadata"].get("annotations") or {}).get(annotation)
    return None if text is None else float(text)


@dataclass(frozen=True, slots=True)
class ContainerState:
    """One container's state as the API shows it: waiting, running or terminated, with its details."""

    kind: str
    details: Mapping[str, Any]

    def status(self, name: str, starts: int) -> Json:
        return {
            "name": name,
            "ready": self.kind == "running",
            "started": self.kind == "running",
            "restartCount": max(0, starts - 1),
            "image": "stand-in",
            "imageID": "",
            "state": {self.kind: dict(self.details)},
        }


def waiting(reason: str, message: str = "") -> ContainerState:
    return ContainerState("waiting", {"reason": reason, "message": message})


def running(at: str) -> ContainerState:
    return ContainerState("running", {"startedAt": at})


def terminated(at: str, *, exit_code: int = 0) -> ContainerState:
    reason = "Completed" if exit_code == 0 else "Error"
    return ContainerState("terminated", {"exitCode": exit_code, "reason": reason, "finishedAt": at})


def status(
    pod: PodSpec,
    *,
    phase: str,
    states: Mapping[str, tuple[ContainerState, int]],
    reason: str = "",
    message: str = "",
) -> Json:
    """The status of a pod whose containers are in `states` (with how often each was started)."""
    ready = phase == "Running" and all(
        state.kind == "running" for name, (state, _) in states.items() if not pod.is_plain_init(name)
    )
    body: Json = {
        "phase": phase,
        "conditions": [
            {"type": name, "status": "True" if ready else "False"} for name in ("Ready", "ContainersReady")
        ]
        + [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": _statuses(pod.containers, states),
        "initContainerStatuses": _statuses(pod.init, states),
    }
    return body | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def _statuses(
    containers: tuple[ContainerSpec, ...], states: Mapping[str, tuple[ContainerState, int]]
) -> list[Json]:
    return [
        states[one.name][0].status(one.name, states[one.name][1]) for one in containers if one.name in states
    ]
