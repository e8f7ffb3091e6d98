"""Evictions for a higher priority: all or none that can be told beforehand, and never past a budget."""

from collections.abc import AsyncIterator

import pytest
from sublet_scheduler.core.effects import EvictPods
from sublet_scheduler.core.events import EvictionsRefused
from sublet_scheduler.shell.evictions import Evictions

from sublet.demo.apiserver.faults import Answer
from sublet.kube.kind import POD_DISRUPTION_BUDGETS, PODS
from sublet.kube.port import Json, MergePatch
from sublet.model.ids import PodRef, PodUid
from sublet.model.reasons import ReportCode
from tests.unit.scheduler_shell.cluster import Cluster, cluster

HIGH = PodUid("high")


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        yield built


async def running(on: Cluster, name: str) -> tuple[PodUid, PodRef]:
    """A pod that stays to be looked at after its deletion."""
    meta = {"name": name, "namespace": "default", "labels": {"app": name}, "finalizers": ["example.com/keep"]}
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "app"}]}
    made = await on.kube.create(PODS, {"metadata": meta, "spec": spec})
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await on.kube.patch(PODS, name, MergePatch(status), namespace="default", subresource="status")
    return PodUid(made["metadata"]["uid"]), PodRef("default", name)


async def guard(on: Cluster, name: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    body = {"metadata": {"name": "budget", "namespace": "default"}, "spec": spec}
    await on.kube.create(POD_DISRUPTION_BUDGETS, body)


async def is_going(on: Cluster, name: str) -> bool:
    found: Json = await on.kube.get(PODS, name, namespace="default")
    return "deletionTimestamp" in found["metadata"]


def asked(*victims: tuple[PodUid, PodRef]) -> EvictPods:
    return EvictPods(HIGH, PodRef("default", "high"), victims, "default/high needs it")


async def test_all_victims_go_and_are_told_why(on: Cluster) -> None:
    one, two = await running(on, "one"), await running(on, "two")
    told, refused = await Evictions(on.kube).perform(asked(one, two))
    assert refused is None
    assert [(report.code, report.uid) for report in told] == [
        (ReportCode.PREEMPTED, one[0]),
        (ReportCode.PREEMPTED, two[0]),
    ]
    assert await is_going(on, "one")
    assert await is_going(on, "two")


async def test_where_one_may_not_go_nobody_does(on: Cluster) -> None:
    one, two = await running(on, "one"), await running(on, "two")
    await guard(on, "two")
    told, refused = await Evictions(on.kube).perform(asked(one, two))
    assert (told, refused) == ((), EvictionsRefused(HIGH, (two[0],)))
    assert not await is_going(on, "one")


async def test_a_pod_that_is_gone_or_another_by_now_needs_no_eviction(on: Cluster) -> None:
    _, ref = await running(on, "one")
    told, refused = await Evictions(on.kube).perform(
        asked((PodUid("older"), ref), (PodUid("x"), PodRef("default", "gone")))
    )
    assert refused is None
    assert not await is_going(on, "one")
    assert len(told) <= 2


async def test_without_an_answer_the_pod_counts_as_staying(on: Cluster) -> None:
    one = await running(on, "one")
    on.faults.plan(Answer(code=500), path="/eviction", times=10)
    told, refused = await Evictions(on.kube).perform(asked(one))
    assert (told, refused) == ((), EvictionsRefused(HIGH, (one[0],)))
