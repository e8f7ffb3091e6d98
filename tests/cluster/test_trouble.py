"""Restarts, outages and races on real kubelets: no wrong card, no double booking, nothing stuck."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sublet.contract import keys
from tests.cluster.proofs import cgroups_of, decided, proves
from tests.cluster.slowlink import slow_link
from tests.cluster.stage import CARDS_A_NODE, Namespace, Stage, agent_name, container, pod
from tests.lab.programs import LabError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(420)]

CRASHING = "sleep 2; exit 1"
STUBBORN = "trap '' TERM; while true; do sleep 1; done"


def whole_node(name: str, stage: Stage, command: str = "exec sleep 3600", **spec: Any) -> dict[str, Any]:
    """A pod that takes every card of the first node."""
    return pod(name, container("main", command, gpu=CARDS_A_NODE), node=stage.nodes[0], **spec)


@pytest.fixture
async def slow_watch(stage: Stage) -> AsyncIterator[None]:
    """The first node's agent hears everything on the bus half a second late."""
    node = stage.nodes[0]
    async with slow_link(stage.nats_port, delay_s=0.25) as port:
        await stage.restart_agent(node, SUBLET_NATS_URL=f"nats://127.0.0.1:{port}")
        yield
        await stage.stop(agent_name(node))
    stage.start_agent(node)
    await stage.ready(agent_name(node))


@pytest.mark.usefixtures("slow_watch")
async def test_a_statefulset_pod_that_comes_back_fifty_times_never_gets_its_predecessors_cards(
    stage: Stage, place: Namespace
) -> None:
    template = pod("x", container(gpu_memory=3072), node=stage.nodes[0])
    labels = {"app": "web"}
    spec = {
        "serviceName": "web",
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
    }
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec}
    await stage.create(f"/apis/apps/v1/namespaces/{place.name}/statefulsets", body)
    seen: set[str] = set()
    for _ in range(50):

        async def another() -> bool:
            found = await place.get("web-0")
            return found is not None and found["metadata"]["uid"] not in seen

        await stage.until("another web-0", another)
        await proves(place, "web-0")
        found = await place.get("web-0")
        assert found is not None
        seen.add(found["metadata"]["uid"])
        await place.delete("web-0", grace_s=1)
    path = f"/apis/apps/v1/namespaces/{place.name}/statefulsets/web"
    await stage.plane.call("DELETE", path, {"propagationPolicy": "Background"})


async def test_nobody_gets_a_card_before_a_force_deleted_container_is_gone(
    stage: Stage, place: Namespace
) -> None:
    await place.create(whole_node("stubborn", stage, STUBBORN, terminationGracePeriodSeconds=20))
    found = await place.running("stubborn")
    await place.create(whole_node("next", stage))
    await place.waits("next", "InUse")
    await place.delete("stubborn", grace_s=0)
    started = time.monotonic()
    while "schedulingGates" in ((await place.get("next")) or {"spec": {}})["spec"]:
        assert time.monotonic() - started < 90, "never released"
        await asyncio.sleep(0.05)
    assert not cgroups_of(found["metadata"]["uid"])
    await proves(place, "next")


async def test_pods_outlive_a_restart_of_kubelet_and_agent(stage: Stage, place: Namespace) -> None:
    node = stage.nodes[0]
    await place.create(pod("before", container(gpu_memory=2048), node=node))
    cards = await proves(place, "before")
    await node.stop_kubelet()
    await node.start_kubelet()
    await stage.restart_agent(node)

    async def offered() -> bool:
        return await stage.slots(node) >= CARDS_A_NODE * 16

    await stage.until("slots are offered again", offered)
    assert await proves(place, "before") == cards
    assert await place.restarts("before") == 0
    await place.create(pod("after", container(gpu_memory=2048), node=node))
    await proves(place, "after")


async def test_an_agent_that_is_away_between_allocation_and_start_lets_the_pod_wait(
    stage: Stage, place: Namespace
) -> None:
    node = stage.nodes[0]
    slow = {**container("slow", "sleep 5"), "resources": {}}
    await place.create(pod("halfway", container(gpu_memory=1024), node=node, initContainers=[slow]))

    async def initialising() -> bool:
        found = await place.get("halfway") or {}
        statuses = found.get("status", {}).get("initContainerStatuses", ())
        return any("running" in one["state"] for one in statuses)

    await stage.until("halfway is initialising", initialising)
    await stage.kill(agent_name(node))  # after Allocate, before PreStartContainer

    async def refused() -> bool:
        found = await place.get("halfway") or {}
        statuses = found.get("status", {}).get("containerStatuses", ())
        return any(
            "waiting" in one["state"] and "Error" in one["state"]["waiting"]["reason"] for one in statuses
        )

    await stage.until("the kubelet waits for the agent", refused)
    stage.start_agent(node)
    await proves(place, "halfway")


