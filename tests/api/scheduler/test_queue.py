"""Queue, quotas, gangs and preemption with a real API server, real priorities and the deployment's rights."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sublet.contract import gangs, keys
from tests.api.pods import MERGE
from tests.api.scheduler.stage import Json
from tests.api.scheduler.team import Team, annotations, gates
from tests.builders import container, pod
from tests.integration.schedulerstage import pinned_to, until

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

A_CARD = container(gpu=1)
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
async def important(on: Team) -> AsyncIterator[str]:
    """The name of a PriorityClass above all others of users."""
    async with priority_class(on, "PreemptLowerPriority") as name:
        yield name


@pytest.fixture
async def polite(on: Team) -> AsyncIterator[str]:
    """The same, for pods that evict nobody."""
    async with priority_class(on, "Never") as name:
        yield name


@asynccontextmanager
async def priority_class(on: Team, policy: str) -> AsyncIterator[str]:
    name = f"important-{uuid.uuid4().hex[:6]}"
    body = {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": policy}
    assert (await on.stage.plane.call("POST", CLASSES, body)).ok
    yield name
    await on.stage.plane.call("DELETE", f"{CLASSES}/{name}")


def quota(**hard: str) -> Json:
    spec = {
        "hard": {f"{keys.LIMIT_PREFIX}{keys.PREFIX}{key.replace('_', '-')}": v for key, v in hard.items()}
    }
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cards"}, "spec": spec}


async def runs(on: Team, name: str, node: str, **labels: str) -> None:
    """A released pod that somebody bound and that is Ready."""
    manifest = pod(name, A_CARD)
    manifest["metadata"]["labels"] = labels
    await on.create(manifest)
    await on.released(name)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    assert (await on.stage.plane.call("POST", f"{on.path(name)}/binding", binding)).ok
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert (await on.patch(name, {"status": ready}, kind=MERGE, of="status")).ok


async def test_our_keys_in_a_quota_hold_a_pod_and_let_it_go(on: Team) -> None:
    await on.add_node(2)
    await on.apply(quota(gpu_memory="5000"))
    plane, path = on.stage.plane, f"/api/v1/namespaces/{on.name}/resourcequotas/cards"
    shape = pod("probe", container(gpu=2, gpu_memory=3000))

    async def in_force() -> bool:
        shown = await on.create(shape, dry_run=True)
        return "NamespaceLimit" in annotations(shown).get(keys.WAITING, "")

    await until(in_force)
    held = await on.create(pod("two", container(gpu=2, gpu_memory=3000)))
    assert (
        "allows 5000 MiB of card memory: 0 are held and 6000 are asked for" in annotations(held)[keys.WAITING]
    )
    raised = {"spec": {"hard": {keys.LIMIT_MEMORY: "6000"}}}
    assert (await plane.call("PATCH", path, raised, content_type=MERGE)).ok
    await on.released("two")


async def test_a_higher_priority_is_served_first(on: Team, polite: str) -> None:
    await on.add_node(1)
    await on.create(pod("first", A_CARD))
    await on.released("first")
    await on.create(pod("older", A_CARD))
    await on.create(pod("higher", A_CARD, priorityClassName=polite))
    assert "deletionTimestamp" not in (await on.get("first"))["metadata"]
    await on.delete("first")
    await on.released("higher")
    assert keys.GATE in gates(await on.get("older"))


def lws(name: str, group: str) -> Json:
    made = pod(name, A_CARD, annotations={gangs.LWS_SIZE: "2"})
    made["metadata"]["labels"] = {gangs.LWS_NAME: "vllm", gangs.LWS_GROUP: group}
    return made


def jobset(name: str) -> Json:
    made = pod(name, A_CARD, annotations={keys.GANG_SIZE: "2"})
    made["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "train"}
    return made


async def test_groups_of_a_leader_worker_set_come_whole(on: Team) -> None:
    nodes = [await on.add_node(1), await on.add_node(1)]
    for name, group in (("a-0", "0"), ("b-0", "1"), ("b-1", "1")):
        await on.create(lws(name, group))
    placed = [pinned_to(await on.released(name)) for name in ("b-0", "b-1")]
    await on.create(lws("a-1", "0"))
    assert sorted(placed) == sorted([[node] for node in nodes])
    assert keys.GATE in gates(await on.get("a-0"))
    assert keys.GATE in gates(await on.get("a-1"))


async def test_a_job_set_with_our_size_comes_whole(on: Team) -> None:
    await on.add_node(2)
    await on.create(jobset("train-0"))
    await on.create(pod("alone", container(gpu_memory=1024)))
    await on.released("alone")
    assert keys.GATE in gates(await on.get("train-0"))
    await on.delete("alone")
    await on.create(jobset("train-1"))
    for name in ("train-0", "train-1"):
        await on.released(name)


async def test_a_pod_of_higher_priority_evicts_whom_no_budget_guards(on: Team, important: str) -> None:
    node = await on.add_node(2)
    await runs(on, "guarded", node, app="guarded")
    await runs(on, "free", node, app="free")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": spec,
    }
    await on.apply(budget)
    await on.create(pod("high", A_CARD, priorityClassName=important))

    async def is_going() -> bool:
        return "deletionTimestamp" in (await on.get("free"))["metadata"]

    await until(is_going, within_s=10)
    await on.delete("free")

    async def is_ending() -> bool:
        return any(grant.state == "ending" for grant in (await on.ledger(node)).grants)

    await until(is_ending)
    await on.say_nothing_runs(node)
    await on.released("high")
    assert "deletionTimestamp" not in (await on.get("guarded"))["metadata"]
