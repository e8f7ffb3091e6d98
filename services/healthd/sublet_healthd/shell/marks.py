"""Optional: the ConfigMaps by which gpushare learns of cards to leave out.

kube-system/unhealthy-gpu-<node>, key `gpus`, lists indices and goes with the last one; only those with our
label are touched.
"""

from collections.abc import Mapping
from contextlib import suppress

import structlog

from sublet.kube.errors import Forbidden, KubeError, NotFound
from sublet.kube.kind import CONFIGMAPS
from sublet.kube.port import Kube, MergePatch, Selection
from sublet.model.ids import NodeName
from sublet.runtime.serve import every
from sublet_healthd.core.engine import Engine
from sublet_healthd.shell.devicetaints import MANAGED_BY, MANAGER

log = structlog.get_logger()

EVERY_S = 5.0
GPUSHARE_NAMESPACE = "kube-system"
GPUSHARE_PREFIX = "unhealthy-gpu-"


class Marks:
    def __init__(self, kube: Kube, engine: Engine, *, on: bool) -> None:
        """Where it is not `on`, what an earlier life wrote goes, and that is all."""
        self._kube = kube
        self._engine = engine
        self._on = on
        self._done = False
        self._written: dict[NodeName, str] | None = None
        """What is known to stand there; read before it is first written."""

    async def run(self) -> None:
        await every(EVERY_S, self.once)

    async def once(self) -> None:
        if self._done:
            return
        try:
            await self._write(self._wanted() if self._on else {})
            self._done = not self._on
        except KubeError as error:
            self._written = None
            if not self._on and isinstance(error, Forbidden):  # the right went with the component
                self._done = True
                return
            log.warning("marks.unwritten", system="gpushare", error=str(error))

    def _wanted(self) -> dict[NodeName, str]:
        """Indices of the cards of each node that take no new shares."""
        closed: dict[NodeName, list[int]] = {}
        for (node, card), state in self._engine.cards.items():
            listed = self._engine.known.listed(node, card)
            if listed and not state.parent and state.verdict and not state.verdict.schedulable:
                closed.setdefault(node, []).append(listed.index)
        return {node: ",".join(map(str, sorted(indices))) for node, indices in closed.items()}

    async def _write(self, wanted: Mapping[NodeName, str]) -> None:
        if self._written is None:
            ours = Selection(namespace=GPUSHARE_NAMESPACE, labels=f"{MANAGED_BY}={MANAGER}")
            found = await self._kube.list(CONFIGMAPS, ours)
            self._written = {
                NodeName(one["metadata"]["name"].removeprefix(GPUSHARE_PREFIX)): (one.get("data") or {}).get(
                    "gpus", ""
                )
                for one in found
            }
        written = self._written
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
