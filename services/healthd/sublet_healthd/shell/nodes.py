"""Writes annotation, condition and Events of nodes, and reads back what somebody may have changed."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from sublet.contract.keys import HEALTH_ANNOTATION
from sublet.kube.errors import Forbidden, Invalid, NotFound
from sublet.kube.kind import NODES
from sublet.kube.port import Json, Kube, MergePatch, StrategicPatch
from sublet.model.errors import BadRequest
from sublet.model.ids import NodeName
from sublet_healthd.core.annotation import read_annotation
from sublet_healthd.core.event import Restored
from sublet_healthd.core.judge import Transition
from sublet_healthd.shell.kubeevents import EventWriter
from sublet_healthd.shell.nodestatus import NodeStatus, condition_patch, read_status, second
from sublet_healthd.shell.retry import Pauses, keep_trying

log = structlog.get_logger()

NOT_POSSIBLE = (NotFound, Forbidden, Invalid)
"""No retry helps: there is no such Node object, or somebody forbids the write."""


class Nodes:
    def __init__(
        self, kube: Kube, events: EventWriter, *, pauses: Pauses, unix_ms: Callable[[], int]
    ) -> None:
        self._kube = kube
        self._events = events
        self._pauses = pauses
        self._unix_ms = unix_ms
        self._there: dict[NodeName, NodeStatus] = {}
        self._uids: dict[NodeName, str] = {}

    async def load(self) -> list[Restored]:
        """Read every node; waits for the API server. Returns what the annotations say."""
        nodes = await keep_trying("nodes.load", lambda: self._kube.list(NODES), pauses=self._pauses)
        self.look_at(nodes)
        found: list[Restored] = []
        for node, status in self._there.items():
            try:
                found += read_annotation(node, status.annotation) if status.annotation else []
            except BadRequest as error:
                log.error("annotation.unreadable", node=node, error=str(error))
        return found

    def look_at(self, nodes: list[Json]) -> None:
        """Take in what the API server has; a node that is not among them does not exist."""
        self._there = {NodeName(node["metadata"]["name"]): read_status(node) for node in nodes}
        self._uids = {NodeName(node["metadata"]["name"]): node["metadata"].get("uid", "") for node in nodes}

    async def reread(self) -> None:
        """Raises Unavailable where the API server does not answer."""
        self.look_at(await self._kube.list(NODES))

    def differs(self, node: NodeName, wanted: NodeStatus) -> bool:
        """Whether a node that exists says something else than `wanted`."""
        there = self._there.get(node)
        return there is not None and (
            there.annotation != wanted.annotation
            or (wanted.condition is not None and there.condition != wanted.condition)
        )

    async def annotate(self, node: NodeName, wanted: NodeStatus) -> None:
        """Returns when the node carries the annotation, or when it is clear that it cannot."""
        there = self._there.get(node)
        if there is not None and there.annotation == wanted.annotation:
            return
        body = {"metadata": {"annotations": {HEALTH_ANNOTATION: wanted.annotation}}}
        try:
            patched = await keep_trying(
                "node.annotate",
                lambda: self._kube.patch(NODES, node, MergePatch(body)),
                pauses=self._pauses,
            )
        except NOT_POSSIBLE as error:
            log.warning("node.unannotated", node=node, error=str(error))
            return
        self._uids[node] = patched["metadata"].get("uid", "")
        self._there[node] = replace(read_status(patched), annotation=wanted.annotation)

    async def set_condition(self, node: NodeName, wanted: NodeStatus) -> None:
        there = self._there.get(node, NodeStatus())
        if wanted.condition is None or there.condition == wanted.condition:
            return
        condition, now_ms = wanted.condition, self._unix_ms()
        same = there.condition is not None and there.condition.status == condition.status
        since = there.since if same and there.since else second(now_ms)
        patch = StrategicPatch(condition_patch(condition, since=since, now_ms=now_ms))
        try:
            await keep_trying(
                "node.condition",
                lambda: self._kube.patch(NODES, node, patch, subresource="status"),
                pauses=self._pauses,
            )
        except NOT_POSSIBLE as error:
            log.warning("condition.unwritten", node=node, error=str(error))
            return
        self._there[node] = replace(self._there.get(node, NodeStatus()), condition=condition, since=since)

    async def tell(self, transition: Transition) -> None:
        """A Kubernetes Event, for people."""
        await self._events.tell_card(transition, node_uid=self._uids.get(transition.verdict.node, ""))
