"""What we rely on when webhooks are called; embedded and real."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sublet.kube.client import KubeClient
from sublet.kube.errors import (
    Conflict,
    Forbidden,
    Invalid,
    Unavailable,
)
from sublet.kube.kind import (
    MUTATING_WEBHOOKS,
    PODS,
)
from sublet.kube.port import (
    Json,
    JsonPatch,
    MergePatch,
)
from tests.contract.kubeservers import Hook, webhook
from tests.contract.kubewords import (
    GATE,
    pod,
)


def patching(*operations: Json) -> Json:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


ALLOWED: Json = {"allowed": True}


def entry(hook: Hook, name: str, namespace: str, **more: Any) -> Json:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "name": f"{name}.example.dev",
        "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle},
        "rules": [rule],
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"test": namespace}},
        **more,
    }


@asynccontextmanager
async def configured(kube: KubeClient, namespace: str, *webhooks: Json) -> AsyncIterator[None]:
    """The configuration is in force inside: the server has already called another one of it."""
    name = f"hooks-{namespace}"
    canary = webhooks[0] | {"name": "canary.example.dev", "failurePolicy": "Fail", "timeoutSeconds": 1}
    canary["clientConfig"] = {"url": "https://127.0.0.1:1/"}
    canary["objectSelector"] = {"matchLabels": {"app": "canary"}}
    canary |= {"namespaceSelector": {"matchLabels": {"test": namespace}}}
    canary["rules"] = [canary["rules"][0] | {"operations": ["CREATE"], "resources": ["pods"]}]
    canary.pop("matchConditions", None)
    await kube.create(MUTATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [canary, *webhooks]})
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    probe = pod("canary") | {"metadata": {"name": "canary", "labels": {"app": "canary"}}}
                    await kube.create(PODS, probe, namespace=namespace, dry_run=True)
                except Unavailable:
                    break
        yield
    finally:
        await kube.delete(MUTATING_WEBHOOKS, name)


def asked_for(hook: Hook, *labels: str) -> list[Json]:
    """The reviews of pods with one of these app labels, without the probes."""
    return [each for each in hook.asked if each["object"]["metadata"]["labels"]["app"] in labels]


async def test_a_webhook_mutates_a_pod_before_it_has_a_uid(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    gate = {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}
    async with (
        webhook(tmp_path, lambda _: patching(gate)) as hook,
        configured(kube, namespace, entry(hook, "gate", namespace)),
    ):
        unnamed = pod("a")
        unnamed["metadata"] = {"generateName": "job-", "labels": {"app": "a"}}
        made = await kube.create(PODS, unnamed, namespace=namespace)
        [asked] = asked_for(hook, "a")
    assert made["spec"]["schedulingGates"] == [{"name": GATE}]
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    meta = asked["object"]["metadata"]
    assert "uid" not in meta
    assert "name" not in meta
    assert (asked["operation"], asked["namespace"], asked["dryRun"]) == ("CREATE", namespace, False)
    assert asked["object"]["spec"]["schedulerName"] == "default-scheduler"


async def test_a_webhook_learns_of_a_dry_run(kube: KubeClient, namespace: str, tmp_path: Path) -> None:
    async with (
        webhook(tmp_path, lambda _: ALLOWED) as hook,
        configured(kube, namespace, entry(hook, "look", namespace)),
    ):
        await kube.create(PODS, pod("a"), namespace=namespace, dry_run=True)
        assert [each["dryRun"] for each in asked_for(hook, "a")] == [True]


async def test_a_denial_is_passed_on_with_its_words(kube: KubeClient, namespace: str, tmp_path: Path) -> None:
    no = {"allowed": False, "status": {"code": 403, "message": "16Gi is not a whole number of MiB"}}
    async with (
        webhook(tmp_path, lambda _: no) as hook,
        configured(kube, namespace, entry(hook, "deny", namespace)),
    ):
        with pytest.raises(Forbidden, match="denied the request: 16Gi is not a whole number of MiB"):
            await kube.create(PODS, pod("a"), namespace=namespace)


async def test_a_mute_webhook_counts_as_its_policy_says(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    released = asyncio.Event()

    async def mute(_: Json) -> Json:
        await released.wait()
        return ALLOWED

    def only(app: str) -> Json:
        return {"objectSelector": {"matchLabels": {"app": app}}, "timeoutSeconds": 1}

    async with (
        webhook(tmp_path, mute) as hook,
        configured(
            kube,
            namespace,
            entry(hook, "strict", namespace, failurePolicy="Fail", **only("strict")),
            entry(hook, "lax", namespace, failurePolicy="Ignore", **only("lax")),
        ),
    ):
        with pytest.raises(Unavailable, match="failed calling webhook"):
            await kube.create(PODS, pod("strict"), namespace=namespace)
        await kube.create(PODS, pod("lax"), namespace=namespace)
        await kube.create(PODS, pod("other"), namespace=namespace)
        assert len(asked_for(hook, "strict", "lax")) == 2
        assert not asked_for(hook, "other")
        released.set()


async def test_a_patch_that_cannot_be_applied_fails_the_call(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    broken = patching({"op": "remove", "path": "/spec/nothing"})
    async with (
        webhook(tmp_path, lambda _: broken) as hook,
        configured(kube, namespace, entry(hook, "broken", namespace, failurePolicy="Fail")),
    ):
        with pytest.raises(Unavailable):
            await kube.create(PODS, pod("a"), namespace=namespace)


@pytest.mark.parametrize(("policy", "calls"), [("Never", 1), ("IfNeeded", 2)])
async def test_a_webhook_is_asked_again_when_a_later_one_changed_the_pod(
    kube: KubeClient, namespace: str, tmp_path: Path, policy: str, calls: int
) -> None:
    sidecar = {"name": "sidecar", "image": "x"}

    def inject(request: Json) -> Json:
        if len(request["object"]["spec"]["containers"]) > 1:
            return ALLOWED
        return patching({"op": "add", "path": "/spec/containers/-", "value": sidecar})

    async with (
        webhook(tmp_path, lambda _: ALLOWED) as first,
        webhook(tmp_path, inject) as second,
        configured(
            kube,
            namespace,
            entry(first, "a", namespace, reinvocationPolicy=policy),
            entry(second, "b", namespace),
        ),
    ):
        await kube.create(PODS, pod("a"), namespace=namespace)
        asked = asked_for(first, "a")
    assert len(asked) == calls
    assert len({each["uid"] for each in asked}) == calls
    assert len(asked[-1]["object"]["spec"]["containers"]) == calls


async def test_a_webhook_cannot_gate_a_pod_that_has_a_node(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    gate = {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}
    async with (
        webhook(tmp_path, lambda _: patching(gate)) as hook,
        configured(kube, namespace, entry(hook, "gate", namespace)),
    ):
        with pytest.raises(Invalid):
            await kube.create(PODS, pod("a", nodeName="n1"), namespace=namespace)


@asynccontextmanager
async def held_updates(
    kube: KubeClient, namespace: str, folder: Path
) -> AsyncIterator[tuple[asyncio.Event, asyncio.Event]]:
    """The first update of a pod waits in a webhook: (it has arrived, let it go on)."""
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def hold_first(_: Json) -> Json:
        if not arrived.is_set():
            arrived.set()
            await go_on.wait()
        return ALLOWED

    async with webhook(folder, hold_first) as hook:
        held = entry(hook, "hold", namespace)
        held["rules"] = [held["rules"][0] | {"operations": ["UPDATE"]}]
        async with configured(kube, namespace, held):
            yield arrived, go_on


async def test_a_patch_without_guard_is_done_again_on_what_came_between(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await kube.create(PODS, pod("a"), namespace=namespace)
    async with (
        held_updates(kube, namespace, tmp_path) as (arrived, go_on),
        asyncio.TaskGroup() as group,
    ):
        mine = MergePatch({"metadata": {"annotations": {"mine": "1"}}})
        slow = group.create_task(kube.patch(PODS, "a", mine, namespace=namespace))
        await arrived.wait()
        theirs = MergePatch({"metadata": {"annotations": {"theirs": "2"}}})
        await kube.patch(PODS, "a", theirs, namespace=namespace)
        go_on.set()
        assert (await slow)["metadata"]["annotations"] == {"mine": "1", "theirs": "2"}


async def test_a_guarded_patch_fails_on_what_came_between(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    meta = (await kube.create(PODS, pod("a", gates=[GATE]), namespace=namespace))["metadata"]
    release = JsonPatch(
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
    )
    async with (
        held_updates(kube, namespace, tmp_path) as (arrived, go_on),
        asyncio.TaskGroup() as group,
    ):
        slow = group.create_task(refused(kube.patch(PODS, "a", release, namespace=namespace)))
        await arrived.wait()
        revoke = MergePatch({"metadata": {"annotations": {"revoked": "1"}}})
        await kube.patch(PODS, "a", revoke, namespace=namespace)
        go_on.set()
        await slow
    assert (await kube.get(PODS, "a", namespace=namespace))["spec"]["schedulingGates"] == [{"name": GATE}]


async def refused(answer: Awaitable[Json]) -> None:
    with pytest.raises((Invalid, Conflict)):
        await answer
