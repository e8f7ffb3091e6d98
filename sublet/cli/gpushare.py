"""`kubectl inspect gpushare [-d] [node]`: gpushare's own tables, byte for byte, of what Sublet placed.

It reads what gpushare's tool reads: totals of nodes, and limits and annotations of pods. Therefore the
cards of a node count as equal. The unit is what the node says of its total; only where it says nothing,
because the total is another's, it is guessed as by the original: more than 100 a card are MiB. Nodes of
different units are shown in a table each, since their amounts do not add up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sublet.cli import reaching
from sublet.cli.tabs import aligned
from sublet.contract import keys, podspec, quantity
from sublet.contract.dialects.gpushare import ALLOCATION, INDEX
from sublet.model.errors import SubletError

PENDING = -1
"""The card of pods that have none yet."""
MOST_GIB = 100
"""More than so many units on a card are taken for MiB."""
ENDED = ("Succeeded", "Failed")


@dataclass(slots=True)
class Device:
    total: int
    used: int = 0
    pods: list[podspec.Json] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingNode:
    """One node as gpushare sees it."""

    name: str
    internal_ip: str
    address: str
    total: int
    count: int
    devices: Mapping[int, Device]
    unit: str = ""
    """Of the total; empty where the node does not say."""

    @property
    def used(self) -> int:
        return sum(device.used for device in self.devices.values())

    @property
    def pending(self) -> bool:
        return PENDING in self.devices


def sharing_nodes(nodes: Iterable[podspec.Json], pods: Sequence[podspec.Json]) -> list[SharingNode]:
    """The nodes with gpushare's total, by name, and what the pods on them hold."""
    found = [_node(node, pods) for node in nodes]
    return sorted((node for node in found if node.total > 0), key=lambda node: node.name)


