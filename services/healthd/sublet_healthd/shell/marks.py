"""Optional: marks by which other systems learn of cards to leave out, in their own spelling.

`gpushare`: ConfigMap kube-system/unhealthy-gpu-<node>, key `gpus`; only those with our label are touched.
`volcano`: annotation volcano.sh/gpu-unhealthy-ids of the Node. Both list indices; they go with the last one.
"""

from collections.abc import Mapping
from contextlib import suppress

import structlog

from sublet.kube.errors import KubeError, NotFound
from sublet.kube.kind import CONFIGMAPS, NODES
from sublet.kube.port import Kube, MergePatch, Selection
from sublet.model.ids import NodeName
from sublet.runtime.serve import every
from sublet_healthd.core.engine import Engine
from sublet_healthd.shell.devicetaints import MANAGED_BY, MANAGER

log = structlog.get_logger()

EVERY_S = 5.0
GPUSHARE, VOLCANO = "gpushare", "volcano"
GPUSHARE_NAMESPACE = "kube-system"
GPUSHARE_PREFIX = "unhealthy-gpu-"
VOLCANO_ANNOTATION = "volcano.sh/gpu-unhealthy-ids"


class Marks:
    def __init__(self, kube: Kube, engine: Engine, *, systems: tuple[str, ...]) -> None:
        self._kube = kube
        self._engine = engine
        self._systems = systems
        self._written: dict[str, dict[NodeName, str]] = {}
        """By system, what is known to stand there; read before it is first written."""

    async def run(self) -> None:
        await every(EVERY_S, self.once)

    async def once(self) -> None:
        wanted = self._wanted()
        for system in self._systems:
            try:
                await (self._gpushare(wanted) if system == GPUSHARE else self._volcano(wanted))
            except KubeError as error:
                self._written.pop(system, None)
                log.warning("marks.unwritten", system=system, error=str(error))

    def _wanted(self) -> dict[NodeName, str]:
        """Indices of the cards of each node that take no new shares."""
        closed: dict[NodeName, list[int]] = {}
        for (node, card), state in self._engine.cards.items():
            listed = self._engine.listed(node, card)
            if listed and not state.parent and state.verdict and not state.verdict.schedulable:
                closed.setdefault(node, []).append(listed.index)
        return {node: ",".join(map(str, sorted(indices))) for node, indices in closed.items()}

    async def _gpushare(self, wanted: Mapping[NodeName, str]) -> None:
        if GPUSHARE not in self._written:
            ours = Selection(namespace=GPUSHARE_NAMESPACE, labels=f"{MANAGED_BY}={MANAGER}")
            found = await self._kube.list(CONFIGMAPS, ours)
            self._written[GPUSHARE] = {
                NodeName(one["metadata"]["name"].removeprefix(GPUSHARE_PREFIX)): (one.get("data") or {}).get(
                    "gpus", ""
                )
                for one in found
            }
        written = self._written[GPUSHARE]
        for node in sorted(written.keys() - wanted.keys()):
            with suppress(NotFound):
                await self._kube.delete(CONFIGMAPS, f"{GPUSHARE_PREFIX}{node}", namespace=GPUSHARE_NAMESPACE)
            del written[node]
        for node, gpus in sorted(wanted.items()):
            if node not in written:
                body = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                        "name": f"{GPUSHARE_PREFIX}{node}",
                        "namespace": GPUSHARE_NAMESPACE,
                        "labels": {MANAGED_BY: MANAGER},
                    },
                    "data": {"gpus": gpus},
                }
                await self._kube.create(CONFIGMAPS, body)
            elif written[node] != gpus:
                patch = MergePatch({"data": {"gpus": gpus}})
                await self._kube.patch(
                    CONFIGMAPS, f"{GPUSHARE_PREFIX}{node}", patch, namespace=GPUSHARE_NAMESPACE
                )
            written[node] = gpus

    async def _volcano(self, wanted: Mapping[NodeName, str]) -> None:
        if VOLCANO not in self._written:
            nodes = await self._kube.list(NODES)
            told = {
                NodeName(one["metadata"]["name"]): (one["metadata"].get("annotations") or {}).get(
                    VOLCANO_ANNOTATION
                )
                for one in nodes
            }
            known = set(self._engine.nodes())  # another's annotation on a node that is not ours stays
            self._written[VOLCANO] = {node: ids for node, ids in told.items() if ids and node in known}
        written = self._written[VOLCANO]
        for node in sorted(written.keys() | wanted.keys()):
            if written.get(node) == wanted.get(node):
                continue
            patch = MergePatch({"metadata": {"annotations": {VOLCANO_ANNOTATION: wanted.get(node)}}})
            try:
                await self._kube.patch(NODES, node, patch)
            except NotFound:
                written.pop(node, None)
                continue
            if node in wanted:
                written[node] = wanted[node]
            else:
                del written[node]
