"""What healthd does beyond verdicts where a setting asks for it: evictions, device taints, marks."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest_asyncio
from sublet_healthd.core.marking import card_labels
from sublet_healthd.shell.devicetaints import DeviceTaints
from sublet_healthd.shell.evictions import Evictions
from sublet_healthd.shell.marks import Marks
from sublet_healthd.shell.nodemarks import NodeMarks

from sublet.demo.apiserver.server import serve_api
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import (
    CONFIGMAPS,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_SLICES,
)
from sublet.kube.port import MergePatch, Selection
from sublet.model.card import Partition, Vendor
from sublet.model.ids import PodUid
from tests.builders import card
from tests.unit.healthd.words import COMPLETE, NODE, A, Clocked, grant, inventory, ledger, sees, xid


@pytest_asyncio.fixture
async def kube() -> AsyncIterator[KubeClient]:
    async with AsyncExitStack() as held:
        api = await held.enter_async_context(serve_api())
        client = await held.enter_async_context(open_client(api.access))
        await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        for name in ("default", "kube-system"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            if not any(one["metadata"]["name"] == name for one in await client.list(NAMESPACES)):
                await client.create(NAMESPACES, body)
        yield client


async def make_pod(kube: KubeClient, *, owned: bool = True) -> PodUid:
    meta: dict[str, Any] = {"name": "p", "namespace": "default", "labels": {"app": "p"}}
    if owned:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
        meta["ownerReferences"] = [owner]
    spec = {"containers": [{"name": "main", "image": "i"}]}
    pod = await kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    status = pod | {"status": {"phase": "Running"}}
    await kube.update(PODS, status, subresource="status")
    return PodUid(pod["metadata"]["uid"])


def condemned(uid: PodUid) -> Clocked:
    """Card A has an XID 48 and a grant of pod default/p."""
    judge = Clocked()
    held = replace(grant(A), uid=uid)
    judge.at(0, COMPLETE, inventory(0, A), ledger(1, grants=(held,)), xid(1, 48))
    return judge


async def evicted(kube: KubeClient, judge: Clocked) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    await Evictions(kube, judge.engine, counted=lambda outcome: outcomes.update([outcome])).once()
    return outcomes


async def test_a_pod_on_a_condemned_card_is_evicted(kube: KubeClient) -> None:
    judge = condemned(await make_pod(kube))
    assert await evicted(kube, judge) == {"evicted": 1}
    [pod] = await kube.list(PODS) or [{"metadata": {"deletionTimestamp": "gone"}}]
    assert pod["metadata"].get("deletionTimestamp")


async def test_a_disruption_budget_is_respected(kube: KubeClient) -> None:
    judge = condemned(await make_pod(kube))
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "p"}}},
    }
    await kube.create(POD_DISRUPTION_BUDGETS, budget)
    assert await evicted(kube, judge) == {"budget": 1}


async def test_a_pod_that_nobody_would_make_again_and_another_of_the_same_name_stay(kube: KubeClient) -> None:
    judge = condemned(await make_pod(kube, owned=False))
    assert await evicted(kube, judge) == {"unowned": 1}
    assert await evicted(kube, condemned(PodUid("earlier"))) == {"gone": 1}


async def test_nothing_is_evicted_from_a_card_that_takes_shares(kube: KubeClient) -> None:
    judge = condemned(await make_pod(kube))
    judge.at(10, sees(10, "reset"))
    assert await evicted(kube, judge) == {}


async def test_a_card_that_a_dra_driver_lists_gets_a_taint_rule_and_loses_it_when_it_is_back(
    kube: KubeClient,
) -> None:
    devices = [{"name": "gpu-0", "attributes": {"uuid": {"string": A}}}]
    spec = {"driver": "gpu.nvidia.com", "pool": {"name": NODE}, "devices": devices}
    meta = {"name": "s"}
    api = RESOURCE_SLICES.api_version
    await kube.create(
        RESOURCE_SLICES, {"apiVersion": api, "kind": "ResourceSlice", "metadata": meta, "spec": spec}
    )
    foreign = {"metadata": {"name": "theirs"}, "spec": {"taint": {"key": "x", "effect": "NoSchedule"}}}
    rule = {"apiVersion": DEVICE_TAINT_RULES.api_version, "kind": "DeviceTaintRule"} | foreign
    await kube.create(DEVICE_TAINT_RULES, rule)
    judge = condemned(PodUid("u"))
    taints = DeviceTaints(kube, judge.engine, effect="NoSchedule")
    for _ in range(2):
        await taints.once()
        [ours] = [
            one
            for one in await kube.list(DEVICE_TAINT_RULES)
            if one["metadata"]["name"].startswith("sublet-")
        ]
        assert ours["spec"]["deviceSelector"] == {
            "driver": "gpu.nvidia.com",
            "pool": NODE,
            "device": "gpu-0",
        }
        assert ours["spec"]["taint"] == {
            "key": "sublet.dev/health",
            "value": "condemned",
            "effect": "NoSchedule",
        }
    judge.at(10, sees(10, "reset"))
    judge.at(100)
    await taints.once()
    assert [one["metadata"]["name"] for one in await kube.list(DEVICE_TAINT_RULES)] == ["theirs"]


async def test_other_systems_read_which_cards_to_leave_out_and_the_marks_go_with_the_fault(
    kube: KubeClient,
) -> None:
    judge = condemned(PodUid("u"))
    for _ in range(2):  # also by a process that was started anew
        marks = Marks(kube, judge.engine, on=True)
        on_node = NodeMarks(kube, judge.engine, volcano=True, labels=False)
        await marks.once()
        await on_node.once()
        [told] = await kube.list(CONFIGMAPS, Selection(namespace="kube-system"))
        assert (told["metadata"]["name"], told["data"]) == (f"unhealthy-gpu-{NODE}", {"gpus": "0"})
        node = await kube.get(NODES, NODE)
        assert node["metadata"]["annotations"]["volcano.sh/gpu-unhealthy-ids"] == "0"
    judge.at(10, sees(10, "reset"))
    judge.at(100)
    await marks.once()
    await on_node.once()
    assert await kube.list(CONFIGMAPS, Selection(namespace="kube-system")) == []
    node = await kube.get(NODES, NODE)
    assert (
        not {"volcano.sh/gpu-unhealthy-ids", "sublet.dev/marks"}
        & (node["metadata"].get("annotations") or {}).keys()
    )


async def test_marks_go_when_they_are_switched_off(kube: KubeClient) -> None:
    judge = condemned(PodUid("u"))
    await Marks(kube, judge.engine, on=True).once()
    await NodeMarks(kube, judge.engine, volcano=True, labels=False).once()
    theirs = {"metadata": {"name": "theirs", "namespace": "kube-system"}}
    await kube.create(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap"} | theirs)
    await Marks(kube, judge.engine, on=False).once()
    await NodeMarks(kube, judge.engine, volcano=False, labels=False).once()
    left = await kube.list(CONFIGMAPS, Selection(namespace="kube-system"))
    assert [one["metadata"]["name"] for one in left] == ["theirs"]
    assert not (await kube.get(NODES, NODE))["metadata"].get("annotations")


LABELS = {
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.replicas": "16",
}


async def labels_of(kube: KubeClient) -> dict[str, str]:
    return dict((await kube.get(NODES, NODE))["metadata"].get("labels") or {})


def described() -> Clocked:
    judge = Clocked()
    told = inventory(0, A)
    known = replace(told.cards[0], model="NVIDIA A100-SXM4-80GB", memory_mib=81920)
    judge.at(0, COMPLETE, replace(told, cards=(known,)))
    return judge


async def test_nodes_are_labelled_with_their_cards_and_the_labels_go_when_they_are_switched_off(
    kube: KubeClient,
) -> None:
    judge = described()
    await NodeMarks(kube, judge.engine, volcano=False, labels=True).once()
    assert await labels_of(kube) == LABELS
    await NodeMarks(kube, judge.engine, volcano=False, labels=False).once()
    node = await kube.get(NODES, NODE)
    assert not node["metadata"].get("labels")
    assert "sublet.dev/marks" not in (node["metadata"].get("annotations") or {})


async def test_labels_of_another_stay_as_they_are(kube: KubeClient) -> None:
    theirs = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.family": "turing", "zone": "a"}
    await kube.patch(NODES, NODE, MergePatch({"metadata": {"labels": theirs}}))
    judge = described()
    await NodeMarks(kube, judge.engine, volcano=False, labels=True).once()
    assert await labels_of(kube) == LABELS | theirs
    await NodeMarks(kube, judge.engine, volcano=False, labels=False).once()
    assert await labels_of(kube) == theirs


async def test_a_node_that_is_not_ours_is_left_alone(kube: KubeClient) -> None:
    note = {"volcano.sh/gpu-unhealthy-ids": "3"}
    await kube.patch(NODES, NODE, MergePatch({"metadata": {"annotations": note}}))
    await NodeMarks(kube, Clocked().engine, volcano=True, labels=True).once()
    node = await kube.get(NODES, NODE)
    assert node["metadata"]["annotations"] == note
    assert not node["metadata"].get("labels")


def test_cards_that_differ_are_told_by_the_first_and_the_smallest() -> None:
    cards = (
        card("A", index=1, gib=40, model="NVIDIA L40S"),
        card("B", index=0, gib=80, model="NVIDIA (R) A100"),
        card("C", index=2, gib=8, vendor=Vendor.AMD),
    )
    assert card_labels(cards, 4) == {
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.product": "NVIDIA-R-A100",
        "nvidia.com/gpu.memory": str(40 * 1024),
        "nvidia.com/gpu.replicas": "4",
    }
    assert card_labels(cards[2:], 4) == {}
    assert "nvidia.com/gpu.memory" not in card_labels((card("D", gib=None), *cards), 4)


def test_partitions_are_counted_by_profile() -> None:
    parts = tuple(Partition(uuid=f"MIG-{at}", profile="1g.5gb", memory_mib=4864) for at in range(2))
    found = card_labels((replace(card("A", gib=40), partitions=parts),), 16)
    assert {key: value for key, value in found.items() if "mig" in key} == {
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mig-1g.5gb.count": "2",
        "nvidia.com/mig-1g.5gb.memory": "4864",
    }
