"""A kubelet that restarts twenty times: one registration each time, the same cards, nothing left over."""

import asyncio
import json
import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.proofs import cgroups_of, proves
from tests.cluster.stage import Namespace, Stage, agent_name, container, pod
from tests.lab.node import Node
from tests.lab.programs import LabError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

RESTARTS = 20
EVENTFUL = 11
"""In this round a container ends and a pod is created while the kubelet is away."""
SHAPES = {
    "share": [container(gpu_memory=1024)],
    "pair": [container(gpu_memory=1024), container("other", gpu=1)],
    "restarting": [container(gpu_memory=1024)],
}


@dataclass(frozen=True)
class Restarting:
    """One node's kubelet, its agent and the pods of this test that run there."""

    place: Namespace
    node: Node

    @property
    def stage(self) -> Stage:
        return self.place.stage

    def pod(self, name: str) -> str:
        return f"{name}-{self.node.name[-1]}"

    async def run(self) -> None:
        cards = await self._begin()
        uids = await self._uids()
        before, slots = self._said(), await self.stage.slots(self.node)
        files = 0
        for at in range(1, RESTARTS + 1):
            await self._restart(at)
            await self._registered(before["registration.made"] + at)
            if at == EVENTFUL:
                await self._new_pod_runs()
            files = files or self._open_files()
            assert await self._uids() == uids, "a pod was lost"

        async def offers_all() -> bool:
            return await self.stage.slots(self.node) == slots

        await self.stage.until(f"all {slots} slots of {self.node.name}", offers_all)
        await self.stage.until(f"pods known to {self.node.name}", self._knows_its_pods)
        assert await self._cards() == cards
        for name in SHAPES:
            assert await self.place.restarts(self.pod(name)) == (name == "restarting")
        for event in ("registration.made", "slots.followed", "slots.left"):
            assert self._said()[event] == before[event] + RESTARTS, event
        assert len(self._sockets()) == 1
        assert self._open_files() <= files + 2, "files that nobody closed"

    async def _begin(self) -> dict[tuple[str, str], list[str]]:
        before = container("before", "exit 0", gpu_memory=512)
        for name, containers in SHAPES.items():
            init = {"initContainers": [before]} if name == "share" else {}
            await self.place.create(pod(self.pod(name), *containers, node=self.node, **init))
        return await self._cards()

    async def _cards(self) -> dict[tuple[str, str], list[str]]:
        return {
            (name, one["name"]): await proves(self.place, self.pod(name), one["name"])
            for name, containers in SHAPES.items()
            for one in containers
        }

    async def _knows_its_pods(self) -> bool:
        """A kubelet answers before it has read which pods it has."""
        try:
            for name in SHAPES:
                await self.place.environ(self.pod(name))
        except LabError:
            return False
        return True

    async def _uids(self) -> dict[str, str]:
        found = {name: await self.place.get(self.pod(name)) for name in SHAPES}
        return {
            name: one["metadata"]["uid"]
            for name, one in found.items()
            if one and one["status"]["phase"] == "Running"
        }

    async def _restart(self, at: int) -> None:
        """Stopped in even rounds, killed in odd ones."""
        await (self.node.kill_kubelet() if at % 2 else self.node.stop_kubelet())
        if at == EVENTFUL:
            await self._end_container()
            await self.place.create(pod(self.pod("new"), container(gpu_memory=512), node=self.node))
        await self.node.start_kubelet()

    async def _end_container(self) -> None:
        found = await self.place.get(self.pod("restarting"))
        assert found is not None
        for pid in _sleepers(found["metadata"]["uid"]):
            os.kill(pid, signal.SIGKILL)

    async def _registered(self, made: int) -> None:
        async def so() -> bool:
            return self._said()["registration.made"] >= made

        await self.stage.until(f"{self.node.name} is registered again", so)
        assert self._said()["registration.made"] == made

    async def _new_pod_runs(self) -> None:
        """It was created while the kubelet was away; the container that ended then runs again."""
        await proves(self.place, self.pod("new"))
        await self.place.delete(self.pod("new"))

        async def again() -> bool:
            return await self.place.restarts(self.pod("restarting")) == 1

        await self.stage.until("the container that ended was restarted", again)

    def _said(self) -> Counter[str]:
        """How often the node's agent logged each event."""
        lines = self.stage.plane.run.log_path(agent_name(self.node)).read_text().splitlines()
        return Counter(json.loads(line)["event"] for line in lines if line.endswith("}"))

    def _open_files(self) -> int:
        """How many files, sockets and pipes the agent holds open."""
        pid = self.stage.plane.run.pid(agent_name(self.node))
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    def _sockets(self) -> list[Path]:
        return list((self.node.kubelet_dir / "device-plugins").glob("sublet-*.sock"))


def _sleepers(uid: str) -> set[int]:
    """The pod's processes that are no pause."""
    listed = {pid for cgroup in cgroups_of(uid) for pid in (cgroup / "cgroup.procs").read_text().split()}
    return {int(pid) for pid in listed if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()}


async def test_twenty_restarts_of_both_kubelets_change_no_card_and_leave_nothing_behind(
    stage: Stage, place: Namespace
) -> None:
    async with asyncio.TaskGroup() as group:
        for node in stage.nodes:
            group.create_task(Restarting(place, node).run())
