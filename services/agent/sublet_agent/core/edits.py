"""What a container gets for its share: environment, device nodes, and the CDI spec that carries both."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sublet.contract import keys
from sublet.model.ids import SlotId

CDI_VERSION = "0.5.0"
_CAPABILITY = "/nvidia-caps/"
"""In the path of a device node that opens a MIG partition."""


class Injection(StrEnum):
    CDI = "cdi"
    ENV = "env"  # the runtime reads the pod's own variables; nodes without CDI


class Runtime(StrEnum):
    PLAIN = "plain"
    NVIDIA = "nvidia"  # reads NVIDIA_VISIBLE_DEVICES itself, so it must find `void` there


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A device node on the host and where the container sees it."""

    host_path: str
    container_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()


NOTHING = Edits(env={keys.ENV_CARDS: ""})
"""A slot that nobody was prepared for: CDI refuses a device without any edit."""


def cdi_device(slot: SlotId) -> str:
    """The fully qualified name by which the runtime finds the slot's spec."""
    return f"{keys.CDI_KIND}={slot}"


def cdi_spec(slot: SlotId, edits: Edits, vendor: "VendorEdits | None" = None) -> str:
    """The spec file of one slot, with what a vendor's own spec adds for the same cards."""
    body: dict[str, object] = {key: list(values) for key, values in (vendor.edits if vendor else {}).items()}
    ours = {node.container_path for node in edits.nodes}
    body["env"] = [
        *(line for line in _texts(body.get("env")) if line.partition("=")[0] not in edits.env),
        *(f"{name}={value}" for name, value in sorted(edits.env.items())),
    ]
    theirs = [one for one in _objects(body.pop("deviceNodes", None)) if one.get("path") not in ours]
    nodes = [*map(_node, edits.nodes), *theirs]
    if nodes:
        body["deviceNodes"] = nodes
    document = {
        "cdiVersion": vendor.version if vendor else CDI_VERSION,
        "kind": keys.CDI_KIND,
        "devices": [{"name": slot, "containerEdits": body}],
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _node(node: Node) -> dict[str, object]:
    return {"path": node.container_path, "hostPath": node.host_path, "permissions": node.permissions}


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorEdits:
    """Libraries, hooks and nodes from a vendor's CDI specs, for cards found by their device nodes."""

    version: str
    edits: Mapping[str, tuple[object, ...]]


def vendor_edits(specs: Iterable[Mapping[str, object]], nodes: Iterable[Node]) -> VendorEdits | None:
    """Compose what `specs` say about the devices that consist of `nodes`; None where they say nothing.

    A device is taken when it has a node of its own that is ours, never because of its name. Only a node that
    ends in its minor number says which card it is; control nodes serve all of them.
    """
    own = [node for node in nodes if node.container_path[-1:].isdigit()]
    wanted = {node.host_path for node in own} | {node.container_path for node in own}
    version, edits = CDI_VERSION, dict[str, list[object]]()
    for spec in specs:
        devices = _objects(spec.get("devices"))
        chosen = _chosen(devices, wanted)
        if not chosen:
            continue
        version = max(version, str(spec.get("cdiVersion", CDI_VERSION)), key=_version)
        for part in [spec.get("containerEdits"), *(device.get("containerEdits") for device in chosen)]:
            for key, values in (part if isinstance(part, Mapping) else {}).items():
                if isinstance(values, list):
                    known = edits.setdefault(key, [])
                    known += [value for value in values if value not in known]
    if not edits:
        return None
    return VendorEdits(version=version, edits={key: tuple(values) for key, values in edits.items()})


def _chosen(devices: list[Mapping[str, object]], wanted: set[str]) -> list[Mapping[str, object]]:
    """The devices of one spec with a node that is wanted and belongs to them, or to them under several
    names (an index, a UUID), alone; a device that gathers cards which are not wanted is left out, and so is
    one that opens another partition."""
    by_nodes: dict[frozenset[str], Mapping[str, object]] = {}
    for device in devices:
        paths = _paths(device)
        if paths and not any(_CAPABILITY in path for path in paths - wanted):
            by_nodes.setdefault(paths, device)
    sets = list(by_nodes)
    single = [one for one in sets if not any(other < one for other in sets)]
    own = {one: {path for path in one if sum(path in other for other in single) == 1} for one in single}
    return [by_nodes[one] for one in single if own[one] & wanted]


def _paths(device: Mapping[str, object]) -> frozenset[str]:
    edits = device.get("containerEdits")
    nodes = _objects(edits.get("deviceNodes")) if isinstance(edits, Mapping) else []
    return frozenset(str(node.get("hostPath") or node.get("path")) for node in nodes)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.lstrip("v").split("."))


def _objects(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
