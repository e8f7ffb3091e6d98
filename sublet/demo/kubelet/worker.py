"""The life of one pod on the stand-in kubelet: admitted, started in order, run, ended, reported."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from sublet.demo.kubelet import podspec
from sublet.demo.kubelet.podspec import ContainerState
from sublet.demo.kubelet.spec import AdmissionRefused, PodSpec, StartRefused
from sublet.demo.kubelet.standin import StandInKubelet
from sublet.kube.errors import KubeError
from sublet.kube.kind import PODS
from sublet.kube.port import Json, Kube, MergePatch

log = structlog.get_logger()

_GRACE_S = 30.0
_RETRY_S = 0.2
_BY_SIGTERM = 128 + 15


class PodWorker:
    """`delete` says that the API wants the pod gone, `vanish` that the API has forgotten it already."""

    def __init__(self, kube: Kube, kubelet: StandInKubelet, pod: Json, *, unix_ms: Callable[[], int]) -> None:
        self._kube = kube
        self._kubelet = kubelet
        self._pod = pod
        self._unix_ms = unix_ms
        self._spec: PodSpec = podspec.read_pod(pod, kubelet.table.healthy)
        self._states: dict[str, tuple[ContainerState, int]] = {
            one.name: (podspec.waiting("PodInitializing"), 0) for one in self._spec.every()
        }
        self._ending = asyncio.Event()
        self._vanished = False
        self._grace_s = _GRACE_S
        self._phase = "Pending"

    def delete(self, grace_s: float) -> None:
        """A grace of 0 takes the pod out of the API at once, and gives its processes no less time."""
        self._grace_s = grace_s or self._grace_s
        self._ending.set()

    def vanish(self) -> None:
        self._vanished = True
        self._ending.set()

    async def run(self) -> None:
        """Returns when nothing is left of the pod, here and in the API."""
        async with asyncio.TaskGroup() as group:
            life = group.create_task(self._live())
            await self._ending.wait()
            life.cancel()
        ignored_s = podspec.seconds(self._pod, podspec.IGNORES_TERM_FOR_S) or 0.0
        await asyncio.sleep(min(ignored_s, self._grace_s))
        await self._kubelet.end(self._spec.uid)
        if not self._vanished:
            await self._leave()

    async def _live(self) -> None:
        """Until the pod is to go; a pod that ended by itself just waits to be deleted."""
        try:
            await self._kubelet.admit(self._spec)
        except AdmissionRefused as refusal:
            self._states.clear()
            await self._report("Failed", reason="UnexpectedAdmissionError", message=str(refusal))
            return
        for container in self._spec.every():
            await self._start(container.name)
            if self._spec.is_plain_init(container.name):
                self._end_container(container.name)
            await self._report("Running" if self._all_started() else "Pending")
        runs_for_s = podspec.seconds(self._pod, podspec.RUNS_FOR_S)
        if runs_for_s is None or self._pod["spec"].get("restartPolicy", "Always") == "Always":
            return
        await asyncio.sleep(runs_for_s)
        self._end_containers()
        await self._kubelet.end(self._spec.uid)
        await self._report("Succeeded")

    async def _start(self, name: str) -> None:
        """Try for ever; the API shows why it does not start."""
        while True:
            try:
                started = await self._kubelet.try_start(self._spec.uid, name)
            except StartRefused as refusal:
                state = podspec.waiting("CreateContainerConfigError", str(refusal))
                if self._states[name][0] != state:
                    self._states[name] = (state, self._states[name][1])
                    await self._report("Pending")
                await asyncio.sleep(_RETRY_S)
            else:
                self._states[name] = (podspec.running(self._now()), started.starts)
                return

    async def _leave(self) -> None:
        """Say that every container has ended, then let the API forget the pod."""
        self._end_containers(exit_code=_BY_SIGTERM)
        await self._report("Failed" if self._phase != "Succeeded" else "Succeeded")
        meta = self._pod["metadata"]
        try:
            await self._kube.delete(
                PODS, meta["name"], namespace=meta["namespace"], uid=meta["uid"], grace_period_s=0
            )
        except KubeError as error:
            log.info("pod.not_deleted", pod=meta["name"], error=str(error))

    async def _report(self, phase: str, *, reason: str = "", message: str = "") -> None:
        """Write the pod's status; a pod that is no more, or another of its name, has nobody to tell."""
        self._phase = phase
        meta = self._pod["metadata"]
        body = podspec.status(self._spec, phase=phase, states=self._states, reason=reason, message=message)
        patch = MergePatch({"metadata": {"uid": meta["uid"]}, "status": body})
        try:
            await self._kube.patch(
                PODS, meta["name"], patch, namespace=meta["namespace"], subresource="status"
            )
        except KubeError as error:
            log.info("pod_status.not_written", pod=meta["name"], phase=phase, error=str(error))

    def _end_containers(self, *, exit_code: int = 0) -> None:
        for name in self._states:
            self._end_container(name, exit_code=exit_code)

    def _end_container(self, name: str, *, exit_code: int = 0) -> None:
        state, starts = self._states[name]
        if state.kind == "running":
            self._states[name] = (podspec.terminated(self._now(), exit_code=exit_code), starts)

    def _all_started(self) -> bool:
        return all(
            state.kind == ("terminated" if self._spec.is_plain_init(name) else "running")
            for name, (state, _) in self._states.items()
        )

    def _now(self) -> str:
        return datetime.fromtimestamp(self._unix_ms() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
