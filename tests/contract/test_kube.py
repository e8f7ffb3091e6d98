"""What we rely on in a Kubernetes API server: the same on the embedded one and on the real one."""

import asyncio
import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from sublet.kube.client import KubeClient
from sublet.kube.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
)
from sublet.kube.kind import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    SECRETS,
    Kind,
)
from sublet.kube.port import (
    Apply,
    Json,
    JsonPatch,
    MergePatch,
    Selection,
    StrategicPatch,
)
from tests.contract.kubewords import (
    CARD,
    GATE,
    OTHER_GATE,
    adding,
    config,
    pod,
)


async def test_a_created_object_gets_uid_time_and_version(kube: KubeClient, namespace: str) -> None:
    made = await kube.create(CONFIGMAPS, config("a", key="1"), namespace=namespace)
    meta = made["metadata"]
    assert meta["uid"]
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0
    assert (made["kind"], made["apiVersion"], meta["namespace"]) == ("ConfigMap", "v1", namespace)
    assert await kube.get(CONFIGMAPS, "a", namespace=namespace) == made


async def test_generate_name_makes_a_name_of_its_own(kube: KubeClient, namespace: str) -> None:
    body = {"metadata": {"generateName": "job-"}}
    names = {(await kube.create(CONFIGMAPS, body, namespace=namespace))["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_what_is_not_there_is_not_found(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound):
        await kube.get(PODS, "nobody", namespace=namespace)
    with pytest.raises(NotFound):
        await kube.delete(PODS, "nobody", namespace=namespace)
    with pytest.raises(NotFound):
        await kube.patch(PODS, "nobody", MergePatch({}), namespace=namespace)


async def test_a_namespace_must_exist(kube: KubeClient) -> None:
    with pytest.raises(NotFound):
        await kube.create(CONFIGMAPS, config("a"), namespace="no-such-namespace")


async def test_a_taken_name_is_refused(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIGMAPS, config("a"), namespace=namespace)
    with pytest.raises(AlreadyExists):
        await kube.create(CONFIGMAPS, config("a"), namespace=namespace)


async def test_a_name_must_be_one(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid):
        await kube.create(CONFIGMAPS, config("Not_A_Name"), namespace=namespace)
    with pytest.raises(Invalid):
        await kube.create(CONFIGMAPS, {"metadata": {}}, namespace=namespace)


async def test_an_update_of_an_old_version_conflicts(kube: KubeClient, namespace: str) -> None:
    old = await kube.create(CONFIGMAPS, config("a", key="1"), namespace=namespace)
    await kube.update(CONFIGMAPS, old | {"data": {"key": "2"}})
    with pytest.raises(Conflict):
        await kube.update(CONFIGMAPS, old | {"data": {"key": "3"}})


async def test_an_update_without_a_version_always_writes(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIGMAPS, config("a", key="1"), namespace=namespace)
    body = {"metadata": {"name": "a", "namespace": namespace}, "data": {"key": "2"}}
    assert (await kube.update(CONFIGMAPS, body))["data"] == {"key": "2"}


async def test_a_write_that_changes_nothing_keeps_the_version(kube: KubeClient, namespace: str) -> None:
    made = await kube.create(CONFIGMAPS, config("a", key="1"), namespace=namespace)
    again = await kube.patch(CONFIGMAPS, "a", MergePatch({"data": {"key": "1"}}), namespace=namespace)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_the_generation_counts_changes_of_the_spec(kube: KubeClient, namespace: str) -> None:
    made = await kube.create(PODS, pod("a", gates=[GATE]), namespace=namespace)
    labelled = await kube.patch(
        PODS, "a", MergePatch({"metadata": {"labels": {"x": "y"}}}), namespace=namespace
    )
    ungated = await kube.patch(PODS, "a", MergePatch({"spec": {"schedulingGates": []}}), namespace=namespace)
    assert [each["metadata"]["generation"] for each in (made, labelled, ungated)] == [1, 1, 2]


async def test_a_dry_run_answers_and_stores_nothing(kube: KubeClient, namespace: str) -> None:
    made = await kube.create(CONFIGMAPS, config("a"), namespace=namespace, dry_run=True)
    assert made["metadata"]["uid"]
    with pytest.raises(NotFound):
        await kube.get(CONFIGMAPS, "a", namespace=namespace)

    await kube.create(CONFIGMAPS, config("b"), namespace=namespace)
    patched = await kube.patch(
        CONFIGMAPS, "b", MergePatch({"data": {"k": "v"}}), namespace=namespace, dry_run=True
    )
    assert patched["data"] == {"k": "v"}
    await kube.delete(CONFIGMAPS, "b", namespace=namespace, dry_run=True)
    assert not (await kube.get(CONFIGMAPS, "b", namespace=namespace)).get("data")


async def test_deleting_with_another_uid_conflicts(kube: KubeClient, namespace: str) -> None:
    made = await kube.create(CONFIGMAPS, config("a"), namespace=namespace)
    with pytest.raises(Conflict):
        await kube.delete(CONFIGMAPS, "a", namespace=namespace, uid="another")
    await kube.delete(CONFIGMAPS, "a", namespace=namespace, uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await kube.get(CONFIGMAPS, "a", namespace=namespace)


async def test_a_finalizer_keeps_an_object_until_it_is_gone(kube: KubeClient, namespace: str) -> None:
    held = {"metadata": {"name": "a", "finalizers": ["example.dev/hold"]}}
    await kube.create(CONFIGMAPS, held, namespace=namespace)
    await kube.delete(CONFIGMAPS, "a", namespace=namespace)
    assert (await kube.get(CONFIGMAPS, "a", namespace=namespace))["metadata"]["deletionTimestamp"]
    await kube.patch(
        CONFIGMAPS, "a", JsonPatch([{"op": "remove", "path": "/metadata/finalizers"}]), namespace=namespace
    )
    with pytest.raises(NotFound):
        await kube.get(CONFIGMAPS, "a", namespace=namespace)


async def test_the_main_resource_leaves_the_status_alone(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    phase = MergePatch({"status": {"phase": "Running"}})
    await kube.patch(PODS, "a", phase, namespace=namespace)
    assert (await kube.get(PODS, "a", namespace=namespace))["status"]["phase"] == "Pending"
    await kube.patch(PODS, "a", phase, namespace=namespace, subresource="status")
    assert (await kube.get(PODS, "a", namespace=namespace))["status"]["phase"] == "Running"


async def test_annotations_can_be_changed_through_the_status(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    patch = MergePatch({"metadata": {"annotations": {"k": "v"}}, "spec": {"nodeName": "n"}})
    changed = await kube.patch(PODS, "a", patch, namespace=namespace, subresource="status")
    assert changed["metadata"]["annotations"] == {"k": "v"}
    assert "nodeName" not in changed["spec"]


async def test_a_new_node_keeps_the_status_sent_with_it(kube: KubeClient, namespace: str) -> None:
    name = f"node-{namespace}"
    status = {"capacity": {CARD: "4"}, "allocatable": {CARD: "4"}}
    made = await kube.create(NODES, {"metadata": {"name": name}, "status": status})
    assert made["status"]["allocatable"] == {CARD: "4"}
    patch = adding("/status/capacity/example.dev~1memory", "320")
    changed = await kube.patch(NODES, name, patch, subresource="status")
    assert changed["status"]["capacity"] == {CARD: "4", "example.dev/memory": "320"}
    await kube.delete(NODES, name)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (SECRETS, {"stringData": {}, "type": "Opaque"}),
        (EVENTS, {"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Placed", "type": "Normal"}),
    ],
    ids=["secret", "event"],
)
async def test_other_kinds_are_stored_too(kube: KubeClient, namespace: str, kind: Kind, body: Json) -> None:
    if kind is EVENTS:
        body = body | {"involvedObject": body["involvedObject"] | {"namespace": namespace}}
    await kube.create(kind, {"metadata": {"name": "a"}, **body}, namespace=namespace)
    assert (await kube.get(kind, "a", namespace=namespace))["kind"] == kind.kind


async def test_pages_together_are_the_list(kube: KubeClient, namespace: str) -> None:
    for name in "abcde":
        await kube.create(CONFIGMAPS, config(name), namespace=namespace)
    select = Selection(namespace=namespace)
    names: list[str] = []
    versions: set[str] = set()
    token = ""
    while True:
        page = json.loads(await kube.page(CONFIGMAPS, select, limit=2, continue_token=token))
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert [name for name in names if len(name) == 1] == list("abcde")
    assert len(versions) == 1
    listed = await kube.list(CONFIGMAPS, select)
    assert [each["kind"] for each in listed] == ["ConfigMap"] * len(names)


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("app=a", "", {"a"}),
        ("app!=a", "", {"b", "c"}),
        ("app in (a, b)", "", {"a", "b"}),
        ("app notin (a,b)", "", {"c"}),
        ("app", "", {"a", "b", "c"}),
        ("!app", "", set()),
        ("app in (a,b),app!=a", "", {"b"}),
        ("", "metadata.name=b", {"b"}),
        ("", "metadata.name!=b", {"a", "c"}),
        ("", "spec.nodeName=n1", {"c"}),
        ("", "spec.nodeName=,status.phase=Pending", {"a", "b"}),
        ("app=a", "metadata.name=b", set()),
    ],
)
async def test_selectors_pick_objects(
    kube: KubeClient, namespace: str, labels: str, fields: str, expected: set[str]
) -> None:
    for each in (pod("a"), pod("b"), pod("c", nodeName="n1")):
        await kube.create(PODS, each, namespace=namespace)
    found = await kube.list(PODS, Selection(namespace=namespace, labels=labels, fields=fields))
    assert {each["metadata"]["name"] for each in found} == expected


async def test_a_selector_that_makes_no_sense_is_refused(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid):
        await kube.list(PODS, Selection(namespace=namespace, labels="a=(b"))
    with pytest.raises(Invalid):
        await kube.list(PODS, Selection(namespace=namespace, fields="spec.containers=x"))


async def take(lines: AsyncIterator[bytes], count: int) -> list[tuple[str, str]]:
    """Type and name of the next events; bookmarks do not count."""
    taken: list[tuple[str, str]] = []
    async with asyncio.timeout(8):
        async for line in lines:
            event = json.loads(line)
            if event["type"] != "BOOKMARK":
                taken.append((event["type"], event["object"]["metadata"]["name"]))
            if len(taken) == count:
                break
    return taken


async def version_now(kube: KubeClient, kind: Kind, namespace: str) -> str:
    page = json.loads(await kube.page(kind, Selection(namespace=namespace), limit=1))
    version: str = page["metadata"]["resourceVersion"]
    return version


async def test_a_watch_tells_what_happened_since_its_version(kube: KubeClient, namespace: str) -> None:
    since = await version_now(kube, PODS, namespace)
    await kube.create(PODS, pod("a"), namespace=namespace)
    await kube.patch(PODS, "a", MergePatch({"metadata": {"labels": {"x": "y"}}}), namespace=namespace)
    await kube.delete(PODS, "a", namespace=namespace)
    select = Selection(namespace=namespace)
    async with kube.watch(PODS, select, resource_version=since, within_s=30) as lines:
        told = await take(lines, 4)
    # a pod is marked as ending even when it goes at once
    assert told == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_without_a_version_begins_with_what_is_there(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    select = Selection(namespace=namespace)
    async with kube.watch(PODS, select, resource_version="", within_s=30) as lines:
        assert await take(lines, 1) == [("ADDED", "a")]
        await kube.create(PODS, pod("b"), namespace=namespace)
        assert await take(lines, 1) == [("ADDED", "b")]


async def test_what_leaves_the_selection_is_deleted_for_the_watch(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    since = await version_now(kube, PODS, namespace)
    select = Selection(namespace=namespace, labels="app=a")
    async with kube.watch(PODS, select, resource_version=since, within_s=30) as lines:
        for value in ("other", "a"):
            patch = MergePatch({"metadata": {"labels": {"app": value}}})
            await kube.patch(PODS, "a", patch, namespace=namespace)
        assert await take(lines, 2) == [("DELETED", "a"), ("ADDED", "a")]


async def test_a_watch_ends_by_itself_after_its_time(kube: KubeClient, namespace: str) -> None:
    since = await version_now(kube, PODS, namespace)
    async with kube.watch(PODS, Selection(namespace=namespace), resource_version=since, within_s=1) as lines:
        assert await take(lines, 1) == []


async def test_a_failed_test_of_a_json_patch_changes_nothing(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIGMAPS, config("a", key="1"), namespace=namespace)
    patch = JsonPatch(
        [
            {"op": "test", "path": "/data/key", "value": "2"},
            {"op": "replace", "path": "/data/key", "value": "3"},
        ]
    )
    with pytest.raises(Invalid):
        await kube.patch(CONFIGMAPS, "a", patch, namespace=namespace)
    assert (await kube.get(CONFIGMAPS, "a", namespace=namespace))["data"] == {"key": "1"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/metadata/annotations/x", "value": "y"},
        {"op": "remove", "path": "/data/absent"},
    ],
    ids=["add under a missing map", "remove what is not there"],
)
async def test_a_json_patch_that_cannot_be_done_is_invalid(
    kube: KubeClient, namespace: str, operation: Json
) -> None:
    await kube.create(CONFIGMAPS, config("a", key="1"), namespace=namespace)
    with pytest.raises(Invalid):
        await kube.patch(CONFIGMAPS, "a", JsonPatch([operation]), namespace=namespace)


async def test_a_json_patch_may_test_uid_and_version(kube: KubeClient, namespace: str) -> None:
    meta = (await kube.create(CONFIGMAPS, config("a"), namespace=namespace))["metadata"]
    guarded = JsonPatch(
        [
            {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
            {"op": "add", "path": "/data", "value": {"k": "v"}},
        ]
    )
    assert (await kube.patch(CONFIGMAPS, "a", guarded, namespace=namespace))["data"] == {"k": "v"}
    with pytest.raises(Invalid):
        await kube.patch(CONFIGMAPS, "a", guarded, namespace=namespace)


async def test_a_merge_patch_removes_with_null_and_replaces_lists(kube: KubeClient, namespace: str) -> None:
    await kube.create(CONFIGMAPS, config("a", one="1", two="2"), namespace=namespace)
    patched = await kube.patch(
        CONFIGMAPS, "a", MergePatch({"data": {"one": None, "three": "3"}}), namespace=namespace
    )
    assert patched["data"] == {"two": "2", "three": "3"}


async def test_a_merge_patch_with_an_old_version_conflicts(kube: KubeClient, namespace: str) -> None:
    old = await kube.create(CONFIGMAPS, config("a"), namespace=namespace)
    await kube.patch(CONFIGMAPS, "a", MergePatch({"data": {"k": "v"}}), namespace=namespace)
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "w"}}
    with pytest.raises(Conflict):
        await kube.patch(CONFIGMAPS, "a", MergePatch(version), namespace=namespace)


async def test_a_strategic_patch_merges_conditions_by_type(kube: KubeClient, namespace: str) -> None:
    name = f"node-{namespace}"
    ready = {"type": "Ready", "status": "True"}
    await kube.create(NODES, {"metadata": {"name": name}, "status": {"conditions": [ready]}})
    healthy = {"type": "CardsHealthy", "status": "True"}
    for condition in (healthy, healthy | {"status": "False"}):
        patch = StrategicPatch({"status": {"conditions": [condition]}})
        changed = await kube.patch(NODES, name, patch, subresource="status")
    states = {each["type"]: each["status"] for each in changed["status"]["conditions"]}
    assert states == {"Ready": "True", "CardsHealthy": "False"}
    await kube.delete(NODES, name)


async def test_a_strategic_patch_replaces_taints_whole(kube: KubeClient, namespace: str) -> None:
    name = f"node-{namespace}"
    await kube.create(NODES, {"metadata": {"name": name}})
    for key in ("example.dev/one", "example.dev/two"):
        patch = StrategicPatch({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}})
        changed = await kube.patch(NODES, name, patch)
    assert [each["key"] for each in changed["spec"]["taints"]] == ["example.dev/two"]
    await kube.delete(NODES, name)


