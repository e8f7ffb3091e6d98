"""Short words for the pods and the changes that the policy tests try."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sublet.contract import keys
from tests.api.deployment import SCHEDULER
from tests.lab.controlplane import ADMIN, Answer, ControlPlane, User

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Object = dict[str, Any]
GATE = {"name": keys.GATE}


def pod(
    *,
    limits: dict[str, str] | None = None,
    init_limits: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    gates: tuple[str, ...] = (),
    node: str | None = None,
) -> Object:
    """A pod of one container with these limits."""
    spec: Object = {"containers": [_container("main", limits or {})]}
    if init_limits is not None:
        spec["initContainers"] = [_container("init", init_limits)]
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if node is not None:
        spec["nodeName"] = node
    metadata = {"name": "unnamed", "annotations": annotations or {}, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def claiming(**changes: Any) -> Object:
    """A pod as the webhook leaves it: a claim, its slot, our gate, label and annotations."""
    marks: dict[str, Any] = {
        "limits": {keys.GPU_MEMORY: "1024", keys.SLOT: "1"},
        "annotations": {
            keys.DECISION: "{}",
            keys.WAITING: "NoCards",
            keys.cards_annotation("main"): "GPU-0001",
            "team": "blue",
        },
        "labels": {keys.CLAIMED_LABEL: "true"},
        "gates": (keys.GATE,),
    }
    return pod(**(marks | changes))


def _container(name: str, limits: dict[str, str]) -> Object:
    return {"name": name, "image": "lab.local/busybox:1", "resources": {"limits": limits}}


@dataclass(frozen=True, slots=True)
class Pods:
    """Asks the API server about pods."""

    plane: ControlPlane
    numbers: Iterator[int]

    async def create(self, wanted: Object, *, as_: User = ADMIN, namespace: str = "default") -> Answer:
        named = copy.deepcopy(wanted)
        named["metadata"]["name"] = f"pod-{next(self.numbers)}"
        return await self.plane.call("POST", f"/api/v1/namespaces/{namespace}/pods", named, as_=as_)

    async def given(self, wanted: Object, *, as_: User = ADMIN) -> str:
        """The path of a new pod."""
        answer = await self.create(wanted, as_=as_)
        assert answer.ok, answer.text
        return f"/api/v1/namespaces/default/pods/{answer.body['metadata']['name']}"

    async def patch(self, path: str, change: object, *, as_: User, kind: str = MERGE) -> Answer:
        return await self.plane.call("PATCH", path, change, as_=as_, content_type=kind)

    async def get(self, path: str) -> Object:
        return (await self.plane.call("GET", path)).body


def annotations(**values: str | None) -> Object:
    return {"metadata": {"annotations": values}}


def labels(**values: str | None) -> Object:
    return {"metadata": {"labels": values}}


__all__ = [
    "ADMIN",
    "GATE",
    "JSON_PATCH",
    "MERGE",
    "SCHEDULER",
    "STRATEGIC",
    "Pods",
    "annotations",
    "claiming",
    "labels",
    "pod",
]
