"""Room is promised to pods that exist, and to nobody else, for as long as they do."""

import asyncio

import pytest

from sublet.contract import decision, keys
from sublet.model.reasons import Reason
from sublet.runtime.clock import monotonic_s
from tests.api.deployment import JANE
from tests.api.pods import MERGE, STRATEGIC
from tests.api.scheduler.team import Team, annotations, gates, required_terms
from tests.api.verdicts import assert_allowed
from tests.builders import container, pod
from tests.integration.schedulerstage import cards_of, pinned_to, uid_of

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

A_CARD = container(gpu=1)
NO_PODS = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none"},
    "spec": {"hard": {"pods": "0"}},
}


async def test_server_side_dry_runs_leave_the_last_room_to_the_real_pod(on: Team) -> None:
    node = await on.add_node(1)
    for name in ("first", "second"):
        shown = await on.create(pod(name, A_CARD), dry_run=True)
        assert cards_of(shown)["main"] == (f"{node}-0",)
    real = await on.create(pod("real", A_CARD))
    assert cards_of(real)["main"] == (f"{node}-0",)
    released = await on.released("real")
    assert [grant.uid for grant in (await on.ledger(node)).grants] == [uid_of(released)]


async def test_a_pod_that_the_quota_refuses_keeps_its_room_from_nobody_for_long(on: Team) -> None:
    node = await on.add_node(2)
    await on.apply(NO_PODS)
    counted = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    quota = f"/api/v1/namespaces/{on.name}/resourcequotas/none"
    plane = on.stage.plane
    await plane.call("PATCH", f"{quota}/status", counted, content_type=MERGE)

    async with asyncio.timeout(5):
        while (refused := await on.ask(pod("refused", A_CARD))).ok:
            await on.delete("refused")  # the quota is not in force yet
    assert refused.status == 403
    assert "exceeded quota" in refused.text

    await plane.call("DELETE", quota)
    async with asyncio.timeout(5):
        while not (await on.ask(pod("beside", A_CARD))).ok:
            pass  # nor out of force at once
    await on.create(pod("instead", A_CARD))
    beside, instead = await on.released("beside"), await on.released("instead")
    assert {grant.uid for grant in (await on.ledger(node)).grants} == {uid_of(beside), uid_of(instead)}


async def test_a_pod_whose_name_is_taken_keeps_its_room_from_nobody_for_long(on: Team) -> None:
    node = await on.add_node(2)
    await on.create(pod("taken", A_CARD))
    assert (await on.ask(pod("taken", A_CARD))).status == 409
    await on.create(pod("other", A_CARD))
    await on.released("other")
    assert len((await on.ledger(node)).grants) == 2


async def test_pods_that_end_before_they_are_released_leave_all_room(on: Team) -> None:
    node = await on.add_node(4)
    for at in range(12):
        await on.create(pod(f"brief-{at}", A_CARD))
        await on.delete(f"brief-{at}")
    await on.create(pod("all", container(gpu=4)))
    released = await on.released("all")
    assert {grant.uid for grant in (await on.ledger(node)).grants} == {uid_of(released)}


async def test_a_wish_that_a_user_adds_to_a_held_pod_counts(on: Team) -> None:
    await on.create(pod("p", A_CARD))
    assert_allowed(await on.patch("p", wishing(model="H200"), as_=JANE))
    await on.add_node(2)
    await on.create(pod("other", A_CARD))
    await on.released("other")
    assert gates(await on.get("p")) == [keys.GATE]
    assert_allowed(await on.patch("p", wishing(model="A100"), as_=JANE))
    await on.released("p")


def wishing(*, model: str) -> dict[str, object]:
    return {"metadata": {"annotations": {keys.CARD_MODELS: model}}}


async def test_a_node_selector_that_a_user_adds_to_a_held_pod_counts(on: Team) -> None:
    await on.create(pod("p", A_CARD))
    assert_allowed(await on.patch("p", {"spec": {"nodeSelector": {"example.com/lab": "x"}}}, as_=JANE))
    nodes = [await on.add_node(2), await on.add_node(2)]
    await on.create(pod("other", A_CARD))
    [taken] = pinned_to(await on.released("other"))
    assert gates(await on.get("p")) == [keys.GATE]
    nodes.remove(taken)
    label = {"metadata": {"labels": {"example.com/lab": "x"}}}
    await on.stage.plane.call("PATCH", f"/api/v1/nodes/{nodes[0]}", label, content_type=MERGE)
    assert pinned_to(await on.released("p")) == nodes


async def test_an_answer_waits_for_no_delayed_acknowledgement(on: Team) -> None:
    """Headers and body in two writes would cost 40 ms of every creation."""
    await on.add_node(1)
    took_s: list[float] = []
    for _ in range(15):
        began_s = monotonic_s()
        await on.create(pod("p", A_CARD), dry_run=True)
        took_s.append(monotonic_s() - began_s)
    assert min(took_s) < 0.04


