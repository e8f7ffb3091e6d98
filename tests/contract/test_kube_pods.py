"""What we rely on for pods: defaults, gates, pins, binding, eviction and deletion; embedded and real."""

from typing import Any

import pytest

from sublet.kube.client import KubeClient
from sublet.kube.errors import (
    Conflict,
    Invalid,
    NotFound,
    Throttled,
)
from sublet.kube.kind import (
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from sublet.kube.port import (
    Json,
    JsonPatch,
    MergePatch,
)
from tests.contract.kubewords import CARD, GATE, OTHER_GATE, TERMS, adding, expression, pin, pod, required


async def test_a_pod_gets_its_defaults(kube: KubeClient, namespace: str) -> None:
    made = await kube.create(PODS, pod("a", resources={"limits": {CARD: "2"}}), namespace=namespace)
    spec = made["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {CARD: "2"}
    assert (spec["schedulerName"], spec["restartPolicy"]) == ("default-scheduler", "Always")
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/gpu": "0.5"}},
        {"limits": {CARD: "500m"}},
        {"requests": {CARD: "1"}},
        {"limits": {CARD: "2"}, "requests": {CARD: "1"}},
        {"limits": {CARD: "-1"}},
        {"limits": {CARD: "much"}},
        {"limits": {"gpu": "1"}},
        {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
    ],
)
async def test_amounts_that_make_no_sense_are_refused(
    kube: KubeClient, namespace: str, resources: Json
) -> None:
    with pytest.raises(Invalid):
        await kube.create(PODS, pod("a", resources=resources), namespace=namespace)


@pytest.mark.parametrize("amount", ["1", "16Gi", "3000m", "5k", "0", "1e3"])
async def test_whole_amounts_are_accepted_however_written(
    kube: KubeClient, namespace: str, amount: str
) -> None:
    await kube.create(PODS, pod("a", resources={"limits": {CARD: amount}}), namespace=namespace)


async def test_a_gated_pod_says_so(kube: KubeClient, namespace: str) -> None:
    made = await kube.create(PODS, pod("a", gates=[GATE]), namespace=namespace)
    [condition] = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


async def test_a_gated_pod_cannot_have_a_node(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid, match="cannot be set until all schedulingGates have been cleared"):
        await kube.create(PODS, pod("a", gates=[GATE], nodeName="n1"), namespace=namespace)


@pytest.mark.parametrize(
    "patch",
    [
        MergePatch({"metadata": {"annotations": {"k": "v"}, "labels": {"k": "v"}}}),
        MergePatch({"spec": {"nodeSelector": {"zone": "a", "more": "b"}}}),
        MergePatch({"spec": {"affinity": pin("n1")}}),
        adding("/spec/tolerations/-", {"key": "nvidia.com/gpu", "operator": "Exists"}),
        MergePatch({"spec": {"activeDeadlineSeconds": 30}}),
        adding("/spec/containers/0/image", "y"),
        JsonPatch([{"op": "remove", "path": "/spec/schedulingGates/1"}]),
    ],
    ids=["metadata", "nodeSelector", "pin", "toleration", "deadline", "image", "one gate less"],
)
async def test_a_gated_pod_allows(kube: KubeClient, namespace: str, patch: JsonPatch | MergePatch) -> None:
    body = pod("a", gates=[GATE, OTHER_GATE], nodeSelector={"zone": "a"})
    await kube.create(PODS, body, namespace=namespace)
    await kube.patch(PODS, "a", patch, namespace=namespace)


@pytest.mark.parametrize(
    "patch",
    [
        MergePatch({"spec": {"nodeSelector": {"zone": "b"}}}),
        MergePatch({"spec": {"nodeSelector": None}}),
        adding("/spec/schedulingGates/-", {"name": "example.dev/late"}),
        adding("/spec/containers/0/env", [{"name": "K", "value": "v"}]),
        adding("/spec/containers/0/resources", {"limits": {CARD: "1"}, "requests": {CARD: "1"}}),
        MergePatch({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
        MergePatch({"spec": {"schedulerName": "other"}}),
        MergePatch({"spec": {"nodeName": "n1"}}),
        MergePatch({"spec": {"terminationGracePeriodSeconds": 1}}),
        MergePatch({"spec": {"tolerations": []}}),
    ],
    ids=[
        "nodeSelector changed",
        "nodeSelector removed",
        "new gate",
        "env",
        "resources",
        "volumes",
        "schedulerName",
        "nodeName",
        "grace period",
        "toleration removed",
    ],
)
async def test_a_gated_pod_refuses(kube: KubeClient, namespace: str, patch: JsonPatch | MergePatch) -> None:
    own = [{"key": "example.dev/taint", "operator": "Exists"}]
    body = pod("a", gates=[GATE], nodeSelector={"zone": "a"}, tolerations=own)
    await kube.create(PODS, body, namespace=namespace)
    with pytest.raises(Invalid):
        await kube.patch(PODS, "a", patch, namespace=namespace)


TWO_TERMS = [
    {"matchExpressions": [expression("zone", "a")]},
    {"matchExpressions": [expression("zone", "b")]},
]
PINNED_FIELD = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]


@pytest.mark.parametrize(
    ("before", "patch", "allowed"),
    [
        (TWO_TERMS, adding(f"{TERMS}/0/matchFields", PINNED_FIELD), True),
        (TWO_TERMS, adding(f"{TERMS}/0/matchExpressions/-", expression("more", "x")), True),
        (TWO_TERMS, JsonPatch([{"op": "remove", "path": f"{TERMS}/1"}]), False),
        (TWO_TERMS, adding(f"{TERMS}/-", {"matchFields": PINNED_FIELD}), False),
        (TWO_TERMS, adding(f"{TERMS}/0/matchExpressions/0", expression("more", "x")), False),
        (TWO_TERMS, adding(f"{TERMS}/0/matchExpressions/0", expression("zone", "c")), False),
        ([{}, *TWO_TERMS], adding(f"{TERMS}/0/matchFields", PINNED_FIELD), False),
        (
            TWO_TERMS,
            adding(f"{TERMS}/0/matchFields", [PINNED_FIELD[0] | {"values": ["n1", "n2"]}]),
            False,
        ),
    ],
    ids=[
        "append a field",
        "append an expression",
        "drop a term",
        "add a term",
        "prepend an expression",
        "prepend the same key",
        "fill an empty term",
        "two values in a field",
    ],
)
async def test_required_terms_of_a_gated_pod_may_only_grow_at_their_end(
    kube: KubeClient, namespace: str, before: list[Json], patch: JsonPatch, *, allowed: bool
) -> None:
    await kube.create(PODS, pod("a", gates=[GATE], affinity=required(before)), namespace=namespace)
    if allowed:
        await kube.patch(PODS, "a", patch, namespace=namespace)
    else:
        with pytest.raises(Invalid):
            await kube.patch(PODS, "a", patch, namespace=namespace)


async def test_one_patch_pins_annotates_and_ungates(kube: KubeClient, namespace: str) -> None:
    meta = (await kube.create(PODS, pod("a", gates=[GATE]), namespace=namespace))["metadata"]
    release = JsonPatch(
        [
            {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
            {"op": "add", "path": "/spec/affinity", "value": pin("n1")},
            {"op": "add", "path": "/metadata/annotations", "value": {"cards": "GPU-1"}},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
    )
    released = await kube.patch(PODS, "a", release, namespace=namespace)
    assert not released["spec"].get("schedulingGates")
    assert released["spec"]["affinity"] == pin("n1")
    assert released["metadata"]["annotations"] == {"cards": "GPU-1"}
    # the condition stays until a scheduler writes another one
    assert released["status"]["conditions"][0]["reason"] == "SchedulingGated"


@pytest.mark.parametrize(
    "patch",
    [
        MergePatch({"spec": {"affinity": pin("n2")}}),
        MergePatch({"spec": {"nodeSelector": {"zone": "a"}}}),
        MergePatch({"spec": {"schedulingGates": [{"name": GATE}]}}),
    ],
    ids=["pin", "nodeSelector", "gate"],
)
async def test_an_ungated_pod_can_be_neither_pinned_nor_gated(
    kube: KubeClient, namespace: str, patch: MergePatch
) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    with pytest.raises(Invalid):
        await kube.patch(PODS, "a", patch, namespace=namespace)
    await kube.patch(
        PODS, "a", adding("/spec/tolerations/-", {"key": "k", "operator": "Exists"}), namespace=namespace
    )


def binding(name: str, node: str, **meta: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **meta},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def bind(kube: KubeClient, namespace: str, name: str, node: str, **meta: Any) -> None:
    body = binding(name, node, namespace=namespace, **meta)
    await kube.create(PODS, body, namespace=namespace, name=name, subresource="binding")


async def test_a_binding_sets_node_and_annotations(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    await bind(kube, namespace, "a", "n1", annotations={"k": "v"})
    bound = await kube.get(PODS, "a", namespace=namespace)
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"k": "v"}
    assert [(each["type"], each["status"]) for each in bound["status"]["conditions"]] == [
        ("PodScheduled", "True")
    ]


async def test_a_pod_is_bound_once(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    await bind(kube, namespace, "a", "n1")
    with pytest.raises(Conflict):
        await bind(kube, namespace, "a", "n2")


async def test_a_gated_pod_is_not_bound(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a", gates=[GATE]), namespace=namespace)
    with pytest.raises(Conflict, match=r"has non-empty \.spec\.schedulingGates"):
        await bind(kube, namespace, "a", "n1")


async def test_a_binding_for_another_uid_conflicts(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    with pytest.raises(Conflict):
        await bind(kube, namespace, "a", "n1", uid="another")


async def test_a_pod_without_a_node_goes_at_once(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    await kube.delete(PODS, "a", namespace=namespace)
    with pytest.raises(NotFound):
        await kube.get(PODS, "a", namespace=namespace)


async def test_a_pod_that_a_finalizer_keeps_is_bound_no_more(kube: KubeClient, namespace: str) -> None:
    kept = pod("a")
    kept["metadata"]["finalizers"] = ["example.dev/keep"]
    await kube.create(PODS, kept, namespace=namespace)
    await kube.delete(PODS, "a", namespace=namespace)
    assert (await kube.get(PODS, "a", namespace=namespace))["metadata"]["deletionTimestamp"]
    with pytest.raises(Conflict, match="is being deleted"):
        await bind(kube, namespace, "a", "n1")
    await kube.patch(PODS, "a", MergePatch({"metadata": {"finalizers": None}}), namespace=namespace)
    with pytest.raises(NotFound):
        await kube.get(PODS, "a", namespace=namespace)


async def test_a_pod_on_a_node_waits_for_its_kubelet(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a", nodeName="n1"), namespace=namespace)
    await kube.delete(PODS, "a", namespace=namespace, grace_period_s=7)
    ending = await kube.get(PODS, "a", namespace=namespace)
    assert ending["metadata"]["deletionTimestamp"]
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7
    await kube.delete(PODS, "a", namespace=namespace, grace_period_s=0)
    with pytest.raises(NotFound):
        await kube.get(PODS, "a", namespace=namespace)


async def test_a_finished_pod_goes_at_once(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a", nodeName="n1"), namespace=namespace)
    done = MergePatch({"status": {"phase": "Succeeded"}})
    await kube.patch(PODS, "a", done, namespace=namespace, subresource="status")
    await kube.delete(PODS, "a", namespace=namespace)
    with pytest.raises(NotFound):
        await kube.get(PODS, "a", namespace=namespace)


async def evict(kube: KubeClient, namespace: str, name: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"gracePeriodSeconds": 0},
    }
    await kube.create(PODS, body, namespace=namespace, name=name, subresource="eviction")


async def test_an_eviction_deletes(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a", nodeName="n1"), namespace=namespace)
    await evict(kube, namespace, "a")
    with pytest.raises(NotFound):
        await kube.get(PODS, "a", namespace=namespace)


async def test_a_disruption_budget_puts_an_eviction_off(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a", nodeName="n1"), namespace=namespace)
    running = MergePatch(
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    )
    await kube.patch(PODS, "a", running, namespace=namespace, subresource="status")
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    await kube.create(POD_DISRUPTION_BUDGETS, budget, namespace=namespace)
    with pytest.raises(Throttled) as caught:
        await evict(kube, namespace, "a")
    assert caught.value.retry_after_s > 0


async def test_a_resize_changes_what_containers_ask_for_and_nothing_else(
    kube: KubeClient, namespace: str
) -> None:
    asked = pod("a", resources={"requests": {"cpu": "2"}})
    made = await kube.create(PODS, asked, namespace=namespace)
    guarded = JsonPatch(
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
            {"op": "replace", "path": "/spec/containers/0/resources/requests", "value": {"cpu": "1500m"}},
        ]
    )
    after = await kube.patch(PODS, "a", guarded, namespace=namespace, subresource="resize")
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    assert after["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1500m"}}
    with pytest.raises(Invalid):
        await kube.patch(PODS, "a", guarded, namespace=namespace, subresource="resize")
