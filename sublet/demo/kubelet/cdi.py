"""Resolve CDI names from spec files, as a container runtime does."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sublet.demo.kubelet.spec import DeviceNode, StartRefused


@dataclass(frozen=True, slots=True)
class Injected:
    env: dict[str, str]
    nodes: tuple[DeviceNode, ...]


def resolve(names: Iterable[str], folder: Path) -> Injected:
    """What the devices `names` (``vendor/class=device``) add to a container.

    Raises:
        StartRefused: a name that no spec has, or a spec that a runtime would not take.
    """
    env: dict[str, str] = {}
    nodes: list[DeviceNode] = []
    for name in names:
        edits = _device(name, folder)
        for line in edits.get("env", ()):
            key, equals, value = line.partition("=")
            if not key or not equals:
                raise StartRefused(f"CDI device {name}: invalid environment variable {line!r}")
            env[key] = value
        nodes += [
            DeviceNode(path=node["path"], host_path=node.get("hostPath", node["path"]))
            for node in edits.get("deviceNodes", ())
        ]
    return Injected(env, tuple(nodes))


def _device(name: str, folder: Path) -> dict[str, Any]:
    kind, _, device = name.partition("=")
    for spec in _specs(folder):
        for one in spec["devices"] if spec["kind"] == kind else ():
            if one["name"] == device:
                if not any(one["containerEdits"].values()):
                    raise StartRefused(f"CDI device {name}: invalid device, empty device edits")
                return dict(one["containerEdits"])
    raise StartRefused(f"unresolvable CDI devices {name}")


def _specs(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        try:
            spec: dict[str, Any] = json.loads(path.read_text())
        except ValueError as error:
            raise StartRefused(f"CDI spec {path.name} is not JSON: {error}") from error
        yield spec