async def test_a_strategic_patch_deletes_a_gate_by_its_name(kube: KubeClient, namespace: str) -> None:
    await kube.create(PODS, pod("a", gates=[GATE, OTHER_GATE]), namespace=namespace)
    patch = StrategicPatch({"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}})
    changed = await kube.patch(PODS, "a", patch, namespace=namespace)
    assert changed["spec"]["schedulingGates"] == [{"name": OTHER_GATE}]


async def test_a_strategic_patch_changes_one_container_by_its_name(kube: KubeClient, namespace: str) -> None:
    body = {
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "one", "image": "x"}, {"name": "two", "image": "x"}]},
            },
        },
    }
    await kube.create(DEPLOYMENTS, body, namespace=namespace)
    change = {"name": "two", "image": "y", "env": [{"name": "K", "value": "v"}]}
    patch = StrategicPatch({"spec": {"template": {"spec": {"containers": [change]}}}})
    changed = await kube.patch(DEPLOYMENTS, "a", patch, namespace=namespace)
    images = {each["name"]: each["image"] for each in changed["spec"]["template"]["spec"]["containers"]}
    assert images == {"one": "x", "two": "y"}


async def test_apply_creates_and_then_changes(kube: KubeClient, namespace: str) -> None:
    for value in ("1", "2"):
        body = {"apiVersion": "v1", "kind": "ConfigMap", **config("a", key=value)}
        applied = await kube.patch(
            CONFIGMAPS, "a", Apply(body=body, field_manager="sublet", force=True), namespace=namespace
        )
    assert applied["data"] == {"key": "2"}


async def test_the_server_tells_its_version_and_health(kube: KubeClient) -> None:
    assert msgspec.json.decode(await kube.raw("/version"))["major"] == "1"
    assert await kube.raw("/readyz") == b"ok"
    with pytest.raises(NotFound):
        await kube.raw("/apis/no.such.group/v1/things")
