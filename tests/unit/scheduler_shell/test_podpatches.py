"""Guarded patches: one PATCH, and after anything but a clear yes the pod itself says what came of it."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sublet_scheduler.core.effects import FindPod
from sublet_scheduler.core.events import PatchRefused, PatchUnclear, PodFound, PodPatched

from sublet.contract import keys
from sublet.demo.apiserver.faults import Answer, Cut
from sublet.kube.kind import PODS
from sublet.kube.port import JsonPatch, MergePatch
from sublet.model.ids import PodUid
from tests.unit.scheduler_shell.cluster import REF, Cluster, cluster, release, wait

BUSY = Answer(code=429, headers={"Retry-After": "0"})


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        yield built


async def test_a_release_pins_writes_and_lifts_our_gate_in_one_patch(on: Cluster) -> None:
    made = await on.admit(schedulingGates=[{"name": "example.com/other"}])
    told = await on.patches.perform(release(made))
    assert isinstance(told, PodPatched)
    assert told.done
    assert told.pod is not None
    assert told.pod.signed
    assert not told.pod.gated
    after = await on.pod()
    assert after["spec"]["schedulingGates"] == [{"name": "example.com/other"}]
    assert after["metadata"]["annotations"][keys.cards_annotation("main")] == "n1-0"
    assert keys.WAITING not in after["metadata"]["annotations"]


async def test_a_release_for_an_older_version_changes_nothing(on: Cluster) -> None:
    made = await on.admit()
    await on.kube.patch(PODS, "p", MergePatch({"metadata": {"labels": {"a": "b"}}}), namespace="default")
    told = await on.patches.perform(release(made))
    assert isinstance(told, PodPatched)
    assert not told.done
    assert told.pod is not None
    assert told.pod.gated
    assert told.pod.version != made["metadata"]["resourceVersion"]


async def test_a_release_whose_answer_was_lost_is_recognised_by_what_the_pod_carries(on: Cluster) -> None:
    made = await on.admit()
    on.faults.plan(Cut(after=True), method="PATCH")
    told = await on.patches.perform(release(made))
    assert isinstance(told, PodPatched)
    assert told.done


async def test_a_release_that_never_arrived_is_told_as_not_done(on: Cluster) -> None:
    made = await on.admit()
    on.faults.plan(Cut(), method="PATCH")
    told = await on.patches.perform(release(made))
    assert isinstance(told, PodPatched)
    assert not told.done


async def test_a_release_sent_twice_is_done_both_times(on: Cluster) -> None:
    made = await on.admit()
    for _ in range(2):
        told = await on.patches.perform(release(made))
        assert isinstance(told, PodPatched)
        assert told.done


async def test_a_patch_of_a_pod_that_cannot_be_read_is_unclear(on: Cluster) -> None:
    effect = release(await on.admit())
    on.faults.plan(Answer(code=503), method="GET")
    assert await on.patches.perform(effect) == PatchUnclear(effect.uid)


async def test_a_server_that_asks_for_patience_makes_it_unclear(on: Cluster) -> None:
    effect = release(await on.admit())
    on.faults.plan(BUSY, method="PATCH")
    assert await on.patches.perform(effect) == PatchUnclear(effect.uid)


@pytest.mark.parametrize("code", [403, 422])
async def test_a_refusal_of_an_unchanged_pod_is_final(on: Cluster, code: int) -> None:
    made = await on.admit()
    on.faults.plan(Answer(code=code, body=b'{"message":"a policy says no"}'), method="PATCH")
    told = await on.patches.perform(release(made))
    assert isinstance(told, PatchRefused)
    assert "a policy says no" in told.message


async def test_a_pod_that_is_gone_or_another_of_its_name_is_told_as_gone(on: Cluster) -> None:
    made = await on.admit()
    another = replace(release(made), uid=PodUid("another"))
    assert await on.patches.perform(another) == PodPatched(another.uid, done=False, pod=None)
    await on.kube.delete(PODS, "p", namespace="default", grace_period_s=0)
    effect = release(made)
    assert await on.patches.perform(effect) == PodPatched(effect.uid, done=False, pod=None)


async def test_a_pod_that_only_the_ledger_told_of_is_looked_for_by_uid(on: Cluster) -> None:
    made = await on.admit()
    uid = PodUid(made["metadata"]["uid"])
    told = await on.patches.find(FindPod(uid, REF))
    assert told is not None
    assert told.pod is not None
    assert told.pod.gated
    assert await on.patches.find(FindPod(PodUid("another"), REF)) == PodFound(PodUid("another"), None)
    await on.kube.delete(PODS, "p", namespace="default", grace_period_s=0)
    assert await on.patches.find(FindPod(uid, REF)) == PodFound(uid, None)


async def test_a_pod_that_could_not_be_looked_for_may_be_there(on: Cluster) -> None:
    made = await on.admit()
    on.faults.plan(BUSY, method="GET")
    assert await on.patches.find(FindPod(PodUid(made["metadata"]["uid"]), REF)) is None


async def test_back_to_waiting_makes_every_older_release_fail(on: Cluster) -> None:
    made = await on.admit()
    told = await on.patches.perform(wait(made, "its card was closed"))
    assert isinstance(told, PodPatched)
    assert told.done
    assert told.pod is not None
    assert told.pod.waiting == "its card was closed"
    late = await on.patches.perform(release(made))
    assert isinstance(late, PodPatched)
    assert not late.done


async def test_a_fence_whose_answer_was_lost_is_recognised_unless_the_gate_is_gone(on: Cluster) -> None:
    made = await on.admit()
    on.faults.plan(Cut(after=True), method="PATCH")
    told = await on.patches.perform(wait(made))
    assert isinstance(told, PodPatched)
    assert told.done
    await on.kube.patch(
        PODS, "p", JsonPatch([{"op": "remove", "path": "/spec/schedulingGates/0"}]), namespace=REF.namespace
    )
    again = await on.patches.perform(wait(made))
    assert isinstance(again, PodPatched)
    assert not again.done
