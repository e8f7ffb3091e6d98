"""What else the scheduler writes to the cluster: totals, stuck pins, Events."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from sublet_scheduler.core.effects import AckRelease, FreeStuckPin, Report, WriteTotals
from sublet_scheduler.core.totals import WRITTEN
from sublet_scheduler.shell.kubeevents import KubeEvents
from sublet_scheduler.shell.nodefacts import read_node
from sublet_scheduler.shell.nodewrites import NodeWrites
from sublet_scheduler.shell.stuckpin import StuckPins

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.demo.apiserver.faults import Cut
from sublet.kube.errors import NotFound
from sublet.kube.kind import EVENTS, JOBS, NODES, PODS
from sublet.kube.port import Json, MergePatch
from sublet.model.ids import NodeName, PodUid
from sublet.model.reasons import ReportCode
from tests.unit.scheduler_shell.cluster import REF, Cluster, cluster

N1 = NodeName("n1")
FOREVER = 10**12


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        await built.kube.create(NODES, {"metadata": {"name": N1}})
        yield built


async def node(on: Cluster) -> Json:
    return await on.kube.get(NODES, N1)


async def test_totals_are_written_into_capacity_and_allocatable_and_noted_as_ours(on: Cluster) -> None:
    written = await NodeWrites(on.kube).totals(WriteTotals(N1, {keys.GPU: 32, keys.GPU_CORE: 200}, label="2"))
    assert written.done
    found = await node(on)
    for part in ("capacity", "allocatable"):
        assert found["status"][part] == {keys.GPU: "32", keys.GPU_CORE: "200"}
    assert found["metadata"]["annotations"][WRITTEN] == f"{keys.GPU},{keys.GPU_CORE}"
    assert found["metadata"]["labels"][keys.CARDS_LABEL] == "2"


async def test_totals_are_taken_back_and_nothing_else(on: Cluster) -> None:
    theirs = {"status": {part: {"cpu": "4", "nvidia.com/gpu": "1"} for part in ("capacity", "allocatable")}}
    await on.kube.patch(NODES, N1, MergePatch(theirs), subresource="status")
    writes = NodeWrites(on.kube)
    await writes.totals(WriteTotals(N1, {keys.GPU: 32}, label="2"))
    assert (await writes.totals(WriteTotals(N1, {}, remove=(keys.GPU,)))).done
    found = await node(on)
    assert found["status"]["allocatable"] == {"cpu": "4", "nvidia.com/gpu": "1"}
    assert WRITTEN not in found["metadata"].get("annotations", {})
    assert keys.CARDS_LABEL not in found["metadata"].get("labels", {})


async def test_an_interrupted_write_leaves_no_total_without_its_note(on: Cluster) -> None:
    on.faults.plan(Cut(after=True), path="/status")
    written = await NodeWrites(on.kube).totals(WriteTotals(N1, {keys.GPU: 32}, label="2"))
    assert not written.done
    assert (await node(on))["metadata"]["annotations"][WRITTEN] == keys.GPU


async def test_an_operators_request_is_taken_off_the_node(on: Cluster) -> None:
    asked = {"metadata": {"annotations": {keys.RELEASE_REQUESTED: "jane"}}}
    await on.kube.patch(NODES, N1, MergePatch(asked))
    await NodeWrites(on.kube).acknowledge(AckRelease(N1))
    assert keys.RELEASE_REQUESTED not in (await node(on))["metadata"].get("annotations", {})


def test_a_node_is_read_with_the_resources_that_we_serve() -> None:
    shown = {"cpu": "3500m", "memory": "2Gi", "pods": "50", keys.SLOT: "64", "example.com/other": "1"}
    status = {
        "capacity": {keys.GPU: "32"},
        "allocatable": shown,
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    spec = {"unschedulable": True, "taints": [{"key": "t", "effect": "NoSchedule"}]}
    metadata = {"name": "n1", "labels": {"a": "b"}, "annotations": {"sublet.dev/x": "1", "y": "2"}}
    raw = json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()
    found = read_node(raw, Options())
    assert (found.cpu_milli, found.memory_mib, found.pods) == (3500, 2048, 50)
    assert (found.capacity, found.allocatable) == ({keys.GPU: 32}, {keys.SLOT: 64})
    assert found.annotations == {"sublet.dev/x": "1"}
    assert (found.ready, found.unschedulable) == (False, True)
    assert found.taints[0].key == "t"


# -- stuck pins


def owned_by(kind: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": kind, "name": "owner", "uid": "o1", "controller": True}]


async def stuck(on: Cluster, owner: str) -> FreeStuckPin:
    """A pod that can be looked at after its deletion."""
    made = await on.admit()
    kept: dict[str, Any] = {"finalizers": ["example.com/keep"]}
    if owner:
        kept["ownerReferences"] = owned_by(owner)
    await on.kube.patch(PODS, "p", MergePatch({"metadata": kept}), namespace="default")
    return FreeStuckPin(PodUid(made["metadata"]["uid"]), REF, owner, "n1 cannot take it")


async def test_a_pod_that_its_job_has_let_go_of_is_left_to_people(on: Cluster) -> None:
    effect = replace(await stuck(on, ""), owner_kind="Job")
    told = await StuckPins(on.kube).free(effect, now_ms=0)
    assert told is not None
    assert told.code is ReportCode.STUCK_PIN


async def job(on: Cluster, **spec: Any) -> None:
    body = {"metadata": {"name": "owner", "namespace": "default"}, "spec": spec}
    await on.kube.create(JOBS, body)


FORGIVING = {
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    }
}


async def test_a_stuck_pod_with_an_owner_is_deleted(on: Cluster) -> None:
    told = await StuckPins(on.kube).free(await stuck(on, "ReplicaSet"), now_ms=FOREVER)
    assert told is not None
    assert told.code == "StuckPinFreed"
    assert (await on.pod())["metadata"]["deletionTimestamp"]


async def test_a_bare_stuck_pod_is_reported_with_the_way_out(on: Cluster) -> None:
    told = await StuckPins(on.kube).free(await stuck(on, ""), now_ms=FOREVER)
    assert told is not None
    assert told.code == "StuckPin"
    assert "delete it" in told.message
    assert "deletionTimestamp" not in (await on.pod())["metadata"]


async def test_a_job_that_does_not_forgive_keeps_its_pod(on: Cluster) -> None:
    await job(on, backoffLimit=3)
    told = await StuckPins(on.kube).free(await stuck(on, "Job"), now_ms=FOREVER)
    assert told is not None
    assert "podFailurePolicy" in told.message
    assert "deletionTimestamp" not in (await on.pod())["metadata"]


async def test_the_pod_of_a_forgiving_job_is_deleted_with_the_condition_that_it_forgives(on: Cluster) -> None:
    await job(on, **FORGIVING)
    told = await StuckPins(on.kube).free(await stuck(on, "Job"), now_ms=FOREVER)
    assert told is not None
    assert told.code == "StuckPinFreed"
    after = await on.pod()
    assert after["metadata"]["deletionTimestamp"]
    [condition] = [one for one in after["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert condition["status"] == "True"


async def test_a_pod_that_its_kubelet_took_meanwhile_is_left_alone(on: Cluster) -> None:
    effect = await stuck(on, "ReplicaSet")
    started = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    await on.kube.patch(PODS, "p", MergePatch(started), namespace="default", subresource="status")
    assert await StuckPins(on.kube).free(effect, now_ms=FOREVER) is None
    assert "deletionTimestamp" not in (await on.pod())["metadata"]


# -- Events


async def events(on: Cluster) -> list[Json]:
    return await on.kube.list(EVENTS)


async def test_what_repeats_is_counted_in_one_event_also_after_a_restart(on: Cluster) -> None:
    report = Report(ReportCode.STUCK_PIN, "stuck", ref=REF, uid=PodUid("u1"))
    first = KubeEvents(on.kube)
    for _ in range(2):
        await first.tell(report, at_ms=1_000_000)
    [event] = await events(on)
    assert (event["reason"], event["type"], event["count"]) == ("StuckPin", "Warning", 2)
    assert event["involvedObject"]["uid"] == "u1"
    await KubeEvents(on.kube).tell(report, at_ms=2_000_000)
    assert len(await events(on)) == 1


async def test_an_event_about_a_node_lies_where_kubectl_looks_for_it(on: Cluster) -> None:
    await KubeEvents(on.kube).tell(Report(ReportCode.NODE_RELEASED, "n1 is off", node=N1), at_ms=1_000_000)
    [event] = await events(on)
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": N1, "uid": N1}
    assert event["type"] == "Normal"


async def test_a_report_about_nothing_in_the_cluster_makes_no_event(on: Cluster) -> None:
    await KubeEvents(on.kube).tell(Report(ReportCode.STUCK_PIN, "something"), at_ms=1_000_000)
    with pytest.raises(NotFound):
        await on.kube.get(EVENTS, "odd", namespace="default")
    assert not await events(on)
