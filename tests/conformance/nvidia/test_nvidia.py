"""What pods written for NVIDIA's device plugin get."""

from dataclasses import replace
from typing import Any

import pytest

from sublet.cli.claims import claims_of
from tests.builders import container, pod
from tests.conformance.words import ALL, WHOLE, Cluster, card, cards, claimed, example, refusal, sample, whole

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-"
MIXED = {
    "name": "n1",
    "cards": [
        card(
            "A",
            40960,
            mig=True,
            partitions=[
                {"uuid": "MIG-1", "profile": "3g.20gb", "memoryMiB": 20096},
                {"uuid": "MIG-2", "profile": "3g.20gb", "memoryMiB": 20096},
            ],
        ),
        card("B", 40960),
    ],
}


def parts(card: str, *profiles: str) -> list[dict[str, Any]]:
    """Partitions named MIG-<card><number>; profiles as drivers write them."""
    return [
        {"uuid": f"MIG-{card}{at}", "profile": profile, "memoryMiB": 4864}
        for at, profile in enumerate(profiles, start=1)
    ]


DIVIDED = {
    "name": "n1",
    "cards": [
        card("A", 40960, mig=True, partitions=parts("A", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb+me")),
        card("B", 40960),
        card("C", 40960, mig=True, partitions=parts("C", "1g.5gb", "1g.5gb")),
        card("D", 40960, mig=True),
    ],
}


def asks(key: str, count: object = 1) -> dict[str, Any]:
    return pod("p", container("app", **{key: count}))


def test_the_sample_gets_a_whole_card_and_no_annotation_of_nvidia() -> None:
    [one] = example("nvidia")
    placed = Cluster(cards("n1", 8192)).place(one)
    assert placed["env"]["app"] == {"NVIDIA_VISIBLE_DEVICES": "n1/0"}
    assert sorted(placed["annotations"]) == ["cards.sublet.dev/app", "sublet.dev/decision"]
    assert claimed(one) == {"app": WHOLE}


def test_a_shared_card_is_a_share_that_promises_nothing() -> None:
    assert claimed(asks(SHARED, 2)) == {"app": (2, None, 0, False)}
    placed = Cluster(cards("n1", 8192, 8192)).place(asks(SHARED, 2))
    assert placed["containers"]["app"] == [
        {"card": f"n1/{at}", "index": at, "memoryMiB": 0, "corePercent": 0} for at in range(2)
    ]


def test_shares_are_on_distinct_cards_and_a_card_carries_sixteen() -> None:
    assert Cluster(cards("n1", 8192)).place(asks(SHARED, 2))["outcome"] == "held"
    outcomes = [Cluster(cards("n1", 8192)).seats([asks(SHARED)] * 17)]
    assert outcomes == [[{"app": ["n1/0"]}] * 16 + [{}]]


def test_a_whole_card_is_not_given_where_a_shared_one_is() -> None:
    cluster = Cluster(cards("n1", 8192))
    assert [cluster.place(asks(key))["outcome"] for key in (SHARED, GPU)] == ["placed", "held"]


# -- partitions


def test_a_profile_is_an_exclusive_claim_of_its_own_kind() -> None:
    document = claims_of(asks(f"{MIG}3g.20gb"), ALL)["containers"]["app"]
    assert (document["profile"], document["exclusive"], document["memoryMiB"]) == ("3g.20gb", True, None)


def test_a_partition_behaves_as_a_card() -> None:
    cluster = Cluster(MIXED)
    placed = [cluster.place(asks(f"{MIG}3g.20gb")) for _ in range(3)]
    assert [one["outcome"] for one in placed] == ["placed", "placed", "held"]
    assert placed[0]["containers"]["app"] == [
        {"card": "MIG-1", "index": 0, "memoryMiB": 20096, "corePercent": 100}
    ]
    assert placed[0]["env"]["app"] == {"NVIDIA_VISIBLE_DEVICES": "MIG-1"}
    assert placed[2]["reasons"] == {"InUse": 2, "ProfileMismatch": 1}


def test_two_partitions_may_be_asked_for_at_once() -> None:
    assert Cluster(MIXED).seats([asks(f"{MIG}3g.20gb", 2)]) == [{"app": ["MIG-1", "MIG-2"]}]


def test_whole_cards_and_shares_never_go_on_partitions() -> None:
    assert Cluster(MIXED).seats([asks(GPU), asks(GPU)]) == [{"app": ["B"]}, {}]
    share = pod("p", container("app", gpu_memory=1))
    assert Cluster(MIXED).seats([share]) == [{"app": ["B"]}]


def test_a_profile_that_nobody_has_is_held() -> None:
    held = Cluster(MIXED).place(asks(f"{MIG}1g.5gb"))
    assert (held["outcome"], held["reasons"]) == ("held", {"ProfileMismatch": 3})


def test_the_samples_for_partitions_get_those_that_exist() -> None:
    cluster = Cluster(DIVIDED)
    placed = {one["metadata"]["name"]: cluster.place(one) for one in sample("nvidia/partitions")}
    assert {name: _uuids(one) for name, one in placed.items()} == {
        "small": {"app": ["MIG-C1"]},
        "several": {"first": ["MIG-A2"], "second": ["MIG-A1", "MIG-C2"]},
        "media": {"app": ["MIG-A4"]},
        "beside": {"one": ["MIG-A3"], "whole": ["B"]},
        "too-many": {},
    }
    assert placed["several"]["env"] == {
        "first": {"NVIDIA_VISIBLE_DEVICES": "MIG-A2"},
        "second": {"NVIDIA_VISIBLE_DEVICES": "MIG-A1,MIG-C2"},
    }
    assert placed["several"]["annotations"]["cards.sublet.dev/second"] == "MIG-A1,MIG-C2"
    assert placed["too-many"]["reasons"] == {"InUse": 7, "NoPartitions": 1}


def _uuids(placed: dict[str, Any]) -> dict[str, list[str]]:
    return {name: [one["card"] for one in grants] for name, grants in placed["containers"].items()}


def test_a_partition_that_an_inventory_says_is_taken_is_not_given_again() -> None:
    held = {"pod": "ns/old", "container": "app", "card": "MIG-1", "exclusive": True}
    cluster = Cluster({**MIXED, "grants": [held]})
    assert cluster.seats([asks(f"{MIG}3g.20gb"), asks(f"{MIG}3g.20gb")]) == [{"app": ["MIG-2"]}, {}]


def test_two_kinds_in_one_container_are_refused() -> None:
    for other in (SHARED, f"{MIG}1g.5gb"):
        both = pod("p", container("app", **{GPU: 1, other: 1}))
        assert refusal(both)["code"] == "ConflictingKeys"


@pytest.mark.parametrize("value", ["10G", "16Gi", "5k", "3000m", "0.5", "0", "", 2**31, 2**62])
@pytest.mark.parametrize("key", [GPU, SHARED, f"{MIG}1g.5gb"])
def test_an_amount_that_is_no_count_of_cards_is_refused(key: str, value: object) -> None:
    found = refusal(asks(key, value))
    assert (found["code"], f"{key}={str(value)!r}" in found["message"]) == ("BadQuantity", True)


def test_an_exclusive_card_takes_no_claim_of_any_dialect() -> None:
    cluster = Cluster(cards("n1", 8192))
    assert cluster.place(asks(GPU))["outcome"] == "placed"
    for key, amount in (("aliyun.com/gpu-mem", 1), ("volcano.sh/gpu-memory", 1), ("sublet.dev/gpu-core", 1)):
        assert cluster.place(asks(key, amount))["reasons"] == {"Exclusive": 1}


def test_several_cards_are_listed_as_uuids() -> None:
    placed = Cluster(cards("n1", 8192, 8192)).place(asks(GPU, 2))
    assert placed["env"]["app"]["NVIDIA_VISIBLE_DEVICES"] == "n1/0,n1/1"
    assert claimed(asks(GPU, 2), replace(ALL, enabled=("nvidia",))) == {"app": whole(2)}
