"""Short words for the objects that the Kubernetes contract is about."""

from collections.abc import Sequence
from typing import Any

from sublet.kube.port import Json, JsonPatch

GATE = "example.dev/gate"
OTHER_GATE = "example.dev/other"
CARD = "example.dev/card"


def pod(name: str, *, gates: Sequence[str] = (), **spec: Any) -> Json:
    container = {"name": "main", "image": "x", "resources": spec.pop("resources", {})}
    gated = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], **gated, **spec},
    }


def config(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def pin(node: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return required([{"matchFields": [field]}])


def required(terms: list[Json]) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def expression(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


TERMS = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"


def adding(path: str, value: object) -> JsonPatch:
    return JsonPatch([{"op": "add", "path": path, "value": value}])