async def test_ten_replicas_without_a_name_are_ten_decisions(on: Team) -> None:
    node = await on.add_node(1)
    replica = pod("", container(gpu_memory=512), owner=("ReplicaSet", "rs-1"))
    replica["metadata"] = {**replica["metadata"], "generateName": "replica-", "name": ""}
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(on.create(replica)) for _ in range(10)]
    for one in asked:
        await on.released(one.result()["metadata"]["name"])
    grants = (await on.ledger(node)).grants
    assert {grant.uid for grant in grants} == {uid_of(one.result()) for one in asked}
    assert len({grant.decision for grant in grants}) == 10


async def test_a_pod_on_a_named_node_gets_its_cards_there(on: Team) -> None:
    await on.add_node(1)
    node = await on.add_node(1)
    created = await on.create(pod("there", A_CARD, nodeName=node))
    assert gates(created) == []
    assert cards_of(created)["main"] == (f"{node}-0",)
    assert annotations(created)[keys.cards_annotation("main")] == f"{node}-0"

    async with asyncio.timeout(8):
        while decision.read(annotations(await on.get("there"))[keys.DECISION]).uid != uid_of(created):
            pass
    assert [grant.uid for grant in (await on.ledger(node)).grants] == [uid_of(created)]


async def test_a_pod_on_a_named_node_without_room_is_refused_with_the_way_out(on: Team) -> None:
    node = await on.add_node(1)
    await on.add_node(1)
    await on.create(pod("there", A_CARD, nodeName=node))
    refused = await on.ask(pod("late", A_CARD, nodeName=node))
    assert refused.status == 403
    for words in (f"spec.nodeName='{node}'", "1 InUse", "Leave spec.nodeName out"):
        assert words in refused.body["message"]


async def test_a_pod_on_a_named_node_that_nobody_serves_is_refused(on: Team) -> None:
    await on.add_node(1)
    refused = await on.ask(pod("lost", A_CARD, nodeName="nowhere"))
    assert refused.status == 403
    assert "spec.nodeName='nowhere' cannot take the pod" in refused.body["message"]


def daemon(name: str, node: str) -> dict[str, object]:
    """A pod as the DaemonSet controller makes it."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod(name, A_CARD, owner=("DaemonSet", "ds-1"), affinity=affinity)


async def test_daemon_set_pods_get_cards_of_their_own_node_or_are_held(on: Team) -> None:
    full, free = await on.add_node(1), await on.add_node(1)
    await on.create(daemon("first", full))
    await on.released("first")
    held = await on.create(daemon("second", full))
    assert "1 InUse" in annotations(held)[keys.WAITING]
    await on.create(daemon("third", free))
    third = await on.released("third")
    assert cards_of(third)["main"] == (f"{free}-0",)
    [term] = required_terms(third)
    assert {field["values"][0] for field in term["matchFields"]} == {free}

    assert gates(await on.get("second")) == [keys.GATE]
    await on.delete("first")
    assert cards_of(await on.released("second"))["main"] == (f"{full}-0",)


async def test_a_pod_behind_a_foreign_gate_is_decided_when_only_ours_is_left(on: Team) -> None:
    node = await on.add_node(1)
    foreign = "example.com/quota"
    created = await on.create(pod("behind", A_CARD, schedulingGates=[{"name": foreign}]))
    assert gates(created) == [foreign, keys.GATE]
    assert decision.read(annotations(created)[keys.DECISION]).placement is None
    assert "gate" in annotations(created)[keys.WAITING]

    await on.create(pod("other", A_CARD))
    await on.released("other")
    assert gates(await on.get("behind")) == [foreign, keys.GATE]
    await on.delete("other")

    lift = {"spec": {"schedulingGates": [{"$patch": "delete", "name": foreign}]}}
    assert_allowed(await on.patch("behind", lift, as_=JANE, kind=STRATEGIC))
    released = await on.released("behind")
    assert pinned_to(released) == [node]
    assert keys.WAITING not in annotations(released)


async def test_what_a_limit_range_adds_is_claimed_and_asked_of_the_node_as_if_written(on: Team) -> None:
    node = await on.add_node(1, cpu="2")
    added = {"cpu": "1", keys.GPU_MEMORY: "2048"}
    limits = [
        {"type": "Container", "default": added, "defaultRequest": {"cpu": "1", keys.GPU_MEMORY: "2048"}}
    ]
    await on.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "some"},
            "spec": {"limits": limits},
        }
    )
    async with asyncio.timeout(5):
        while gates(await on.create(pod("trial", container()), dry_run=True)) != [keys.GATE]:
            pass  # the limit range is not in force yet
    for name in ("one", "two"):
        await on.create(pod(name, container()))
        resources = (await on.released(name))["spec"]["containers"][0]["resources"]
        assert resources["limits"] == {**added, keys.SLOT: "1"}
        assert resources["requests"] == resources["limits"]
    assert [grant.grant.memory_mib for grant in (await on.ledger(node)).grants] == [2048, 2048]
    third = await on.create(pod("three", container()))
    assert Reason.INSUFFICIENT_CPU in annotations(third)[keys.WAITING]
