"""The queue and the namespaces' quotas, from the API server to the ledger."""

from collections.abc import AsyncIterator

import pytest

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import keys
from sublet.kube.kind import POD_DISRUPTION_BUDGETS, PODS, RESOURCE_QUOTAS
from sublet.kube.port import MergePatch
from tests.builders import cards, container, pod
from tests.eventually import eventually
from tests.integration.schedulerstage import Stage, stage, uid_of


@pytest.fixture
async def on() -> AsyncIterator[Stage]:
    async with stage(MemoryBus(LAYOUT)) as built:
        yield built


async def test_what_waits_is_served_by_priority_and_then_by_age(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    async with on.scheduler():
        await on.until_totals("n1")
        await on.create(pod("first", container(gpu=1)))
        await on.released("first")
        await on.create(pod("older", container(gpu=1)))
        await on.create(pod("higher", container(gpu=1), priority=100))
        await on.delete("first")
        await on.released("higher")
        assert on.is_gated("older")
        await on.delete("higher")
        await on.released("older")


async def test_a_quota_holds_a_pod_with_the_numbers_until_it_is_raised(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 2))
    meta = {"name": "cards", "namespace": "default"}
    await on.kube.create(RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": {keys.LIMIT_MEMORY: "5000"}}})
    async with on.scheduler():
        await on.until_totals("n1")
        held = await on.create(pod("two", container(gpu=2, gpu_memory=3000)))
        waiting = held["metadata"]["annotations"][keys.WAITING]
        assert "allows 5000 MiB of card memory: 0 are held and 6000 are asked for" in waiting
        await on.create(pod("small", container(gpu_memory=5000)))
        await on.released("small")
        raised = MergePatch({"spec": {"hard": {keys.LIMIT_MEMORY: "11k"}}})
        await on.kube.patch(RESOURCE_QUOTAS, "cards", raised, namespace="default")
        await on.released("two")


async def test_a_gang_is_released_when_all_its_pods_are_there_and_fit(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 1))
    await on.add_node("n2", *cards("n2", 1))
    together = {keys.GANG: "train", keys.GANG_SIZE: "2"}
    async with on.scheduler():
        for node in ("n1", "n2"):
            await on.until_totals(node)
        held = await on.create(pod("rank-0", container(gpu=1), annotations=together))
        assert "pods of its gang are missing" in held["metadata"]["annotations"][keys.WAITING]
        await on.create(pod("alone", container(gpu=1)))
        await on.released("alone")
        await on.create(pod("rank-1", container(gpu=1), annotations=together))
        assert on.is_gated("rank-0")
        await on.delete("alone")
        await on.released("rank-0")
        await on.released("rank-1")


async def test_a_higher_priority_evicts_as_far_as_disruption_budgets_allow(on: Stage) -> None:
    await on.add_node("n1", *cards("n1", 2))
    async with on.scheduler():
        await on.until_totals("n1")
        for name in ("guarded", "free"):
            made = pod(name, container(gpu=1))
            made["metadata"]["labels"] = {"app": name}
            await on.create(made)
            await on.released(name)
            await on.kube.create(
                PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name, "namespace": "default"},
                    "target": {"kind": "Node", "name": "n1"},
                },
                name=name,
                subresource="binding",
            )
            running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await on.kube.patch(
                PODS, name, MergePatch({"status": running}), namespace="default", subresource="status"
            )
        budget = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
        await on.kube.create(POD_DISRUPTION_BUDGETS, budget)
        held = await on.create(pod("high", container(gpu=1), priority=1000))
        assert held["metadata"]["annotations"][keys.WAITING]
        await eventually(lambda: "deletionTimestamp" in on.pod("free")["metadata"])
        await on.delete("free")
        await on.until_ledger("n1", lambda entry: any(one.state == "ending" for one in entry.grants))
        await on.say_occupied("n1", uid_of(on.pod("guarded")))
        await on.released("high")
        assert "deletionTimestamp" not in on.pod("guarded")["metadata"]
