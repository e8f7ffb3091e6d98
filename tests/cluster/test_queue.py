"""Gangs, quotas and preemption as users meet them, with real kubelets, kube-scheduler and controllers."""

import uuid
from collections.abc import AsyncIterator

import pytest

from sublet.contract import keys
from tests.cluster.proofs import proves
from tests.cluster.stage import Namespace, container, pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
async def important(place: Namespace) -> AsyncIterator[str]:
    name = f"important-{uuid.uuid4().hex[:6]}"
    await place.stage.create(CLASSES, {"metadata": {"name": name}, "value": 1000})
    yield name
    await place.stage.plane.call("DELETE", f"{CLASSES}/{name}")


async def test_a_gang_starts_when_all_its_pods_are_there(place: Namespace) -> None:
    together = {keys.GANG: "train", keys.GANG_SIZE: "2"}
    for rank in range(2):
        body = pod(f"rank-{rank}", container(gpu=1))
        body["metadata"]["annotations"] = together
        await place.create(body)
        if rank == 0:
            await place.waits("rank-0", "pods of its gang are missing")
    assert await proves(place, "rank-0") != await proves(place, "rank-1")


async def test_a_quota_counts_every_card_of_a_claim(place: Namespace) -> None:
    quota = {"metadata": {"name": "cards"}, "spec": {"hard": {keys.LIMIT_MEMORY: "3000"}}}
    path = f"/api/v1/namespaces/{place.name}/resourcequotas"
    await place.stage.create(path, quota)
    await place.create(pod("small", container(gpu_memory=2048)))
    await proves(place, "small")
    await place.create(pod("two", container(gpu=2, gpu_memory=1024)))
    await place.waits("two", "2048 are held and 2048 are asked for")
    await place.delete("small")
    assert len(await proves(place, "two")) == 2


async def test_a_higher_priority_takes_the_cards_of_the_pod_that_no_budget_guards(
    place: Namespace, important: str
) -> None:
    node = place.stage.nodes[0]
    for name in ("guarded", "free"):
        body = pod(name, container(gpu=2), node=node)
        body["metadata"]["labels"] = {"app": name}
        await place.create(body)
        await place.running(name)
    budget = {
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    await place.stage.create(f"/apis/policy/v1/namespaces/{place.name}/poddisruptionbudgets", budget)
    await place.create(pod("high", container(gpu=2), node=node, priorityClassName=important))
    assert len(await proves(place, "high")) == 2
    guarded = await place.get("guarded")
    assert guarded is not None
    assert "deletionTimestamp" not in guarded["metadata"]
    assert await place.get("free") is None
