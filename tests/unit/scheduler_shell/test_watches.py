"""Watches of pods, nodes and namespaces become events; what was only missed is not told as seen."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from sublet_scheduler.core.events import (
    DraServed,
    Event,
    NodeReleased,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from sublet_scheduler.shell.namespaces import Namespaces
from sublet_scheduler.shell.nodes import Nodes, follow_dra
from sublet_scheduler.shell.pods import Pods

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.demo.apiserver.faults import Answer, WatchEnd
from sublet.kube.kind import NAMESPACES, NODES, PODS, RESOURCE_SLICES
from sublet.kube.port import MergePatch
from sublet.model.ids import NodeName, PodUid
from tests.eventually import eventually
from tests.unit.scheduler_shell.cluster import Cluster, cluster


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        yield built


class Events:
    def __init__(self) -> None:
        self.seen: list[Event] = []

    async def submit(self, event: Event) -> None:
        self.seen.append(event)

    def last(self) -> Event | None:
        return self.seen[-1] if self.seen else None


@asynccontextmanager
async def running(loop: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    async def run() -> None:
        await loop()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        yield
        task.cancel()


async def test_a_deleted_pod_is_told_with_its_final_state(on: Cluster) -> None:
    events = Events()
    pods = Pods(on.kube, on.patches.reader, events.submit)
    made = await on.admit()
    async with running(pods.run):
        await eventually(lambda: events.last() == PodsListed())
        assert isinstance(events.seen[0], PodSeen)
        await on.kube.delete(PODS, "p", namespace="default", grace_period_s=0)
        await eventually(lambda: isinstance(events.last(), PodGone))
    gone = events.last()
    assert isinstance(gone, PodGone)
    assert gone.uid == made["metadata"]["uid"]
    assert gone.last is not None
    assert gone.last.version != made["metadata"]["resourceVersion"]


async def test_a_pod_that_is_missing_from_a_later_list_is_told_as_absent_only(on: Cluster) -> None:
    events = Events()
    made = await on.admit()
    async with running(Pods(on.kube, on.patches.reader, events.submit).run):
        await eventually(lambda: events.last() == PodsListed() and bool(on.faults.watches))
        on.faults.plan(Answer(code=503), method="GET", path="/api/v1/pods", times=100)
        on.faults.end_watches(WatchEnd.EXPIRE)
        await eventually(lambda: not on.faults.watches)
        await on.kube.delete(PODS, "p", namespace="default", grace_period_s=0)
        on.faults.heal()
        gone = PodGone(PodUid(made["metadata"]["uid"]), None)
        await eventually(lambda: events.last() == gone)


async def test_an_operators_request_on_a_node_is_told_with_the_name(on: Cluster) -> None:
    events = Events()
    await on.kube.create(NODES, {"metadata": {"name": "n1"}})
    async with running(Nodes(on.kube, Options(), events.submit).run):
        await eventually(lambda: events.last() == NodesListed())
        asked = {"metadata": {"annotations": {keys.RELEASE_REQUESTED: "jane"}}}
        await on.kube.patch(NODES, "n1", MergePatch(asked))
        await eventually(lambda: events.last() == NodeReleased(NodeName("n1"), by="jane"))


async def test_nodes_that_a_dra_driver_serves_are_told_when_they_change(on: Cluster) -> None:
    events = Events()

    async def follow() -> None:
        await follow_dra(on.kube, events.submit, every_s=0.01)

    async with running(follow):
        await eventually(lambda: events.seen == [DraServed(frozenset())])
        for name, driver in (("a", "gpu.nvidia.com"), ("b", "nic.example.com")):
            body = {"metadata": {"name": name}, "spec": {"driver": driver, "nodeName": f"n-{name}"}}
            await on.kube.create(RESOURCE_SLICES, body)
        await eventually(lambda: events.last() == DraServed(frozenset({NodeName("n-a")})))


async def test_an_api_server_without_dra_serves_none(on: Cluster) -> None:
    events = Events()
    on.faults.plan(Answer(code=404), path="/resourceslices")

    async def follow() -> None:
        await follow_dra(on.kube, events.submit, every_s=60)

    async with running(follow):
        await eventually(lambda: events.seen == [DraServed(frozenset())])


async def test_a_namespace_is_managed_while_its_label_says_so(on: Cluster) -> None:
    namespaces = Namespaces(on.kube, manage_all=False)
    labels = {keys.MANAGE_LABEL: "true"}
    await on.kube.create(NAMESPACES, {"metadata": {"name": "team", "labels": labels}})
    assert await namespaces.managed("team")  # before the watch told
    async with running(namespaces.run):
        await eventually(lambda: namespaces.listed)
        assert await namespaces.managed("team")
        assert not await namespaces.managed("default")
        assert not await namespaces.managed("absent")
    assert await Namespaces(on.kube, manage_all=True).managed("default")
