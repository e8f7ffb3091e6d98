"""Objects as the tables that kubectl asks for (meta.k8s.io/v1 Table): rows are made here, not by kubectl."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sublet.kube.kind import NODES, PODS, Kind
from sublet.kube.port import Json

Cell = str | int
_UNITS = (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_MANY = 2
"""An age below so many of a unit is told in the smaller one."""
_ROLE = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    of: Callable[[Json, int], Cell]
    """From an object and Unix time in seconds."""
    type: str = "string"
    priority: int = 0
    """1 is shown with ``-o wide`` only."""


def is_wanted(accept: str) -> bool:
    """Whether the first thing that an Accept header names is a table."""
    words = accept.partition(",")[0].replace(" ", "").split(";")
    return "as=Table" in words and "g=meta.k8s.io" in words and "v=v1" in words


def table(kind: Kind, objects: Iterable[Json], *, meta: Json, include: str, now_s: int) -> Json:
    """`include` is the request's ``includeObject``: `Object`, `None`, else the metadata alone."""
    columns = _COLUMNS.get(kind, _PLAIN)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(columns, obj, include, now_s) for obj in objects],
    }


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": "",
        "priority": column.priority,
    }


def _row(columns: Sequence[Column], obj: Json, include: str, now_s: int) -> Json:
    row: Json = {"cells": [column.of(obj, now_s) for column in columns]}
    if include == "Object":
        return row | {"object": obj}
    if include == "None":
        return row
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return row | {"object": {**partial, "metadata": obj["metadata"]}}


def _name(obj: Json, _: int) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Json, now_s: int) -> str:
    created = obj["metadata"].get("creationTimestamp")
    if not created:
        return "<unknown>"
    return elapsed(now_s - int(datetime.fromisoformat(created).timestamp()))


def elapsed(seconds: int) -> str:
    """As kubectl writes an age: in the largest unit of which there are at least two."""
    left = max(seconds, 0)
    unit, size = next(((u, s) for u, s in _UNITS if left >= _MANY * s), _UNITS[-1])
    return f"{left // size}{unit}"


def _statuses(pod: Json) -> list[Json]:
    found: list[Json] = (pod.get("status") or {}).get("containerStatuses") or []
    return found


def _ready(pod: Json, _: int) -> str:
    return (
        f"{sum(bool(one.get('ready')) for one in _statuses(pod))}/{len(pod['spec'].get('containers') or ())}"
    )


def _pod_status(pod: Json, _: int) -> str:
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if pod["spec"].get("schedulingGates"):
        return "SchedulingGated"
    for one in _statuses(pod):
        for state in ("waiting", "terminated"):
            if reason := ((one.get("state") or {}).get(state) or {}).get("reason"):
                return str(reason)
    return str(status.get("reason") or status.get("phase") or "Pending")


def _restarts(pod: Json, _: int) -> int:
    return sum(int(one.get("restartCount") or 0) for one in _statuses(pod))


def _node_status(node: Json, _: int) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), None)
    words = ["Ready" if ready == "True" else "Unknown" if ready is None else "NotReady"]
    return ",".join(words + ["SchedulingDisabled"] * bool((node.get("spec") or {}).get("unschedulable")))


def _roles(node: Json, _: int) -> str:
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE))) or "<none>"


def _at(*path: str) -> Callable[[Json, int], str]:
    def found(obj: Json, _: int) -> str:
        value: object = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return str(value) if value else "<none>"

    return found


_PLAIN = (Column("Name", _name), Column("Age", _age))
_COLUMNS = {
    PODS: (
        Column("Name", _name),
        Column("Ready", _ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts, type="integer"),
        Column("Age", _age),
        Column("IP", _at("status", "podIP"), priority=1),
        Column("Node", _at("spec", "nodeName"), priority=1),
    ),
    NODES: (
        Column("Name", _name),
        Column("Status", _node_status),
        Column("Roles", _roles),
        Column("Age", _age),
        Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
    ),
}
