"""The stand-in for kube-scheduler binds what fits and says why nothing does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from sublet.demo.apiserver.faults import Answer
from sublet.demo.apiserver.server import ApiServer, serve_api
from sublet.demo.kubescheduler import KubeScheduler
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import NODES, PODS
from sublet.kube.port import Json, JsonPatch, MergePatch
from sublet.kube.reflector import Change, Key, Reflector, Upserted, as_json
from sublet.runtime.clock import unix_ms
from tests.contract.kubewords import CARD, GATE, expression, pin, pod, required

NAMESPACE = "default"


class Cluster:
    """Nodes to make, pods to ask for, and what became of them."""

    def __init__(self, server: ApiServer, client: KubeClient) -> None:
        self.server = server
        self.client = client
        self.pods: dict[Key, Json] = {}
        self._news = asyncio.Condition()

    async def follow(self) -> None:
        await Reflector(self.client, PODS, decode=as_json).run(self._take)

    async def _take(self, change: Change[Json]) -> None:
        if isinstance(change, Upserted):
            async with self._news:
                self.pods[change.key] = change.obj
                self._news.notify_all()

    async def node(self, name: str, *, labels: Json | None = None, cards: int = 0, **spec: Any) -> None:
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", CARD: str(cards)}
        ready = [{"type": "Ready", "status": "True"}]
        body = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": spec,
            "status": {"allocatable": allocatable, "conditions": ready},
        }
        await self.client.create(NODES, body)

    async def ask(self, name: str, **spec: Any) -> None:
        await self.client.create(PODS, pod(name, **spec), namespace=NAMESPACE)

    async def node_of(self, name: str) -> str:
        key = Key(NAMESPACE, name)
        async with asyncio.timeout(6), self._news:
            await self._news.wait_for(lambda: "nodeName" in self.pods.get(key, {"spec": {}})["spec"])
        node: str = self.pods[key]["spec"]["nodeName"]
        return node

    async def complaint_about(self, name: str) -> str:
        def complaint() -> str:
            status = self.pods.get(Key(NAMESPACE, name), {"status": {}})["status"]
            said = [each for each in status.get("conditions", []) if each["reason"] == "Unschedulable"]
            return said[0]["message"] if said else ""

        async with asyncio.timeout(6), self._news:
            await self._news.wait_for(lambda: complaint() != "")
        return complaint()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with serve_api() as server, open_client(server.access) as client:
        cluster = Cluster(server, client)
        scheduler = KubeScheduler(client, unix_ms=unix_ms)
        tasks = [asyncio.create_task(cluster.follow()), asyncio.create_task(scheduler.run())]
        yield cluster
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def wants(**limits: str) -> Json:
    return {"limits": {CARD if name == "cards" else name: value for name, value in limits.items()}}


async def test_a_pod_goes_where_its_cards_are(cluster: Cluster) -> None:
    await cluster.node("a")
    await cluster.node("b", cards=2)
    await cluster.ask("p", resources=wants(cards="2"))
    assert await cluster.node_of("p") == "b"


async def test_a_full_node_takes_no_more_until_a_pod_goes(cluster: Cluster) -> None:
    await cluster.node("a", cards=2)
    await cluster.ask("first", resources=wants(cards="2"))
    await cluster.node_of("first")
    await cluster.ask("second", resources=wants(cards="1"))
    assert await cluster.complaint_about("second") == f"0/1 nodes are available: 1 Insufficient {CARD}."
    await cluster.client.delete(PODS, "first", namespace=NAMESPACE, grace_period_s=0)
    assert await cluster.node_of("second") == "a"


async def test_a_gated_pod_waits_and_a_pin_is_obeyed(cluster: Cluster) -> None:
    await cluster.node("a")
    await cluster.node("b")
    await cluster.ask("gated", gates=[GATE])
    await cluster.ask("free")
    await cluster.node_of("free")
    assert "nodeName" not in cluster.pods[Key(NAMESPACE, "gated")]["spec"]
    release = JsonPatch(
        [
            {"op": "add", "path": "/spec/affinity", "value": pin("b")},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
    )
    await cluster.client.patch(PODS, "gated", release, namespace=NAMESPACE)
    assert await cluster.node_of("gated") == "b"


@pytest.mark.parametrize(
    ("node", "spec", "complaint"),
    [
        ({}, {"nodeSelector": {"zone": "x"}}, "1 node(s) didn't match Pod's node affinity/selector"),
        (
            {"labels": {"zone": "y"}},
            {"affinity": required([{"matchExpressions": [expression("zone", "x")]}])},
            "1 node(s) didn't match Pod's node affinity/selector",
        ),
        ({}, {"affinity": required([{}])}, "1 node(s) didn't match Pod's node affinity/selector"),
        (
            {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
            {},
            "1 node(s) had untolerated taint {k: v}",
        ),
        (
            {"unschedulable": True},
            {},
            "1 node(s) had untolerated taint {node.kubernetes.io/unschedulable: }",
        ),
        ({}, {"resources": wants(cpu="5")}, "1 Insufficient cpu"),
        ({}, {"resources": wants(memory="9Gi")}, "1 Insufficient memory"),
    ],
)
async def test_a_pod_that_fits_nowhere_hears_why(
    cluster: Cluster, node: Json, spec: Json, complaint: str
) -> None:
    await cluster.node("a", **node)
    await cluster.ask("p", **spec)
    assert await cluster.complaint_about("p") == f"0/1 nodes are available: {complaint}."


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "k", "operator": "Exists"},
        {"key": "k", "value": "v", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ],
)
async def test_a_tolerated_taint_is_no_objection(cluster: Cluster, toleration: Json) -> None:
    await cluster.node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    await cluster.ask("p", tolerations=[toleration])
    assert await cluster.node_of("p") == "a"


async def test_an_init_container_counts_by_its_peak_and_a_sidecar_always(cluster: Cluster) -> None:
    await cluster.node("a", cards=3)
    first = {"name": "first", "image": "x", "resources": wants(cards="3")}
    await cluster.ask("peak", initContainers=[first], resources=wants(cards="1"))
    assert await cluster.node_of("peak") == "a"
    await cluster.client.delete(PODS, "peak", namespace=NAMESPACE, grace_period_s=0)
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "resources": wants(cards="3")}
    await cluster.ask("sum", initContainers=[sidecar], resources=wants(cards="1"))
    assert "Insufficient" in await cluster.complaint_about("sum")


async def test_a_failed_binding_is_tried_again(cluster: Cluster) -> None:
    cluster.server.faults.plan(Answer(code=500), method="POST", path="/binding", times=2)
    await cluster.node("a")
    await cluster.ask("p")
    assert await cluster.node_of("p") == "a"


async def test_a_changed_node_opens_the_door(cluster: Cluster) -> None:
    await cluster.node("a")
    await cluster.ask("p", resources=wants(cards="1"))
    await cluster.complaint_about("p")
    more = MergePatch({"status": {"allocatable": {CARD: "1"}}})
    await cluster.client.patch(NODES, "a", more, subresource="status")
    assert await cluster.node_of("p") == "a"