def _node(node: podspec.Json, pods: Sequence[podspec.Json]) -> SharingNode:
    name, status = node["metadata"]["name"], node.get("status") or {}
    allocatable = status.get("allocatable") or {}
    total, count = (_units(allocatable.get(key, 0)) for key in (keys.ALIYUN_GPU_MEM, keys.ALIYUN_GPU_COUNT))
    addresses = status.get("addresses") or ()
    devices = {at: Device(total // count) for at in range(count)}
    for pod in pods:
        spec, phase = pod.get("spec") or {}, (pod.get("status") or {}).get("phase")
        if spec.get("nodeName") == name and phase not in ENDED and memory_of(pod) > 0:
            for index, used in held_by(pod).items():
                device = devices.setdefault(index, Device(total // count if count else 0))
                device.used += used
                device.pods.append(pod)
    return SharingNode(
        name=name,
        internal_ip=next((one["address"] for one in addresses if one["type"] == "InternalIP"), "unknown"),
        address=addresses[0]["address"] if addresses else "unknown",
        total=total,
        count=count,
        devices=dict(sorted(devices.items())),
        unit=(node["metadata"].get("annotations") or {}).get(keys.GPU_MEM_UNIT, ""),
    )


def memory_of(pod: podspec.Json) -> int:
    """What the ordinary containers ask for."""
    return sum(
        _units(one.limits.get(keys.ALIYUN_GPU_MEM, 0))
        for one in podspec.containers(pod)
        if one.path.startswith("/spec/containers/")
    )


def held_by(pod: podspec.Json) -> dict[int, int]:
    """Index of a card -> units of the pod on it."""
    written = podspec.annotations(pod)
    try:
        allocation = json.loads(written[ALLOCATION]) if ALLOCATION in written else {}
        held: dict[int, int] = {}
        for shares in allocation.values():
            for index, units in shares.items():
                held[int(index)] = held.get(int(index), 0) + int(units)
        return held or {int(written[INDEX]): memory_of(pod)}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {PENDING: memory_of(pod)}


def by_unit(nodes: Sequence[SharingNode]) -> list[Sequence[SharingNode]]:
    """The nodes that are shown together. As with the original, one whose unit is guessed to be MiB makes
    that the unit of all that say nothing."""
    silent = [node for node in nodes if not node.unit]
    large = any(node.count and node.total // node.count > MOST_GIB for node in silent)
    units: dict[str, list[SharingNode]] = {}
    for node in nodes:
        unit = node.unit or ("MiB" if large else "GiB")
        units.setdefault(unit, []).append(replace(node, unit=unit))
    return [units[unit] for unit in sorted(units)]


def summary(nodes: Sequence[SharingNode]) -> str:
    return "\n".join(_summary(some) for some in by_unit(nodes) or [()])


def _summary(nodes: Sequence[SharingNode]) -> str:
    most = max((node.count for node in nodes), default=0)
    pending = any(node.pending for node in nodes)
    heads = [f"GPU{at}(Allocated/Total)" for at in range(most)] + ["PENDING(Allocated)"] * pending
    lines = ["\t".join(("NAME", "IPADDRESS", *heads, f"GPU Memory({nodes[0].unit if nodes else 'GiB'})"))]
    for node in nodes:
        cells = [
            f"{node.devices[at].used}/{node.devices[at].total}" if at in node.devices else "0/0"
            for at in range(most)
        ]
        if pending:
            cells.append(str(node.devices[PENDING].used) if node.pending else "")
        lines.append("\t".join((node.name, node.internal_ip, *cells, f"{node.used}/{node.total}")))
    dashes = "-" * (len(lines[1].encode()) + 1 + 20) if nodes else ""
    lines += [dashes, "Allocated/Total GPU Memory In Cluster:", f"{_cluster(nodes)}\t", ""]
    return aligned("\n".join(lines))


def details(nodes: Sequence[SharingNode]) -> str:
    return "\n".join(_details(some) for some in by_unit(nodes) or [()])


def _details(nodes: Sequence[SharingNode]) -> str:
    lines: list[str] = []
    dashes = 0
    for node in nodes:
        lines += ["", f"NAME:\t{node.name}", f"IPADDRESS:\t{node.address}", ""]
        heads = [f"GPU{at}(Allocated)" for at in range(node.count)]
        heads += ["Pending(Allocated)"] * node.pending
        lines.append("".join(f"{head}\t" for head in ("NAME", "NAMESPACE", *heads)))
        rows = list(_rows(node))
        dashes = dashes or len("".join(f"{row}\n" for row in rows).encode()) + 10
        lines += rows
        lines.append(f"Allocated :\t{node.used} ({_percent(node.used, node.total)}%)\t")
        lines += [f"Total :\t{node.total} \t", "-" * dashes]
    lines += ["", "", f"Allocated/Total GPU Memory In Cluster:\t{_cluster(nodes)}\t", ""]
    return aligned("\n".join(lines))


def _rows(node: SharingNode) -> Iterable[str]:
    columns = [*range(node.count), *[PENDING] * node.pending]
    seen: set[int] = set()
    for device in node.devices.values():
        for pod in device.pods:
            if id(pod) not in seen:
                seen.add(id(pod))
                held = held_by(pod)
                metadata = pod["metadata"]
                cells = (metadata["name"], metadata["namespace"], *(held.get(at, 0) for at in columns))
                yield "".join(f"{cell}\t" for cell in cells)


def _cluster(nodes: Sequence[SharingNode]) -> str:
    used, total = sum(node.used for node in nodes), sum(node.total for node in nodes)
    return f"{used}/{total} ({_percent(used, total)}%)"


def _percent(used: int, total: int) -> int:
    return int(used / total * 100) if total else 0


def _units(value: object) -> int:
    try:
        return int(quantity.quantity(value))
    except ValueError:
        return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The console script `kubectl-inspect-gpushare`. Exit 1 where the cluster gives no answer."""
    parser = argparse.ArgumentParser(prog="kubectl inspect gpushare", description="gpushare's tables.")
    parser.add_argument("-d", dest="details", action="store_true", help="every pod of every node")
    parser.add_argument("node", nargs="?", help="this node alone")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: $KUBECONFIG, else as kubectl"
    )
    parser.add_argument("--context", metavar="NAME", help="the context of the kubeconfig")
    arguments = parser.parse_args(argv)
    try:
        nodes, pods = asyncio.run(_read(arguments))
    except SubletError as error:
        print(f"Failed due to {error}", file=sys.stderr)
        return 1
    show = details if arguments.details else summary
    try:
        sys.stdout.write(show(sharing_nodes(nodes, pods)))
        sys.stdout.flush()
    except BrokenPipeError:  # `kubectl inspect gpushare | head`
        sys.stderr.close()
    return 0


async def _read(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from sublet.kube.kind import NODES, PODS
    from sublet.kube.port import Selection

    reaching.quiet_log()
    async with reaching.open_kube(arguments) as kube:
        if arguments.node:
            nodes = [await kube.get(NODES, arguments.node)]
            return nodes, await kube.list(PODS, Selection(fields=f"spec.nodeName={arguments.node}"))
        return await kube.list(NODES), await kube.list(PODS)
