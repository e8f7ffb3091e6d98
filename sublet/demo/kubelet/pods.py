"""The stand-in kubelet on an API server: runs the pods bound to its node and reports the node's status."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import structlog

from sublet.demo.kubelet.standin import StandInKubelet
from sublet.demo.kubelet.worker import PodWorker
from sublet.kube.errors import AlreadyExists, KubeError
from sublet.kube.kind import NODES, PODS
from sublet.kube.port import Json, Kube, MergePatch, Selection
from sublet.kube.reflector import Change, Gone, Reflector, Upserted, as_json

log = structlog.get_logger()

CAPACITY: Mapping[str, str] = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_ENDED = ("Succeeded", "Failed")


class KubeletPods:
    """`status_s` is how often the node's status is written, as in the real kubelet apart from changes."""

    def __init__(
        self,
        kube: Kube,
        kubelet: StandInKubelet,
        *,
        node: str,
        unix_ms: Callable[[], int],
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] = CAPACITY,
        status_s: float = 10.0,
    ) -> None:
        self._kube = kube
        self._kubelet = kubelet
        self._node = node
        self._unix_ms = unix_ms
        self._labels = {"kubernetes.io/hostname": node, **(labels or {})}
        self._capacity = dict(capacity)
        self._status_s = status_s
        self._workers: dict[str, PodWorker] = {}
        self._group = asyncio.TaskGroup()

    async def run(self) -> None:
        """Register the node, then run its pods until cancelled."""
        await self._register()
        reflector = Reflector(
            self._kube, PODS, decode=as_json, select=Selection(fields=f"spec.nodeName={self._node}")
        )
        async with self._group as group:
            group.create_task(self._report_for_ever(), name=f"{self._node} status")
            group.create_task(reflector.run(self._take), name=f"{self._node} pods")

    async def _take(self, change: Change[Json]) -> None:
        match change:
            case Upserted(_, pod):
                self._upserted(pod)
            case Gone(_, pod):
                if (worker := self._workers.get(pod["metadata"]["uid"])) is not None:
                    worker.vanish()
            case _:
                pass

    def _upserted(self, pod: Json) -> None:
        meta = pod["metadata"]
        worker = self._workers.get(meta["uid"])
        if worker is None and pod.get("status", {}).get("phase") not in _ENDED:
            worker = PodWorker(self._kube, self._kubelet, pod, unix_ms=self._unix_ms)
            self._workers[meta["uid"]] = worker
            self._group.create_task(self._work(meta["uid"], worker), name=f"pod {meta['name']}")
        if worker is not None and meta.get("deletionTimestamp"):
            worker.delete(meta.get("deletionGracePeriodSeconds", 0))

    async def _work(self, uid: str, worker: PodWorker) -> None:
        try:
            await worker.run()
        finally:
            del self._workers[uid]

    # the node

    async def _register(self) -> None:
        body = {"metadata": {"name": self._node, "labels": self._labels}, "spec": {}}
        try:
            await self._kube.create(NODES, body)
        except AlreadyExists:
            log.info("node.known", node=self._node)

    async def _report_for_ever(self) -> None:
        while True:
            try:
                await self._report()
            except KubeError as error:
                log.warning("node_status.not_written", node=self._node, error=str(error))
            await asyncio.sleep(self._status_s)

    async def _report(self) -> None:
        """Ours is what plugins serve; what others patched into capacity is copied to allocatable."""
        status = (await self._kube.get(NODES, self._node)).get("status") or {}
        table = self._kubelet.table
        own = self._capacity | {name: str(count) for name, count in table.capacity().items()}
        allocatable = self._capacity | {name: str(count) for name, count in table.allocatable().items()}
        patched = {name: amount for name, amount in (status.get("capacity") or {}).items() if name not in own}
        body = {
            "capacity": own,
            "allocatable": patched | allocatable,
            "conditions": [*_others(status), self._ready()],
        }
        await self._kube.patch(NODES, self._node, MergePatch({"status": body}), subresource="status")

    def _ready(self) -> Json:
        now = datetime.fromtimestamp(self._unix_ms() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "a stand-in for the kubelet runs",
            "lastHeartbeatTime": now,
        }


def _others(status: Json) -> list[Json]:
    return [one for one in status.get("conditions") or () if one["type"] != "Ready"]
