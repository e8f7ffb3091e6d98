"""gpushare's scheduler extender, asked as a real kube-scheduler asks.

Its calls were recorded, with the extender configured with and without a node cache of its own.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.kube.kind import NODES
from sublet.kube.port import Json, MergePatch
from tests.builders import cards, container, pod
from tests.integration.schedulerstage import Stage, stage, uid_of
from tests.lab.programs import free_port

REQUESTS = Path(__file__).parent / "requests"
BOTH_WAYS = pytest.mark.parametrize("way", ["names", "nodes"])


def recorded(way: str) -> dict[str, Any]:
    """The calls `filter` and `bind` about one pod and the nodes n1 and n2."""
    found: dict[str, Any] = json.loads((REQUESTS / f"{way}.json").read_text())
    return found


class Front:
    """The scheduler with two nodes of two cards each, and its extender."""

    def __init__(self, on: Stage, url: str) -> None:
        self.on = on
        self._url = url

    async def post(self, verb: str, body: object) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._url}/{verb}", json=body) as answer,
        ):
            return await answer.json() if answer.status == 200 else answer.status

    async def get(self, path: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(f"{self._url}/{path}") as answer:
            return await answer.json()

    async def placed(self, name: str, mem: int = 2) -> Json:
        """A pod of gpushare that was released to its node, which kube-scheduler sees now."""
        await self.on.create(pod(name, container(gpu_mem=mem), namespace="given"))
        return await self.on.released(name, "given")


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[Front]:
    port = free_port()
    async with stage(MemoryBus(LAYOUT)) as on:
        await on.add_namespace("given", manage="true")
        for name in ("n1", "n2"):
            await on.add_node(name, *cards(name, 2, gib=15))
        async with on.scheduler(extender_host="127.0.0.1", extender_port=port, **settings):
            for name in ("n1", "n2"):
                await on.until_totals(name)
            yield Front(on, f"http://127.0.0.1:{port}/gpushare-scheduler")


def about(call: dict[str, Any], seen: Json) -> dict[str, Any]:
    """The recorded call, about this pod."""
    return {**call, "Pod": {**call["Pod"], "metadata": seen["metadata"], "spec": seen["spec"]}}


@BOTH_WAYS
async def test_a_decided_pod_passes_on_the_node_of_its_cards_alone(way: str) -> None:
    async with opened() as front:
        answer = await front.post("filter", about(recorded(way)["filter"], await front.placed("p")))
    assert answer["FailedNodes"] == {"n2": "the pod's cards are on n1"}
    assert answer["Error"] == ""
    if way == "names":
        assert (answer["NodeNames"], answer["Nodes"]) == (["n1"], None)
    else:
        assert answer["NodeNames"] is None
        assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["n1"]
        assert answer["Nodes"]["items"][0]["status"]["allocatable"]["aliyun.com/gpu-mem"] == "30"


@BOTH_WAYS
async def test_a_pod_without_a_decision_passes_nowhere(way: str) -> None:
    async with opened() as front:
        answer = await front.post("filter", recorded(way)["filter"])
    assert sorted(answer["FailedNodes"]) == ["n1", "n2"]
    assert "no cards for the pod" in answer["FailedNodes"]["n1"]


async def test_a_filter_that_is_asked_again_after_a_bind_that_failed_says_the_same() -> None:
    """gpu-admission takes its own annotation for a reason against the pod, for ever."""
    async with opened() as front:
        seen = await front.placed("p")
        call = about(recorded("names")["filter"], seen)
        bind = {**recorded("names")["bind"], "PodNamespace": "given", "PodUID": uid_of(seen), "Node": "n2"}
        first = await front.post("filter", call)
        assert (await front.post("bind", bind))["Error"]
        assert await front.post("filter", call) == first


async def test_a_pod_without_memory_of_gpushare_passes_everywhere() -> None:
    call = recorded("names")["filter"]
    call["Pod"]["spec"]["containers"][0]["resources"] = {}
    async with opened() as front:
        assert (await front.post("filter", call))["NodeNames"] == ["n1", "n2"]


async def test_a_pod_is_bound_to_the_node_of_its_cards_and_to_no_other() -> None:
    call = recorded("names")["bind"]
    async with opened() as front:
        seen = await front.placed("p")
        there = {**call, "PodNamespace": "given", "PodUID": uid_of(seen), "Node": "n1"}
        assert await front.post("bind", {**there, "Node": "n2"}) == {
            "Error": "the cards of pod given/p are on n1"
        }
        assert await front.post("bind", {**there, "PodUID": "another"}) == {
            "Error": "the cards of pod given/p are not decided"
        }
        assert await front.post("bind", there) == {"Error": ""}
        assert front.on.pod("p", "given")["spec"]["nodeName"] == "n1"
        assert (await front.post("bind", there))["Error"] != ""


async def test_inspect_shows_nodes_cards_and_pods_in_the_unit_of_the_cluster() -> None:
    async with opened() as front:
        await front.placed("a", 6)
        await front.placed("b", 3)
        both, one = await front.get("inspect"), await front.get("inspect/n1")
        nobody = await front.get("inspect/nobody")
    assert [node["name"] for node in both["nodes"]] == ["n1", "n2"]
    assert one == {
        "nodes": [
            {
                "name": "n1",
                "totalGPU": 30,
                "usedGPU": 9,
                "devs": [
                    {
                        "id": 0,
                        "totalGPU": 15,
                        "usedGPU": 9,
                        "pods": [
                            {"name": "a", "namespace": "given", "usedGPU": 6},
                            {"name": "b", "namespace": "given", "usedGPU": 3},
                        ],
                    },
                    {"id": 1, "totalGPU": 15, "usedGPU": 0, "pods": []},
                ],
            }
        ]
    }
    assert nobody == {"nodes": [], "error": "node nobody is not known"}


async def test_inspect_shows_each_node_in_the_unit_of_its_pool() -> None:
    async with opened(gpu_mem_pools=("pool=large:MiB",)) as front:
        await front.on.kube.patch(NODES, "n2", MergePatch({"metadata": {"labels": {"pool": "large"}}}))
        await front.on.create(
            pod("p", container(gpu_mem=4096), namespace="given", nodeSelector={"pool": "large"})
        )
        await front.on.released("p", "given")
        found = await front.get("inspect")
    assert [(node["name"], node["totalGPU"], node["usedGPU"]) for node in found["nodes"]] == [
        ("n1", 30, 0),
        ("n2", 30 * 1024, 4096),
    ]


async def test_what_is_no_call_is_refused() -> None:
    async with opened() as front:
        assert await front.post("filter", {"Pod": 1}) == 400
        assert await front.post("bind", []) == 400
