"""What pods written for HAMi on NVIDIA cards get."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from sublet.cli.claims import claims_of
from sublet.contract.dialects.interface import IN_A_CLUSTER
from tests.builders import container, pod
from tests.conformance.words import (
    ALL,
    WHOLE,
    Claimed,
    Cluster,
    card,
    cards,
    claimed,
    example,
    refusal,
    sample,
    used,
    whole,
)

COUNT, MEM, PERCENT, CORES, PRIORITY = (
    f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority")
)
ALONE = replace(ALL, enabled=("sublet", "hami"))
IN_CLUSTER = replace(ALL, enabled=IN_A_CLUSTER)
F4 = cards("n1", *[24576] * 4)
MIG_NODE = {
    "name": "n1",
    "cards": [
        card("A", 40960, mig=True, partitions=[{"uuid": "MIG-1", "profile": "3g.20gb", "memoryMiB": 19968}])
    ],
}
SHARE: Mapping[str, object] = {COUNT: 1, MEM: 3000}


def asks(limits: Mapping[str, object]) -> dict[str, Any]:
    return pod("p", container("app", **limits))


def wishing(annotations: Mapping[str, str], limits: Mapping[str, object] = SHARE) -> dict[str, Any]:
    return pod("p", container("app", **limits), annotations=annotations)


def test_the_samples_are_read() -> None:
    found = {one["metadata"]["name"]: claimed(one)["app"] for one in sample("hami/nvidia")}
    assert found == {
        "share": (1, 3000, 30, False),
        "count": whole(2),
        "fraction": (2, Fraction(50), 30, False),
        "exclusive": whole(2),
        "parallel": (2, Fraction(30), 30, False),
        "partition": WHOLE,
        "plain-0": (1, 1000, 0, False),
    }


def test_a_count_alone_is_as_much_with_hami_alone_and_beside_nvidia() -> None:
    count = asks({COUNT: 2})
    assert claimed(count, ALONE) == claimed(count) == {"app": whole(2)}
    assert claims_of(count, ALL)["dialects"] == ["nvidia"]
    assert claims_of(count, ALONE)["dialects"] == ["hami"]


def test_a_count_with_an_annotation_of_hami_speaks_hami() -> None:
    count = wishing({"nvidia.com/use-gputype": "A100"}, {COUNT: 2})
    assert claims_of(count, ALL)["dialects"] == ["hami"]
    assert claimed(count) == {"app": whole(2)}


def test_two_pods_of_one_card_each_never_share_it() -> None:
    two = [asks({COUNT: 1})] * 2
    assert Cluster(F4).seats(two) == [{"app": ["n1/0"]}, {"app": ["n1/1"]}]


def test_two_pods_fill_one_card_exactly() -> None:
    assert Cluster(F4).seats(example("hami")) == [{"app": ["n1/0"]}] * 2


def test_all_cores_want_the_card_alone() -> None:
    cluster = Cluster(cards("n1", 24576))
    assert cluster.place(asks({MEM: 3000, CORES: 100}))["outcome"] == "placed"
    assert cluster.place(asks({MEM: 3000}))["reasons"] == {"Exclusive": 1}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({MEM: 3000}, (1, 3000, 0, False)),
        ({CORES: 30}, (1, Fraction(100), 30, False)),
        ({CORES: 0}, (1, Fraction(100), 0, False)),
        ({COUNT: 3, CORES: 30}, (3, Fraction(100), 30, False)),
        ({MEM: 3000, PERCENT: 50}, (1, 3000, 0, False)),
        ({MEM: 3000, PERCENT: 0}, (1, 3000, 0, False)),
        ({COUNT: 1, PERCENT: 0}, WHOLE),
        ({COUNT: 1, PERCENT: 100}, WHOLE),
        ({COUNT: 1, PERCENT: 100, CORES: 50}, (1, Fraction(100), 50, False)),
        ({COUNT: 1, PERCENT: 1}, (1, Fraction(1), 0, False)),
        ({COUNT: 1, MEM: 2147483648}, (1, 2147483648, 0, False)),
    ],
)
def test_what_is_left_out_is_implied_as_with_hami(limits: dict[str, int], expected: Claimed) -> None:
    assert claimed(asks(limits)) == {"app": expected}


@pytest.mark.parametrize(
    "limits",
    [
        {COUNT: 1, PERCENT: 101},
        {COUNT: 1, PERCENT: -1},
        {COUNT: 1, CORES: 101},
        {COUNT: 0, MEM: 1},
        {COUNT: 2**62, MEM: 1},
        {MEM: "16Gi"},
        {MEM: "10G"},
        {MEM: "5k"},
        {MEM: "3000m"},
        {MEM: 0},
        {MEM: -1},
        {MEM: ""},
        {MEM: 2**62},
        {COUNT: 1, PRIORITY: 2},
    ],
)
def test_an_amount_that_hami_mangles_or_refuses_is_refused_as_written(limits: dict[str, object]) -> None:
    found = refusal(asks(limits))
    key, value = next(reversed(limits.items())) if COUNT in limits else next(iter(limits.items()))
    if limits.get(COUNT) in (0, 2**62):
        key, value = COUNT, limits[COUNT]
    assert found["code"] == "BadQuantity"
    assert f"{key}={str(value)!r}" in found["message"]


def test_more_cards_than_a_node_has_are_held_with_both_numbers() -> None:
    held = Cluster(cards("n1", 24576)).place(asks({COUNT: 2, MEM: 1}))
    assert held["message"].startswith("2 cards are asked for on one node; the largest node known has 1")


def test_a_priority_alone_claims_nothing() -> None:
    assert claimed(asks({PRIORITY: 1})) == {}


def test_results_are_written_as_hami_writes_them() -> None:
    manifest = pod(
        "p",
        {"name": "web"},
        container("a", **{COUNT: 2, MEM: 2500, CORES: 20}),
        container("b", **{MEM: 1000, PRIORITY: 0}),
        init=({"name": "wait"},),
    )
    placed = Cluster(F4).place(manifest)
    devices = ";;n1/0,NVIDIA,2500,20:n1/1,NVIDIA,2500,20:;n1/0,NVIDIA,1000,0:;"
    written = {key: value for key, value in placed["annotations"].items() if key.startswith("hami.io/")}
    assert written == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "0",
        "hami.io/vgpu-devices-to-allocate": devices,
        "hami.io/vgpu-devices-allocated": devices,
        "hami.io/bind-phase": "success",
        "hami.io/bind-time": "0",
    }
    assert placed["labels"]["hami.io/vgpu-node"] == "n1"
    assert placed["env"]["a"] == {
        "NVIDIA_VISIBLE_DEVICES": "n1/0,n1/1",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "2500m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "2500m",
        "CUDA_DEVICE_SM_LIMIT": "20",
    }
    assert placed["env"]["b"]["CUDA_TASK_PRIORITY"] == "0"


def test_a_limit_of_unknown_memory_is_empty_and_never_zero() -> None:
    node = {"name": "n1", "cards": [card("A", None)]}
    placed = Cluster(node, options=ALONE).place(asks({COUNT: 1}))
    assert placed["env"]["app"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == ""


def test_a_percentage_is_exact_to_the_mib_of_the_card() -> None:
    placed = Cluster(cards("n1", 15360)).place(asks({MEM: 4096}))
    assert placed["env"]["app"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"
    placed = Cluster(cards("n1", 15361)).place(asks({COUNT: 1, PERCENT: 33}))
    assert placed["env"]["app"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "5069m"


# -- annotations of the pod

MODELS = {
    "name": "n1",
    "cards": [
        card("A", 24576, model="NVIDIA GeForce GTX 1080 Ti"),
        card("B", 24576, model="NVIDIA A100"),
        card("C", 24576, model="Tesla T4"),
    ],
}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"nvidia.com/use-gputype": "a100,T4"}, "B"),
        ({"nvidia.com/nouse-gputype": "1080,a100"}, "C"),
        ({"nvidia.com/use-gpuuuid": "C"}, "C"),
        ({"nvidia.com/nouse-gpuuuid": "A"}, "B"),
        ({"nvidia.com/use-gputype": ""}, "A"),
        ({"nvidia.com/vgpu-mode": "hami-core"}, "A"),
        ({"nvidia.com/numa-bind": "false"}, "A"),
        ({"hami.io/gpu-scheduler-policy": "topology-aware"}, "A"),
        ({"hami.io/gpu-scheduler-policy": "binpack,numa"}, "A"),
    ],
)
def test_cards_are_chosen_as_the_annotations_say(annotations: dict[str, str], expected: str) -> None:
    assert Cluster(MODELS).seats([wishing(annotations)]) == [{"app": [expected]}]


def test_cards_are_bound_to_one_numa_node_as_the_annotation_says() -> None:
    held = [card(f"n1/{at}", 24576, numa=numa) for at, numa in enumerate((0, 1, 1, None))]
    two = {COUNT: 2, MEM: 3000}
    cluster = Cluster({"name": "n1", "cards": held})
    assert cluster.seats([wishing({"nvidia.com/numa-bind": "true"}, two)]) == [{"app": ["n1/1", "n1/2"]}]
    assert cluster.place(wishing({"nvidia.com/numa-bind": "true"}, {COUNT: 3, MEM: 3000}))["reasons"] == {
        "UnknownNuma": 1,
        "NotOnOneNuma": 3,
    }


def test_a_policy_of_nodes_and_one_of_cards() -> None:
    nodes = (used(cards("n1", 24576, 24576), _0=9000), cards("n2", 24576, 24576))
    pack = {"hami.io/node-scheduler-policy": "binpack", "hami.io/gpu-scheduler-policy": "spread"}
    assert Cluster(*nodes).seats([wishing(pack)]) == [{"app": ["n1/1"]}]
    spread = {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "binpack"}
    assert Cluster(*nodes).seats([wishing(spread)]) == [{"app": ["n2/0"]}]


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("hami.io/gpu-scheduler-policy", "mutex", "NotSupportedYet"),
        ("hami.io/gpu-scheduler-policy", "best", "BadAnnotation"),
        ("hami.io/node-scheduler-policy", "mutex", "BadAnnotation"),
        ("hami.io/device-scoring-weights", "slot=1,core=1,memory=3", "NotSupportedYet"),
        ("nvidia.com/numa-bind", "yes", "BadAnnotation"),
        ("nvidia.com/vgpu-mode", "mig", "NotSupportedYet"),
        ("nvidia.com/vgpu-mode", "hami-core-mig", "BadAnnotation"),
    ],
)
def test_an_annotation_that_cannot_be_honoured_is_never_ignored(key: str, value: str, code: str) -> None:
    found = refusal(wishing({key: value}))
    assert (found["code"], f"{key}={value!r}" in found["message"]) == (code, True)
    assert found["hint"]


def test_cards_of_one_numa_node_are_preferred_where_nothing_else_joins_them() -> None:
    held = [card(f"n1/{at}", 24576, numa=numa) for at, numa in enumerate((0, 1, 0, 1))]
    two = wishing({"hami.io/gpu-scheduler-policy": "numa"}, {COUNT: 2, MEM: 3000})
    assert Cluster({"name": "n1", "cards": held}).seats([two]) == [{"app": ["n1/0", "n1/2"]}]


def test_a_card_that_is_unhealthy_is_left_out_and_no_other() -> None:
    held = [card(f"n1/{at}", 24576, health="quarantined" if at == 2 else "healthy") for at in range(4)]
    cluster = Cluster({"name": "n1", "cards": held})
    found = [cluster.place(asks({COUNT: 1})) for _ in range(4)]
    assert [one["containers"]["app"][0]["index"] for one in found[:3]] == [0, 1, 3]
    assert found[3]["reasons"] == {"Unhealthy": 1, "InUse": 3}


def test_a_container_that_another_webhook_puts_in_front_shifts_nothing() -> None:
    """HAMi counts containers; who comes first after it was asked shifts all others."""
    manifest = pod("p", container("a", **{MEM: 2500}), container("b", **{MEM: 1000}))
    shifted = copy.deepcopy(manifest)
    shifted["spec"]["containers"].insert(0, {"name": "proxy"})
    for one, before in ((manifest, ""), (shifted, ";")):
        placed = Cluster(F4).place(one)
        assert [placed["env"][name]["CUDA_DEVICE_MEMORY_LIMIT_0"] for name in "ab"] == ["2500m", "1000m"]
        assert placed["annotations"]["hami.io/vgpu-devices-allocated"].startswith(f"{before}n1/0,NVIDIA,2500")


def test_a_name_with_dots_of_any_length_is_as_good_as_another() -> None:
    long = ".".join("a" * 62 for _ in range(4)) + ".b"
    for name in ("a.b.c", long):
        one = pod(name, container("app", **SHARE))
        assert Cluster(F4).place(one)["outcome"] == "placed"


def test_a_partition_that_hami_would_make_is_refused_with_the_way_to_one_that_exists() -> None:
    found = refusal(wishing({"nvidia.com/vgpu-mode": "mig"}))
    assert "nvidia.com/mig-<profile>: 1" in found["hint"]
    static = next(one for one in sample("hami/nvidia") if one["metadata"]["name"] == "partition")
    assert Cluster(MIG_NODE).seats([static]) == [{"app": ["MIG-1"]}]


def test_an_annotation_of_ours_that_says_something_else_is_refused() -> None:
    both = wishing({"nvidia.com/use-gputype": "A100", "sublet.dev/card-models": "T4"})
    assert refusal(both)["code"] == "ConflictingKeys"


def test_results_that_a_user_writes_are_refused() -> None:
    forged = wishing({"hami.io/vgpu-devices-allocated": "G0,NVIDIA,20000,100:;"})
    assert refusal(forged)["code"] == "ReservedKey"


def test_where_hami_is_off_its_resources_beside_a_count_are_refused() -> None:
    found = refusal(asks(SHARE), IN_CLUSTER)
    assert (found["code"], MEM in found["message"], "hami" in found["hint"]) == (
        "UnknownResource",
        True,
        True,
    )
    assert claimed(asks({MEM: 1}), IN_CLUSTER) == {}


def test_a_partition_or_a_shared_card_beside_hamis_resources_is_refused() -> None:
    for other in ("nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"):
        assert refusal(asks({MEM: 1, other: 1}))["code"] == "TwoDialects"
