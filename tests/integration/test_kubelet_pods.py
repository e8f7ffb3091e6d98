"""The stand-in kubelet on an API server: pods bound to its node run, end and are reported."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest_asyncio

from sublet.contract import keys
from sublet.demo.apiserver.server import serve_api
from sublet.demo.kubelet.pods import KubeletPods
from sublet.demo.kubelet.podspec import IGNORES_TERM_FOR_S, RUNS_FOR_S
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import NODES, PODS, Kind
from sublet.kube.port import Json, MergePatch
from sublet.kube.reflector import Change, Gone, Reflector, Upserted, as_json
from sublet.model.ids import PodUid
from sublet.runtime.clock import unix_ms
from tests.integration.agentstage import CARDS, NODE, Stage, agent_stage, grant

A = CARDS[0]


@pytest_asyncio.fixture(autouse=True)
async def no_task_is_left_over() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    async with agent_stage() as made:
        yield made


@asynccontextmanager
async def cluster(stage: Stage) -> AsyncIterator[KubeClient]:
    """An API server with one node, whose kubelet and agent run."""
    async with serve_api() as server, open_client(server.access) as kube, stage.agent():
        pods = KubeletPods(kube, stage.kubelet, node=NODE, unix_ms=unix_ms, status_s=0.1)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(pods.run())
            yield kube
            running.cancel()


async def follow(kube: KubeClient, kind: Kind, holds: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
    """Watch all objects of a kind until `holds` of them, by name."""
    objects: dict[str, Json] = {}
    done = asyncio.Event()

    async def take(change: Change[Json]) -> None:
        match change:
            case Upserted(key, found):
                objects[key.name] = found
            case Gone(key, _):
                del objects[key.name]
            case _:
                pass
        if holds(objects):
            done.set()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        watching = group.create_task(Reflector(kube, kind, decode=as_json).run(take))
        await done.wait()
        watching.cancel()
    return objects


async def seen(kube: KubeClient, kind: Kind, name: str, holds: Callable[[Json], bool]) -> Json:
    return (await follow(kube, kind, lambda found: name in found and holds(found[name])))[name]


async def gone(kube: KubeClient, name: str) -> None:
    await follow(kube, PODS, lambda found: name not in found)


async def create(
    kube: KubeClient,
    name: str,
    *,
    slots: int = 1,
    policy: str = "Always",
    annotations: dict[str, str] | None = None,
) -> Json:
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "nodeName": NODE,
            "restartPolicy": policy,
            "containers": [
                {
                    "name": "main",
                    "image": "any",
                    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
                    "resources": {"limits": {keys.SLOT: str(slots), keys.GPU: "1"}},
                }
            ],
        },
    }
    return await kube.create(PODS, body)


async def give(stage: Stage, pod: Json) -> str:
    """Grant card A to the pod; returns its uid."""
    uid = pod["metadata"]["uid"]
    grants = grant(pod["metadata"]["name"], A)
    await stage.ledger.add(*(replace(one, uid=PodUid(uid)) for one in grants))
    return str(uid)


def allocatable(node: Json, resource: str) -> str:
    amounts: dict[str, str] = node.get("status", {}).get("allocatable", {})
    return amounts.get(resource, "")


def phase(wanted: str) -> Callable[[Json], bool]:
    return lambda pod: bool(pod["status"].get("phase") == wanted)


async def test_a_bound_pod_runs_with_its_card_and_is_reported_running(stage: Stage) -> None:
    async with cluster(stage) as kube:
        uid = await give(stage, await create(kube, "p"))
        pod = await seen(kube, PODS, "p", phase("Running"))
        assert pod["status"]["containerStatuses"][0]["ready"]
        assert stage.kubelet.containers[uid, "main"].env[keys.ENV_NVIDIA_VISIBLE] == A


async def test_a_pod_without_a_grant_shows_why_it_does_not_start(stage: Stage) -> None:
    async with cluster(stage) as kube:
        await stage.ledger.complete(complete=False)
        pod = await create(kube, "p")
        uid = await give(stage, pod)
        await seen(kube, PODS, "p", phase("Pending"))
        assert (uid, "main") not in stage.kubelet.containers
        await stage.ledger.complete()
        await seen(kube, PODS, "p", phase("Running"))


async def test_a_pod_that_asks_for_too_many_slots_fails_for_good(stage: Stage) -> None:
    async with cluster(stage) as kube:
        await create(kube, "p", slots=65)
        pod = await seen(kube, PODS, "p", phase("Failed"))
        assert pod["status"]["reason"] == "UnexpectedAdmissionError"
        assert "Requested: 65, Available: 64" in pod["status"]["message"]


async def test_a_deleted_pod_ends_before_the_api_forgets_it(stage: Stage) -> None:
    async with cluster(stage) as kube:
        uid = await give(stage, await create(kube, "p"))
        await seen(kube, PODS, "p", phase("Running"))
        await kube.delete(PODS, "p", namespace="default")
        await gone(kube, "p")
        assert (uid, "main") not in stage.kubelet.containers


async def test_a_force_deleted_pod_that_ignores_sigterm_keeps_its_cgroup_for_a_while(stage: Stage) -> None:
    async with cluster(stage) as kube:
        uid = await give(stage, await create(kube, "p", annotations={IGNORES_TERM_FOR_S: "1"}))
        await seen(kube, PODS, "p", phase("Running"))
        await kube.delete(PODS, "p", namespace="default", grace_period_s=0)
        await gone(kube, "p")
        assert list(stage.folders.cgroups.glob(f"kubepods/*/pod{uid}"))
        await stage.occupancy(lambda occupancy: not occupancy.pods_with_cgroups)


async def test_a_pod_that_ends_by_itself_succeeds(stage: Stage) -> None:
    async with cluster(stage) as kube:
        uid = await give(stage, await create(kube, "p", policy="Never", annotations={RUNS_FOR_S: "0.1"}))
        pod = await seen(kube, PODS, "p", phase("Succeeded"))
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert (uid, "main") not in stage.kubelet.containers


async def test_the_node_shows_slots_and_copies_what_others_patched(stage: Stage) -> None:
    async with cluster(stage) as kube:
        node = await seen(kube, NODES, NODE, lambda node: allocatable(node, keys.SLOT) == "64")
        assert node["status"]["capacity"][keys.SLOT] == "64"
        patch = MergePatch({"status": {"capacity": {keys.GPU: "64"}}})
        await kube.patch(NODES, NODE, patch, subresource="status")
        await seen(kube, NODES, NODE, lambda node: allocatable(node, keys.GPU) == "64")
        ready = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert ready[0]["status"] == "True"
