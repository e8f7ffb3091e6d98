"""Webhooks of others, which are asked about a test's pods after ours."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.api.scheduler.stage import CONFIGURATIONS, Json
from tests.api.scheduler.team import Team
from tests.builders import container, pod
from tests.contract.kubeservers import Hook, webhook
from tests.integration.schedulerstage import until

ALLOWED: Json = {"allowed": True}
Answering = Callable[[Json], Awaitable[Json] | Json]


@asynccontextmanager
async def later(on: Team, folder: Path, answer: Answering) -> AsyncIterator[Hook]:
    """A webhook whose name comes after ours is asked about all pods of the namespace."""
    async with webhook(folder, answer) as hook:
        name = f"zz-{on.name}"
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        entry = {
            "name": "later.example.dev",
            "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle},
            "rules": [rule],
            "sideEffects": "NoneOnDryRun",
            "reinvocationPolicy": "IfNeeded",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"test": on.name}},
        }
        plane = on.stage.plane
        await plane.call("POST", CONFIGURATIONS, {"metadata": {"name": name}, "webhooks": [entry]})

        async def in_force() -> bool:
            hook.asked.clear()
            await on.ask(pod("trial", container()), dry_run=True)
            return bool(hook.asked)

        async def out_of_force() -> bool:
            return not await in_force()

        try:
            await until(in_force)
            hook.asked.clear()
            yield hook
        finally:
            await plane.call("DELETE", f"{CONFIGURATIONS}/{name}")
            await until(out_of_force)


def adding(new: Json) -> Answering:
    """Adds a container to every pod that has it not yet."""

    def answer(review: Json) -> Json:
        named = {one["name"] for one in review["object"]["spec"]["containers"]}
        if new["name"] in named:
            return ALLOWED
        return patching({"op": "add", "path": "/spec/containers/-", "value": new})

    return answer


def limiting(**limits: str) -> Answering:
    """Writes these limits into the first container."""

    def answer(review: Json) -> Json:
        resources: Json = review["object"]["spec"]["containers"][0].get("resources") or {}
        wanted = {part: {**(resources.get(part) or {}), **limits} for part in ("limits", "requests")}
        return patching({"op": "add", "path": "/spec/containers/0/resources", "value": wanted})

    return answer


def patching(*operations: Json) -> Json:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {**ALLOWED, "patchType": "JSONPatch", "patch": encoded}
