"""ResourceQuotas: our keys alone are read, and nothing that cannot be read is unlimited."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sublet_scheduler.core.events import QuotaGone, QuotaSeen, QuotasListed
from sublet_scheduler.core.limits import Quota
from sublet_scheduler.shell.quotas import Quotas, read_quota

from sublet.kube.kind import RESOURCE_QUOTAS
from sublet.kube.port import MergePatch
from tests.eventually import eventually
from tests.unit.scheduler_shell.cluster import Cluster, cluster
from tests.unit.scheduler_shell.test_watches import Events, running


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        yield built


def quota(hard: dict[str, Any], **spec: Any) -> Quota:
    body = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": hard, **spec}}
    seen = read_quota(json.dumps(body).encode())
    assert seen.namespace == "team"
    return seen.quota


def test_our_keys_limit_cards_memory_and_compute() -> None:
    hard = {
        "limits.sublet.dev/gpu": "4",
        "limits.sublet.dev/gpu-memory": "50k",
        "limits.sublet.dev/gpu-core": "0",
    }
    assert quota(hard) == Quota(name="q", cards=4, memory_mib=50_000, core_percent=0)


def test_what_is_not_named_is_not_limited() -> None:
    assert quota({"requests.sublet.dev/gpu": "1", "pods": "3"}) == Quota(name="q")


def test_a_value_that_cannot_be_read_allows_nothing() -> None:
    assert quota({"limits.sublet.dev/gpu-memory": "16Gi"}) == Quota(name="q", memory_mib=0)


def test_a_quota_with_a_scope_counts_for_every_pod() -> None:
    assert quota({"limits.sublet.dev/gpu": "1"}, scopes=["NotTerminating"]) == Quota(name="q", cards=1)


async def test_quotas_are_told_as_long_as_they_limit_something_of_ours(on: Cluster) -> None:
    events = Events()
    meta = {"name": "q", "namespace": "default"}
    async with running(Quotas(on.kube, events.submit).run):
        await eventually(lambda: events.seen == [QuotasListed()])
        await on.kube.create(
            RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": {"limits.sublet.dev/gpu": "2"}}}
        )
        await eventually(lambda: events.last() == QuotaSeen("default", Quota(name="q", cards=2)))
        changed = {"spec": {"hard": {"limits.sublet.dev/gpu": None, "pods": "3"}}}
        await on.kube.patch(RESOURCE_QUOTAS, "q", MergePatch(changed), namespace="default")
        await eventually(lambda: events.last() == QuotaGone("default", "q"))
