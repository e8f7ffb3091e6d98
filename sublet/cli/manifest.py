"""Reads manifests into the pods that they would become."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sublet.cli.document import Document, read_documents
from sublet.cli.podtemplate import spelled, templates
from sublet.cli.shape import AMOUNTS, TEXTS, Misspelt, Path, faults
from sublet.contract.podspec import Json

GROUPS = {
    "Pod": ("",),
    "List": ("",),
    "Deployment": ("apps", "extensions"),
    "ReplicaSet": ("apps", "extensions"),
    "DaemonSet": ("apps", "extensions"),
    "StatefulSet": ("apps",),
    "Job": ("batch",),
    "CronJob": ("batch",),
}
"""The kinds that are read; the same word in another group (a Volcano Job) is another kind."""
COUNTED_BY = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}
MOST_PODS = 150_000
"""Of one workload: as many as the largest cluster holds."""

_NAMES = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "annotations": TEXTS,
    "annotation": Misspelt("annotations"),
    "labels": TEXTS,
    "label": Misspelt("labels"),
}
_REQUIREMENT = {"key": str, "operator": str, "values": [str]}
_CONTAINER = {
    "name": str,
    "restartPolicy": str,
    "resources": {"limits": AMOUNTS, "requests": AMOUNTS},
}
_TERM = {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
_OWNED = {"uid": str, "ownerReferences": [{"uid": str, "kind": str, "name": str, "controller": bool}]}
POD_SHAPE = {
    "metadata": {**_NAMES, **_OWNED},
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "nodeName": str,
        "nodeSelector": TEXTS,
        "overhead": AMOUNTS,
        "priority": int,
        "schedulingGates": [{"name": str}],
        "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
            }
        },
    },
}
_RUNNING_SHAPE = {
    "spec": {
        part: [{"image": str, "command": [str], "args": [str], "env": [{"name": str, "value": str}]}]
        for part in ("containers", "initContainers")
    }
    | {"volumes": [{"hostPath": {"path": str}}]},
}
"""What else tells of a running system, beyond what a claim is read from."""
_OBJECT_SHAPES = {
    "Node": {"status": {"capacity": AMOUNTS}},
    "DaemonSet": {"status": {"desiredNumberScheduled": int}},
    "Pod": {"status": {"phase": str}},
    "Job": {"status": {"conditions": [{"type": str, "status": str}]}},
    "MutatingWebhookConfiguration": {
        "webhooks": [{"name": str, "rules": [{"operations": [str], "resources": [str]}]}]
    },
    "ResourceSlice": {"spec": {"driver": str, "nodeName": str}},
    "ConfigMap": {"data": TEXTS},
}
_WORKLOAD_SHAPE = {
    "metadata": _NAMES,
    "spec": {"replicas": int, "parallelism": int, "template": {}, "jobTemplate": {"spec": {"template": {}}}},
}


def read_pods(files: Sequence[str]) -> list[Json]:
    """The pods of all files in order, each with a name and a namespace.

    Raises:
        Unreadable: a file or an object in it cannot be read.
    """
    return [pod for file in files for document in read_documents(file) for pod in _pods(document)]


def read_objects(files: Sequence[str]) -> list[Json]:
    """The objects of all files in order, of any kind; lists are taken apart, pod templates are checked.

    Raises:
        Unreadable: a file or an object in it cannot be read.
    """
    return [one for file in files for document in read_documents(file) for one in _objects(document)]


def has_pod_templates(obj: Json) -> bool:
    """Whether all that looks like a pod template in a custom resource is one."""
    found = [template for _, template in templates(obj)]
    return bool(found) and not any(
        fault
        for template in found
        for shape in (POD_SHAPE, _RUNNING_SHAPE)
        for fault in faults(template, shape)
    )


def _objects(document: Document) -> Iterator[Json]:
    try:
        yield from _taken_apart(document, document.value, ())
    except RecursionError:
        raise document.unreadable("it contains itself") from None


def _taken_apart(document: Document, value: Any, path: Path) -> Iterator[Json]:
    _kind_of(document, value, path)
    if isinstance(value.get("items"), list):  # of a List, and of a DeploymentList too
        for at, item in enumerate(value["items"]):
            yield from _taken_apart(document, item, (*path, "items", at))
        return
    _check(document, value, {"metadata": {**_NAMES, **_OWNED}}, path)
    _check(document, value, _OBJECT_SHAPES.get(value["kind"], {}), path)
    for steps, template in templates(value):
        for shape in (POD_SHAPE, _RUNNING_SHAPE):
            _check(document, template, shape, (*path, *steps))
        _refuse_twins(document, template, (*path, *steps))
    yield _named(document, value, path)


def _pods(document: Document) -> Iterator[Json]:
    try:
        yield from _expanded(document, document.value, ())
    except RecursionError:
        raise document.unreadable("it contains itself") from None


def _expanded(document: Document, value: Any, path: Path) -> Iterator[Json]:
    kind = _kind_of(document, value, path)
    if _group(value) not in (None, *GROUPS.get(kind, ())):
        return
    if kind == "List":
        _check(document, value, {"items": [{}]}, path)
        for at, item in enumerate(value.get("items") or ()):
            yield from _expanded(document, item, (*path, "items", at))
    elif kind == "Pod":
        _check(document, value, POD_SHAPE, path)
        _refuse_twins(document, value, path)
        yield _named(document, value, path)
    elif kind in GROUPS:
        yield from _replicas(document, value, kind, path)


def _kind_of(document: Document, value: Any, path: Path) -> str:
    if not isinstance(value, Mapping):
        raise document.unreadable(f"{repr(value)[:80]} is not a Kubernetes object", path)
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        raise document.unreadable("the object has no kind", path)
    return kind


def _group(value: Mapping[str, Any]) -> str | None:
    """The API group of an object; None where it does not say."""
    version = value.get("apiVersion")
    if not isinstance(version, str):
        return None
    group, slash, _ = version.partition("/")
    return group if slash else ""


def _replicas(document: Document, value: Mapping[str, Any], kind: str, path: Path) -> Iterator[Json]:
    _check(document, value, _WORKLOAD_SHAPE, path)
    owner = _named(document, value, path)["metadata"]
    spec, where = value.get("spec") or {}, (*path, "spec")
    count = spec.get(COUNTED_BY[kind]) if kind in COUNTED_BY else None
    if count is not None and count > MOST_PODS:
        counted = (*where, COUNTED_BY[kind])
        raise document.unreadable(f"{count} pods of one {kind}; at most {MOST_PODS} are read", counted)
    if kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
        where = (*where, "jobTemplate", "spec")
    template = spec.get("template")
    if template is None:
        raise document.unreadable(f"the {kind} {owner['name']!r} has no pod template", where)
    _check(document, template, POD_SHAPE, (*where, "template"))
    _refuse_twins(document, template, (*where, "template"))
    for number in range(1 if count is None else count):
        meta = {
            **(template.get("metadata") or {}),
            "name": f"{owner['name']}-{number}",
            "namespace": owner["namespace"],
            "ownerReferences": [_owner(kind, owner)],
        }
        yield {**template, "kind": "Pod", "metadata": meta}


def _owner(kind: str, owner: Mapping[str, Any]) -> Json:
    uid = owner.get("uid") or f"{kind}/{owner['namespace']}/{owner['name']}"
    return {"kind": kind, "name": owner["name"], "uid": uid, "controller": True}


def _named(document: Document, value: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The object with the name and the namespace that the API server would give it."""
    meta = value.get("metadata") or {}
    name = meta.get("name") or (f"{meta['generateName']}0" if meta.get("generateName") else "")
    if not name:
        raise document.unreadable(f"the {value['kind']} has no name", (*path, "metadata"))
    return {**value, "metadata": {**meta, "name": name, "namespace": meta.get("namespace") or "default"}}


def _refuse_twins(document: Document, pod: Mapping[str, Any], path: Path) -> None:
    spec = pod.get("spec") or {}
    seen: set[str] = set()
    for part in ("initContainers", "containers"):
        for at, container in enumerate(spec.get(part) or ()):
            name = container.get("name")
            if not name:
                raise document.unreadable("a container has no name", (*path, "spec", part, at))
            if name in seen:
                raise document.unreadable(
                    f"the container name {name!r} appears twice", (*path, "spec", part, at)
                )
            seen.add(name)


def _check(document: Document, value: Any, shape: Any, path: Path) -> None:
    for where, what in faults(value, shape, path):
        raise document.unreadable(f"{spelled(where)}: {what}", where)
