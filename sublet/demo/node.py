"""A simulated node: a stand-in kubelet that follows the API server as a kubelet does."""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from sublet.contract import keys
from sublet.demo.kubelet.spec import AdmissionRefused, PodSpec, StartRefused
from sublet.demo.kubelet.standin import StandInKubelet
from sublet.demo.kubeletpods import ended_status, failed_status, pod_spec, running_status, stamp
from sublet.kube.errors import KubeError, NotFound
from sublet.kube.kind import NODES, PODS
from sublet.kube.port import Json, JsonPatch, Kube, MergePatch, Selection
from sublet.kube.reflector import Change, Gone, Reflector, Upserted, as_json
from sublet.model.errors import Unavailable

log = structlog.get_logger()

CPU = "64"
MEMORY = "256Gi"
PODS_MOST = "110"
LOOK_AGAIN_S = 60.0
START_WITHIN_S = 5.0


class Node:
    """Registers a Node, shows the slots that its plugin lists, runs the pods that are bound to it."""

    def __init__(self, name: str, kubelet: StandInKubelet, kube: Kube, *, unix_ms: Callable[[], int]) -> None:
        self.name = name
        self.kubelet = kubelet
        self._kube = kube
        self._unix_ms = unix_ms
        self._group = asyncio.TaskGroup()
        self._ending: dict[str, asyncio.Event] = {}
        """Pods that run here, and whether each has to end."""

    async def run(self) -> None:
        """Be a node until cancelled."""
        await self._register()
        mine = Selection(fields=f"spec.nodeName={self.name}")
        async with self._group as group:
            following = Reflector(self._kube, PODS, decode=as_json, select=mine)
            group.create_task(following.run(self._take), name=f"{self.name} pods")
            group.create_task(self._show_slots(), name=f"{self.name} slots")

    async def _register(self) -> None:
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"}
        await self._kube.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": labels}}
        )
        amounts = {"cpu": CPU, "memory": MEMORY, "pods": PODS_MOST}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        ready |= {"lastTransitionTime": stamp(self._unix_ms()), "lastHeartbeatTime": stamp(self._unix_ms())}
        await self._patch_node({"capacity": amounts, "allocatable": amounts, "conditions": [ready]})

    async def _show_slots(self) -> None:
        """Write the slots to the Node whenever the plugin's list makes them differ."""
        shown: tuple[int, int] | None = None
        while True:
            try:
                await self.kubelet.until(lambda _, old=shown: self.slots != old, within_s=LOOK_AGAIN_S)  # type: ignore[misc]
            except Unavailable:
                continue
            capacity, allocatable = now = self.slots
            try:
                await self._patch_node(
                    {
                        "capacity": {keys.SLOT: str(capacity)},
                        "allocatable": {keys.SLOT: str(allocatable)},
                    }
                )
                shown = now
            except KubeError as error:
                log.warning("node.unwritten", node=self.name, error=str(error))

    @property
    def slots(self) -> tuple[int, int]:
        """Slots in capacity and in allocatable, as the kubelet counts them."""
        table = self.kubelet.table
        return table.capacity().get(keys.SLOT, 0), table.allocatable().get(keys.SLOT, 0)

    async def _patch_node(self, status: Json) -> None:
        await self._kube.patch(NODES, self.name, MergePatch({"status": status}), subresource="status")

    async def _take(self, change: Change[Json]) -> None:
        match change:
            case Upserted(_, pod):
                uid = pod["metadata"]["uid"]
                if uid not in self._ending and pod["status"].get("phase") == "Pending":
                    self._ending[uid] = asyncio.Event()
                    name = f"{self.name} {pod['metadata']['name']}"
                    self._group.create_task(self._live(pod, self._ending[uid]), name=name)
                if pod["metadata"].get("deletionTimestamp") and uid in self._ending:
                    self._ending[uid].set()
            case Gone(_, pod) if pod["metadata"]["uid"] in self._ending:
                self._ending[pod["metadata"]["uid"]].set()
            case _:
                pass

    async def _live(self, pod: Json, ending: asyncio.Event) -> None:
        """One pod from its admission on this node to its end."""
        meta = pod["metadata"]
        spec = pod_spec(pod)
        try:
            await self.kubelet.admit(spec)
        except AdmissionRefused as refusal:
            await self._write(pod, failed_status(pod, str(refusal), now_ms=self._unix_ms()))
        else:
            if await self._start(spec, ending):
                await self._write(pod, running_status(pod, now_ms=self._unix_ms()))
        await ending.wait()
        await self.kubelet.end(spec.uid)
        await self._write(pod, ended_status(pod, now_ms=self._unix_ms()))
        with contextlib.suppress(NotFound):
            await self._kube.delete(
                PODS, meta["name"], namespace=meta["namespace"], uid=meta["uid"], grace_period_s=0
            )
        del self._ending[spec.uid]

    async def _start(self, spec: PodSpec, ending: asyncio.Event) -> bool:
        """Start every container; False where the pod had to end first."""
        for container in spec.every():
            started = False
            while not started:
                if ending.is_set():
                    return False
                try:
                    await self.kubelet.start_container(spec.uid, container.name, within_s=START_WITHIN_S)
                    started = True
                except StartRefused as refusal:
                    log.info("container.postponed", pod=spec.name, container=container.name, why=str(refusal))
        return True

    async def _write(self, pod: Json, status: Json) -> None:
        """Write a pod's status, unless that pod is gone."""
        meta = pod["metadata"]
        patch = JsonPatch(
            [
                {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
                *({"op": "add", "path": f"/status/{key}", "value": value} for key, value in status.items()),
            ]
        )
        with contextlib.suppress(NotFound):
            await self._kube.patch(
                PODS, meta["name"], patch, namespace=meta["namespace"], subresource="status"
            )
