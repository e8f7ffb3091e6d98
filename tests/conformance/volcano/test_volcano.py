"""What pods written for Volcano get."""

from dataclasses import replace
from fractions import Fraction

import pytest

from sublet.cli.claims import claims_of
from tests.builders import container, pod, sidecar
from tests.conformance.words import (
    ALL,
    WHOLE,
    Claimed,
    Cluster,
    cards,
    claimed,
    example,
    refusal,
    sample,
    used,
    whole,
)

MEMORY, NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
V = "volcano.sh/vgpu-"
EIGHT = cards("n1", *[11178] * 8)


def memory(mib: object, name: str = "app") -> dict[str, object]:
    return container(name, **{MEMORY: mib})


def test_two_pods_share_the_first_card_and_are_told_its_memory_under_both_names() -> None:
    cluster = Cluster(EIGHT)
    for one in example("volcano"):
        placed = cluster.place(one)
        assert placed["containers"]["app"] == [
            {"card": "n1/0", "index": 0, "memoryMiB": 1024, "corePercent": 0}
        ]
        assert placed["env"]["app"] == {
            "NVIDIA_VISIBLE_DEVICES": "n1/0",
            "VOLCANO_GPU_ALLOCATED": "1024",
            "VOLCANO_GPU_MEMORY_TOTAL": "11178",
            "VOLCANO_GPU_TOTAL": "11178",
        }
        written = {key: value for key, value in placed["annotations"].items() if "volcano.sh/" in key}
        assert written == {
            "volcano.sh/gpu-index": "0",
            "volcano.sh/gpu-assigned": "true",
            "volcano.sh/predicate-time": "0",
        }


def test_a_number_is_whole_cards() -> None:
    [one] = sample("volcano/number")
    placed = Cluster(EIGHT).place(one)
    assert placed["env"]["app"]["VOLCANO_GPU_ALLOCATED"] == "1"
    assert placed["annotations"]["volcano.sh/gpu-index"] == "0"
    assert claimed(one) == {"app": WHOLE}


def test_the_cards_of_several_containers_are_listed_together_and_each_sees_its_own() -> None:
    """Volcano's plugin shows every container all cards of its pod."""
    two = pod("p", container("a", **{NUMBER: 1}), container("b", **{NUMBER: 2}))
    placed = Cluster(EIGHT).place(two)
    assert placed["annotations"]["volcano.sh/gpu-index"] == "0,1,2"
    assert [placed["env"][name]["NVIDIA_VISIBLE_DEVICES"].count(",") for name in "ab"] == [0, 1]


def test_number_pods_hold_disjoint_cards() -> None:
    pods = [pod(f"p{at}", container("app", **{NUMBER: n})) for at, n in enumerate((2, 2, 4))]
    seats = Cluster(EIGHT).seats(pods)
    assert sorted(card for seat in seats for card in seat["app"]) == [f"n1/{at}" for at in range(8)]


def test_both_containers_of_a_pod_run() -> None:
    seats = Cluster(EIGHT).seats([pod("p", memory(1024, "a"), memory(1024, "b"))])
    assert seats == [{"a": ["n1/0"], "b": ["n1/0"]}]


def test_a_sidecar_counts_beside_the_container_that_it_serves() -> None:
    manifest = pod("p", memory(4096), init=(sidecar("side", **{MEMORY: 4096}),))
    assert Cluster(cards("n1", 6144)).place(manifest)["outcome"] == "held"
    assert Cluster(cards("n1", 8192)).place(manifest)["outcome"] == "placed"


def test_memory_and_number_pods_stand_side_by_side() -> None:
    """Volcano serves one of the two on a cluster."""
    cluster = Cluster(cards("n1", 11178, 11178))
    pods = [pod("share", memory(1024)), pod("whole", container("app", **{NUMBER: 1}))]
    assert cluster.seats(pods) == [{"app": ["n1/0"]}, {"app": ["n1/1"]}]


