"""gpushare's scheduler extender over HTTP: filter, bind, inspect.

For kube-schedulers and tools that are configured for it. It decides nothing: a pod that reaches
kube-scheduler was decided before, so it fits the node of its cards and no other.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiohttp import web

from sublet.contract import keys, podspec
from sublet.contract.dialects.interface import Options
from sublet.kube.errors import Conflict, KubeError, NotFound
from sublet.kube.kind import PODS
from sublet.kube.port import Kube
from sublet.model.card import Vendor
from sublet.model.ids import NodeName, PodUid
from sublet_scheduler.core.node import CardState, NodeState
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import State

log = structlog.get_logger()

PREFIX = "/gpushare-scheduler"
LARGEST_BODY_BYTES = 128 * 2**20
"""A kube-scheduler without a node cache in the extender sends whole nodes."""
CLOSE_WITHIN_S = 5.0


class _FilterCall(msgspec.Struct, rename="pascal"):
    pod: dict[str, Any]
    nodes: dict[str, Any] | None = None
    node_names: list[str] | None = None


class _BindCall(msgspec.Struct, rename="pascal"):
    pod_name: str
    pod_namespace: str
    node: str
    pod_uid: str = msgspec.field(name="PodUID")


_filter_call = msgspec.json.Decoder(_FilterCall).decode
_bind_call = msgspec.json.Decoder(_BindCall).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """Looks at `state` and never changes it."""

    state: State
    kube: Kube
    options: Options

    def filter(self, body: bytes) -> dict[str, Any]:
        """What kube-scheduler may do with the nodes it asks about; whole nodes are answered by whole nodes.

        Raises msgspec.DecodeError.
        """
        call = _filter_call(body)
        try:
            return self._filtered(call)
        except (AttributeError, KeyError, TypeError) as error:
            raise msgspec.ValidationError(f"the pod or a node in it is none: {error!r}") from error

    def _filtered(self, call: _FilterCall) -> dict[str, Any]:
        asked = call.node_names
        items = (call.nodes or {}).get("items") or []
        names = asked if asked is not None else [node["metadata"]["name"] for node in items]
        failed = {name: why for name in names if (why := self._against(call.pod, name))}
        kept = [name for name in names if name not in failed]
        nodes = (
            {**call.nodes, "items": [one for one in items if one["metadata"]["name"] in kept]}
            if call.nodes
            else None
        )
        return {
            "Nodes": nodes,
            "NodeNames": kept if asked is not None else None,
            "FailedNodes": failed,
            "Error": "",
        }

    def _against(self, pod: podspec.Json, node: str) -> str:
        """Why the pod may not go to the node; nothing where it may."""
        if not any(keys.ALIYUN_GPU_MEM in one.limits for one in podspec.containers(pod)):
            return ""
        placed = self._node_of(PodUid((pod.get("metadata") or {}).get("uid") or ""))
        if placed is None:
            return "Sublet has no cards for the pod: see its annotation sublet.dev/waiting"
        return "" if placed == node else f"the pod's cards are on {placed}"

    def _node_of(self, uid: PodUid) -> NodeName | None:
        record = self.state.records.get(uid)
        return record.node if record and record.stage is Stage.RELEASED else None

    async def bind(self, body: bytes) -> dict[str, str]:
        """Bind a pod to the node of its cards. Raises msgspec.DecodeError."""
        call = _bind_call(body)
        placed = self._node_of(PodUid(call.pod_uid))
        if placed is None or placed != call.node:
            where = f"are on {placed}" if placed else "are not decided"
            return {"Error": f"the cards of pod {call.pod_namespace}/{call.pod_name} {where}"}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": call.pod_name, "namespace": call.pod_namespace, "uid": call.pod_uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": call.node},
        }
        try:
            await self.kube.create(
                PODS, binding, namespace=call.pod_namespace, name=call.pod_name, subresource="binding"
            )
        except (Conflict, NotFound) as error:
            return {"Error": str(error)}
        except KubeError as error:
            log.warning("pod.bind_failed", pod=f"{call.pod_namespace}/{call.pod_name}", error=str(error))
            return {"Error": str(error)}
        return {"Error": ""}

    def inspect(self, name: str | None) -> dict[str, Any]:
        """All nodes with NVIDIA cards, or one of them, each in its own unit of ``aliyun.com/gpu-mem``."""
        nodes = self.state.fleet.nodes
        if name is not None and name not in nodes:
            return {"nodes": [], "error": f"node {name} is not known"}
        wanted: Iterable[NodeName] = sorted(nodes) if name is None else [NodeName(name)]
        return {"nodes": [self._node(nodes[one]) for one in wanted if name or nodes[one].cards]}

    def _node(self, node: NodeState) -> dict[str, Any]:
        labels = node.facts.labels if node.facts else {}
        unit_mib = self.options.on(labels).gpu_mem_unit_mib
        devices = [
            self._device(node, state, unit_mib)
            for state in node.by_index
            if state.card.vendor is Vendor.NVIDIA
        ]
        return {
            "name": node.name,
            "totalGPU": sum(one["totalGPU"] for one in devices),
            "usedGPU": sum(one["usedGPU"] for one in devices),
            "devs": devices,
        }

    def _device(self, node: NodeState, state: CardState, unit_mib: int) -> dict[str, Any]:
        held: dict[tuple[str, str], int] = {}
        for booking in node.bookings.values():
            for one in booking.held:
                for grant in one.grants:
                    if one.counted and grant.card == state.card.id:
                        key = (booking.ref.name, booking.ref.namespace)
                        held[key] = held.get(key, 0) + (grant.memory_mib or 0)
        pods = [
            {"name": name, "namespace": namespace, "usedGPU": _units(memory_mib, unit_mib)}
            for (name, namespace), memory_mib in sorted(held.items())
        ]
        return {
            "id": state.card.index,
            "totalGPU": state.card.most_mib // unit_mib,
            "usedGPU": sum(one["usedGPU"] for one in pods),
            "pods": pods,
        }


def _units(memory_mib: int, unit_mib: int) -> int:
    """Rounded up: a card that is partly used has as much less to give."""
    return -(-memory_mib // unit_mib)


@asynccontextmanager
async def serve_extender(extender: Extender, *, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port (a free one for 0)."""

    async def answer_filter(request: web.Request) -> web.Response:
        return _answer(extender.filter(await request.read()))

    async def answer_bind(request: web.Request) -> web.Response:
        return _answer(await extender.bind(await request.read()))

    async def answer_inspect(request: web.Request) -> web.Response:
        return _answer(extender.inspect(request.match_info.get("node")))

    app = web.Application(client_max_size=LARGEST_BODY_BYTES, middlewares=[_readable])
    app.add_routes(
        [
            web.post(f"{PREFIX}/filter", answer_filter),
            web.post(f"{PREFIX}/bind", answer_bind),
            web.get(f"{PREFIX}/inspect", answer_inspect),
            web.get(f"{PREFIX}/inspect/{{node}}", answer_inspect),
        ]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_WITHIN_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@web.middleware
async def _readable(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
    except msgspec.DecodeError as error:
        return web.Response(status=400, text=f"not a call of a scheduler extender: {error}\n")
    return response


def _answer(document: dict[str, Any]) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")
