"""ResourceQuotas: our keys alone are read, and nothing that cannot be read is unlimited."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sublet_scheduler.core.events import QuotaGone, QuotaSeen, QuotasListed
from sublet_scheduler.core.limits import Quota
from sublet_scheduler.shell.quotas import Quotas, read_quota

from sublet.contract.dialects.interface import HAMI_NAME, NATIVE_NAME, Options
from sublet.kube.kind import RESOURCE_QUOTAS
from sublet.kube.port import MergePatch
from tests.eventually import eventually
from tests.unit.scheduler_shell.cluster import Cluster, cluster
from tests.unit.scheduler_shell.test_watches import Events, running


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        yield built


HAMI = Options(enabled=(NATIVE_NAME, HAMI_NAME))


def quota(hard: dict[str, Any], *, options: Options = Options(), **spec: Any) -> Quota:  # noqa: B008
    body = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": hard, **spec}}
    seen = read_quota(json.dumps(body).encode(), options=options)
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


def test_keys_of_a_dialect_count_where_it_is_on_and_the_lower_limit_holds() -> None:
    hard = {"limits.nvidia.com/gpumem": "3000", "limits.nvidia.com/gpucores": "0"}
    assert quota(hard) == Quota(name="q")
    assert quota(hard, options=HAMI) == Quota(name="q", memory_mib=3_000, core_percent=0)
    both = hard | {"limits.sublet.dev/gpu-memory": "2000", "limits.sublet.dev/gpu-core": "50"}
    assert quota(both, options=HAMI) == Quota(name="q", memory_mib=2_000, core_percent=0)


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
