"""The unit of ``aliyun.com/gpu-mem``: set for each pool of nodes, and one meaning for each pod."""

from typing import Any

import pytest

from sublet.contract.dialects.interface import Options
from sublet.contract.dialects.memoryunits import MemoryUnits, Pool
from sublet.model.claim import Requirement
from sublet.model.errors import BadRequest
from tests.builders import ask, container, pod

LARGE, SMALL = Pool("pool", "large", 1), Pool("pool", "small", 1024)
UNITS = MemoryUnits(pools=(LARGE, SMALL))
OUTSIDE = (Requirement(key="pool", operator="NotIn", values=("large",)),)


def required(*terms: tuple[str, str, list[str]]) -> dict[str, Any]:
    """Node affinity with one alternative for each of `terms`."""
    alternatives = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
        for key, operator, values in terms
    ]
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {name: {"nodeSelectorTerms": alternatives}}}}


def test_units_are_read_from_the_settings() -> None:
    read = MemoryUnits.read("GiB", ["pool=large:MiB", "pool=small:GiB"])
    assert read == UNITS
    assert [read.of_node({"pool": name}) for name in ("large", "small", "other")] == [1, 1024, 1024]
    assert read.of_node({}) == 1024


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["pool=large"], "'pool=large' says no unit"),
        (["pool=large:"], "'pool=large:' says no unit"),
        (["pool=large:GB"], "'pool=large:GB' has the unit 'GB'"),
        (["large:MiB"], "'large:MiB' does not say which nodes"),
        (["=large:MiB"], "does not say which nodes"),
        (["MiB"], "'MiB' does not say which nodes"),
        (["pool=a:MiB", "pool=a:GiB"], "pool='a' count aliyun.com/gpu-mem in two units"),
        (["pool=a:MiB", "zone=b:GiB"], "pool='a' and zone='b' would count aliyun.com/gpu-mem in two units"),
    ],
)
def test_a_pool_without_a_unit_or_with_two_is_refused(entries: list[str], message: str) -> None:
    with pytest.raises(BadRequest, match=message) as refused:
        MemoryUnits.read("GiB", entries)
    assert refused.value.hint


def test_two_labels_may_give_the_same_unit() -> None:
    read = MemoryUnits.read("GiB", ["pool=a:MiB", "zone=b:MiB", "pool=a:MiB"])
    assert read.of_node({"pool": "a", "zone": "b"}) == 1


@pytest.mark.parametrize(
    ("spec", "unit_mib"),
    [
        ({}, 1024),
        ({"nodeSelector": {"pool": "large"}}, 1),
        ({"nodeSelector": {"pool": "small"}}, 1024),
        ({"nodeSelector": {"disk": "fast"}}, 1024),
        (required(("pool", "In", ["large"])), 1),
        (required(("pool", "In", ["large", "small"])), 1024),
        (required(("pool", "In", ["large"]), ("disk", "In", ["fast"])), 1024),
        (required(("pool", "Exists", [])), 1024),
        (required(("pool", "NotIn", ["small"])), 1024),
    ],
)
def test_a_pod_is_read_in_another_unit_only_where_it_can_go_nowhere_else(
    spec: dict[str, Any], unit_mib: int
) -> None:
    units = UNITS.of_pod(pod("p", **spec))
    assert units == unit_mib


def test_a_pod_that_may_go_everywhere_keeps_to_the_nodes_of_its_unit() -> None:
    options = Options(gpu_mem_pools=(LARGE,))
    free = ask(pod("p", container(gpu_mem=4)), options=options)
    assert free.claims[0].memory_mib == 4096
    assert free.wishes.affinity == (OUTSIDE,)
    bound = ask(pod("p", container(gpu_mem=4), nodeSelector={"pool": "large"}), options=options)
    assert bound.claims[0].memory_mib == 4
    assert bound.wishes.affinity == ()


def test_every_alternative_of_a_pod_is_narrowed_but_those_that_match_nothing() -> None:
    options = Options(gpu_mem_pools=(LARGE,))
    spec = required(("disk", "In", ["fast"]))
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    spec["affinity"]["nodeAffinity"][name]["nodeSelectorTerms"].append({})
    found = ask(pod("p", container(gpu_mem=4), **spec), options=options).wishes.affinity
    assert found == ((Requirement(key="disk", operator="In", values=("fast",)), *OUTSIDE), ())


def test_pods_without_such_an_amount_go_everywhere() -> None:
    options = Options(gpu_mem_pools=(LARGE,))
    for manifest in (pod("p", container(gpu_count=1)), pod("p", container(gpu_memory=4))):
        assert ask(manifest, options=options).wishes.affinity == ()
