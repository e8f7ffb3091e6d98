"""Reads Node objects into what the engine decides on."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sublet.contract import dialects, keys, quantity
from sublet.contract.dialects.interface import Options
from sublet.model.ids import NodeName
from sublet_scheduler.core.facts import NodeFacts, Taint


class _Meta(msgspec.Struct):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Taint(msgspec.Struct):
    key: str = ""
    value: str | None = None
    effect: str = ""


class _Spec(msgspec.Struct):
    taints: list[_Taint] | None = None
    unschedulable: bool | None = None


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_node = msgspec.json.Decoder(_Node).decode


def read_node(raw: bytes, options: Options) -> NodeFacts:
    """Raises msgspec.DecodeError and ValueError where it is no node."""
    node = _node(raw)
    allocatable = node.status.allocatable or {}
    return NodeFacts(
        name=NodeName(node.metadata.name),
        uid=node.metadata.uid,
        labels=node.metadata.labels or {},
        annotations={k: v for k, v in (node.metadata.annotations or {}).items() if keys.is_ours(k)},
        taints=tuple(
            Taint(key=one.key, value=one.value or "", effect=one.effect) for one in node.spec.taints or ()
        ),
        unschedulable=bool(node.spec.unschedulable),
        ready=any(one.type == "Ready" and one.status == "True" for one in node.status.conditions or ()),
        cpu_milli=int(quantity.quantity(allocatable.get("cpu", 0)) * 1000),
        memory_mib=int(quantity.quantity(allocatable.get("memory", 0)) / 2**20),
        pods=int(quantity.quantity(allocatable.get("pods", 110))),
        capacity=_served(node.status.capacity or {}, options),
        allocatable=_served(allocatable, options),
    )


def _served(amounts: Mapping[str, Any], options: Options) -> dict[str, int]:
    names = (name for name in amounts if name == keys.SLOT or dialects.serves(name, options))
    return {name: int(quantity.quantity(amounts[name])) for name in sorted(names)}