def test_a_node_whose_last_free_card_fails_takes_nobody_new() -> None:
    node = cards("n1", *[11178] * 4)
    node["cards"][3]["health"] = "quarantined"
    cluster = Cluster(used(node, _0=1, _1=1, _2=1))
    held = cluster.place(pod("p", container("app", **{NUMBER: 1})))
    assert (held["outcome"], held["reasons"]) == ("held", {"Unhealthy": 1, "InUse": 3})


def test_each_card_is_counted_with_its_own_memory() -> None:
    cluster = Cluster(cards("n1", 12288, 16384))
    assert cluster.seats([pod("p", memory(15000))]) == [{"app": ["n1/1"]}]


# -- memory over several cards


def test_claims_say_that_memory_may_grow_over_cards() -> None:
    document = claims_of(pod("p", memory(20000)), ALL)
    assert document["containers"]["app"] == {
        "kind": "main",
        "cards": 1,
        "memoryMiB": 20000,
        "memoryPercent": None,
        "corePercent": 0,
        "exclusive": False,
        "profile": None,
        "grows": True,
    }


@pytest.mark.parametrize(
    ("mib", "seats", "each"),
    [
        (10000, ["n1/0"], 10000),
        (10001, ["n1/0", "n1/1"], 5001),
        (20000, ["n1/0", "n1/1"], 10000),
        (25000, ["n1/0", "n1/1", "n1/2"], 8334),
        (40000, ["n1/0", "n1/1", "n1/2", "n1/3"], 10000),
    ],
)
def test_memory_is_spread_over_the_smallest_number_of_cards_in_equal_shares(
    mib: int, seats: list[str], each: int
) -> None:
    placed = Cluster(cards("n1", *[10000] * 4)).place(pod("p", memory(mib)))
    assert [grant["card"] for grant in placed["containers"]["app"]] == seats
    assert {grant["memoryMiB"] for grant in placed["containers"]["app"]} == {each}
    assert placed["annotations"]["volcano.sh/gpu-index"] == ",".join(seat[3:] for seat in seats)
    assert placed["env"]["app"]["VOLCANO_GPU_ALLOCATED"] == str(mib)


def test_one_card_elsewhere_is_preferred_to_two_here() -> None:
    cluster = Cluster(used(cards("n1", 10000, 10000), _0=4000, _1=4000), cards("n2", 40000))
    assert cluster.seats([pod("p", memory(12000))]) == [{"app": ["n2/0"]}]


def test_memory_beyond_all_cards_of_a_node_is_held_with_both_numbers() -> None:
    held = Cluster(cards("n1", 10000, 10000)).place(pod("p", memory(20001)))
    assert held["outcome"] == "held"
    assert held["reasons"] == {"InsufficientMemory": 2, "LargerThanAnyNode": 1}
    assert "20001 MiB" in held["message"]
    assert "20000 MiB" in held["message"]


def test_two_containers_may_both_spread() -> None:
    placed = Cluster(cards("n1", *[10000] * 4)).place(pod("p", memory(20000, "a"), memory(15000, "b")))
    counts = {name: len(grants) for name, grants in placed["containers"].items()}
    assert counts == {"a": 2, "b": 2}


# -- the unit, the virtual cards


def test_a_memory_factor_makes_the_unit_larger() -> None:
    options = replace(ALL, volcano_unit_mib=10)
    one = pod("p", memory(100))
    assert claimed(one, options) == {"app": (1, 1000, 0, False)}
    placed = Cluster(cards("n1", 2000), options=options).place(one)
    assert placed["env"]["app"]["VOLCANO_GPU_ALLOCATED"] == "1000"
    assert "10 MiB" in refusal(pod("p", memory("1Gi")), options)["message"]