async def test_a_container_restarts_while_the_bus_is_away(stage: Stage, place: Namespace) -> None:
    await place.create(pod("crashing", container("main", CRASHING, gpu_memory=1024)))
    await place.running("crashing")
    before = await place.get("crashing")
    assert before is not None
    await stage.kill("nats")
    restarts = await place.restarts("crashing")

    async def again() -> bool:
        return await place.restarts("crashing") > restarts

    await stage.until("crashing was restarted", again, within_s=60)
    await place.running("crashing")
    assert (await place.environ("crashing"))[keys.ENV_NVIDIA_VISIBLE] == decided(before)["main"][0]["card"]
    stage.start_nats()
    await place.create(pod("afterwards", container(gpu_memory=1024)))
    await proves(place, "afterwards")


async def test_gpu_pods_are_held_while_the_bus_is_away_and_placed_when_it_is_back(
    stage: Stage, place: Namespace
) -> None:
    await stage.kill("nats")
    await place.create(pod("held", container(gpu_memory=1024)))
    await place.create(pod("plain", {**container(), "resources": {}}))
    await place.running("plain")
    found = await place.get("held")
    assert found is not None
    assert found["spec"]["schedulingGates"] == [{"name": keys.GATE}]
    assert keys.WAITING in found["metadata"]["annotations"]
    stage.start_nats()
    await proves(place, "held")


async def test_without_the_webhook_other_pods_run_and_gpu_pods_are_refused_clearly(
    stage: Stage, place: Namespace
) -> None:
    await stage.stop("sublet-scheduler")
    try:
        await place.create(pod("plain", {**container(), "resources": {}}))
        await place.running("plain")
        with pytest.raises(LabError, match=r"claims.sublet.dev"):
            await place.create(pod("claiming", container(gpu_memory=1024)))
    finally:
        stage.start_scheduler()
        await stage.ready("sublet-scheduler")
    await place.create(pod("claiming", container(gpu_memory=1024)))
    await proves(place, "claiming")


async def test_a_scheduler_killed_under_load_loses_and_doubles_nothing(
    stage: Stage, place: Namespace
) -> None:
    names: list[str] = []

    async def create(name: str) -> None:
        while True:  # what a controller does: try again while the webhook is away
            try:
                await place.create(pod(name, container(gpu_memory=2048)))
                return
            except LabError as error:
                if "claims.sublet.dev" not in str(error):
                    raise
                await asyncio.sleep(0.2)

    for round_ in range(6):
        async with asyncio.TaskGroup() as group:
            for at in range(4):
                names.append(f"p{round_}-{at}")
                group.create_task(create(names[-1]))
            await asyncio.sleep(0.05 + 0.11 * round_)
            await stage.kill("sublet-scheduler")
            stage.start_scheduler()
    await stage.ready("sublet-scheduler")
    used: dict[str, int] = {}
    for name in names:
        for card in await proves(place, name):
            used[card] = used.get(card, 0) + 2048
    assert all(memory <= 10_240 for memory in used.values())


async def test_a_node_that_was_deleted_comes_back_with_its_totals(stage: Stage, place: Namespace) -> None:
    node = stage.nodes[1]
    await stage.plane.call("DELETE", f"/api/v1/nodes/{node.name}")
    await node.stop_kubelet()
    await node.start_kubelet()

    async def totals() -> bool:
        body = (await stage.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
        return int(body["status"]["allocatable"].get(keys.GPU_MEMORY, 0)) > 0

    await stage.until("totals are back", totals)
    await place.create(pod("again", container(gpu_memory=1024), node=node))
    await proves(place, "again")


async def test_totals_that_were_removed_by_hand_come_back(stage: Stage) -> None:
    node = stage.nodes[1]
    path = f"/api/v1/nodes/{node.name}/status"
    gone = [
        {"op": "remove", "path": f"/status/{where}/{keys.GPU_MEMORY.replace('/', '~1')}"}
        for where in ("capacity", "allocatable")
    ]
    answer = await stage.plane.call("PATCH", path, gone, content_type="application/json-patch+json")
    assert answer.ok, answer.text

    async def back() -> bool:
        body = (await stage.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
        return int(body["status"]["allocatable"].get(keys.GPU_MEMORY, 0)) > 0

    await stage.until("totals are back", back)


async def test_forged_annotations_are_refused_or_without_effect(stage: Stage, place: Namespace) -> None:
    forged = pod("forged", container(gpu_memory=1024))
    forged["metadata"]["annotations"] = {keys.cards_annotation("main"): "GPU-stolen"}
    with pytest.raises(LabError, match="ReservedKey"):
        await place.create(forged)

    await place.create(pod("honest", container(gpu_memory=1024)))
    cards = await proves(place, "honest")
    patch = {"metadata": {"annotations": {keys.cards_annotation("main"): "GPU-stolen"}}}
    for subresource in ("", "/status"):
        answer = await stage.plane.call(
            "PATCH", f"{place.path}/honest{subresource}", patch, content_type="application/merge-patch+json"
        )
        assert not answer.ok, answer.text
    assert await proves(place, "honest") == cards
    document = json.loads(((await place.get("honest")) or {})["metadata"]["annotations"][keys.DECISION])
    assert document["mac"]