def test_virtual_cards_of_the_samples() -> None:
    small, large, mixed = sample("volcano/vgpu")
    assert claimed(small) == {"app": (1, 1024, 0, False)}
    assert claimed(large) == {"app": (1, 10240, 0, False)}
    assert claimed(mixed) == {"left": (2, 2000, 0, False), "right": (2, 3000, 0, False)}
    placed = Cluster(cards("n1", 24576, 24576)).place(mixed)
    one, other = (f"n1/0,NVIDIA,{mib},0:n1/1,NVIDIA,{mib},0:;" for mib in (2000, 3000))
    written = placed["annotations"]
    assert written["volcano.sh/vgpu-ids-new"] == f"{one};{other}"
    assert written["volcano.sh/devices-to-allocate"] == f"{one};{other}"
    assert (written["volcano.sh/vgpu-node"], written["volcano.sh/bind-phase"]) == ("n1", "success")
    assert placed["env"]["right"] == {
        "NVIDIA_VISIBLE_DEVICES": "n1/0,n1/1",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "0",
    }


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({f"{V}number": 2}, whole(2)),
        ({f"{V}memory": 2048}, (1, 2048, 0, False)),
        ({f"{V}number": 1, f"{V}memory-percentage": 20}, (1, Fraction(20), 0, False)),
        ({f"{V}number": 1, f"{V}cores": 30}, (1, Fraction(100), 30, False)),
        ({f"{V}number": 2, f"{V}memory": 2048, f"{V}cores": 50}, (2, 2048, 50, False)),
    ],
)
def test_virtual_cards_are_read_as_hamis(limits: dict[str, int], expected: Claimed) -> None:
    assert claimed(pod("p", container("app", **limits))) == {"app": expected}


def test_a_percentage_is_of_the_card_and_never_nothing() -> None:
    limits = {f"{V}number": 1, f"{V}memory-percentage": 20}
    placed = Cluster(cards("n1", 16384)).place(pod("p", container("app", **limits)))
    assert placed["containers"]["app"][0]["memoryMiB"] == 3276
    assert placed["env"]["app"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3276m"


@pytest.mark.parametrize("beside", [{NUMBER: 1}, {f"{V}number": 1}])
def test_two_ways_to_ask_in_one_container_are_refused(beside: dict[str, int]) -> None:
    assert refusal(pod("p", container("app", **{MEMORY: 1, **beside})))["code"] == "ConflictingKeys"


@pytest.mark.parametrize("value", ["10G", "16Gi", "5k", "3000m", "0", "", "-1", 2**62])
def test_an_amount_that_is_no_plain_number_is_refused_with_its_unit(value: object) -> None:
    found = refusal(pod("p", memory(value)))
    assert (found["code"], "whole number of MiB" in found["message"]) == ("BadQuantity", True)


@pytest.mark.parametrize(
    "key", ["volcano.sh/gpu-index", "volcano.sh/predicate-time", "volcano.sh/vgpu-ids-new"]
)
def test_results_that_a_user_writes_are_refused(key: str) -> None:
    assert refusal(pod("p", memory(1), annotations={key: "0"}))["code"] == "ReservedKey"


def test_cards_may_be_chosen_by_uuid_and_modes_of_the_hardware_are_not_built() -> None:
    virtual = container("app", **{f"{V}number": 1, f"{V}memory": 1})
    chosen = pod("p", virtual, annotations={"volcano.sh/vgpu-use-gpuuuid": "n1/2"})
    assert Cluster(EIGHT).seats([chosen]) == [{"app": ["n1/2"]}]
    banned = pod("p", virtual, annotations={"volcano.sh/vgpu-nouse-gpuuuid": "n1/0,n1/1"})
    assert Cluster(EIGHT).seats([banned]) == [{"app": ["n1/2"]}]
    sliced = pod("p", virtual, annotations={"volcano.sh/vgpu-mode": "mig"})
    assert refusal(sliced)["code"] == "NotSupportedYet"
    assert "nvidia.com/mig-<profile>: 1" in refusal(sliced)["hint"]
