"""What pods written for gpushare get."""

import pytest

from sublet.contract.patching import admission_patch
from sublet.model.ids import DecisionId
from tests.builders import ask, container, pod
from tests.conformance.words import ALL, ALL_MIB, WHOLE, Cluster, cards, claimed, refusal, sample, used

MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def test_three_services_of_two_units_share_one_card_though_others_are_free() -> None:
    cluster = Cluster(cards("n1", 15360, 15360), cards("n2", 15360, 15360))
    assert cluster.seats(sample("gpushare/services")) == [{"app": ["n1/0"]}] * 3


def test_a_request_of_16276_is_a_whole_card_in_mib_and_larger_than_any_in_gib() -> None:
    [large] = sample("gpushare/whole-memory")
    in_mib = Cluster(used(cards("n1", 16276, 16276), _0=1), options=ALL_MIB)
    assert in_mib.seats([large]) == [{"app": ["n1/1"]}]
    held = Cluster(cards("n1", 16276)).place(large)
    assert held["outcome"] == "held"
    assert "LargerThanAnyNode" in held["reasons"]
    assert str(16276 * 1024) in held["message"]
    assert "16276 MiB" in held["message"]


def test_three_replicas_of_three_units_pack_on_a_card_of_15() -> None:
    cluster = Cluster(cards("n1", 15360, 15360))
    assert cluster.seats(sample("gpushare/stateful")) == [{"app": ["n1/0"]}] * 3


def test_a_job_takes_two_units_for_as_long_as_it_runs() -> None:
    [job] = sample("gpushare/job")
    assert claimed(job) == {"app": (1, 2048, 0, False)}


def test_a_users_own_visible_devices_never_beat_the_decision() -> None:
    [stubborn] = sample("gpushare/own-variable")
    placed = Cluster(used(cards("n1", 15360, 15360), _0=15000)).place(stubborn)
    assert placed["env"]["app"]["NVIDIA_VISIBLE_DEVICES"] == "n1/1"
    patch = admission_patch(
        stubborn,
        ask(dict(stubborn)),
        DecisionId("1"),
        placement=None,
        written=None,
        waiting="no room",
        options=ALL,
        key=b"",
    )
    [env] = [one["value"] for one in patch if one["path"] == "/spec/containers/0/env"]
    assert [one for one in env if one.get("value") == "0"] == []


def test_the_filter_of_the_design_document_takes_the_third_node() -> None:
    """8,138 free in two halves are not 8,138 free."""
    nodes = (
        used(cards("n1", 16276, 16276), _0=16276, _1=12207),
        used(cards("n2", 16276, 16276), _0=12207, _1=12207),
        used(cards("n3", 16276, 16276), _0=8138, _1=16276),
    )
    cluster = Cluster(*nodes, options=ALL_MIB)
    assert cluster.seats([pod("p", container("app", **{MEM: 8138}))]) == [{"app": ["n3/0"]}]


def test_the_bind_of_the_design_document_takes_the_card_that_fits_best() -> None:
    node = used(cards("n1", 16276, 16276, 16276, 16276), _0=16276 - 12207, _1=16276 - 8138, _2=16276 - 4069)
    cluster = Cluster(node, options=ALL_MIB)
    assert cluster.seats([pod("p", container("app", **{MEM: 8138}))]) == [{"app": ["n1/1"]}]


def test_equal_cards_are_taken_by_their_index() -> None:
    assert Cluster(cards("n1", 4096, 4096)).seats([pod("p", container("app", **{MEM: 1}))]) == [
        {"app": ["n1/0"]}
    ]


def test_both_containers_of_a_pod_start_and_each_is_told_its_own_share() -> None:
    """With gpushare itself the second never finds its pod."""
    two = pod("p", container("a", **{MEM: 1}), container("b", **{MEM: 2}))
    placed = Cluster(cards("n1", 4096, 4096)).place(two)
    own = "ALIYUN_COM_GPU_MEM_CONTAINER"
    assert [placed["env"][name][own] for name in "ab"] == ["1", "2"]
    assert {grant["card"] for grants in placed["containers"].values() for grant in grants} == {"n1/0"}
    assert placed["annotations"]["ALIYUN_COM_GPU_MEM_POD"] == "3"


def test_each_card_is_counted_with_its_own_memory() -> None:
    cluster = Cluster(cards("n1", 12288, 16384))
    assert cluster.seats([pod("p", container("app", **{MEM: 15}))]) == [{"app": ["n1/1"]}]


def test_a_count_of_cards_gives_whole_cards() -> None:
    """gpushare itself counts them and gives none, or all."""
    placed = Cluster(cards("n1", 4096, 4096)).place(pod("p", container("app", **{COUNT: 1})))
    assert placed["env"]["app"] == {"NVIDIA_VISIBLE_DEVICES": "n1/0"}
    assert claimed(pod("p", container("app", **{COUNT: 1}))) == {"app": WHOLE}


@pytest.mark.parametrize("value", ["10G", "16Gi", "5k", "3000m", "0", "", "-1", "1.5", 2**62])
@pytest.mark.parametrize("key", [MEM, COUNT])
def test_an_amount_that_is_no_plain_number_is_refused_with_its_unit(key: str, value: object) -> None:
    found = refusal(pod("p", container("app", **{key: value})))
    assert found["code"] == "BadQuantity"
    assert f"{key}={str(value)!r}" in found["message"]
    assert ("GiB" if key == MEM else "cards") in found["message"]


def test_memory_beyond_any_card_is_read_and_held() -> None:
    many = pod("p", container("app", **{MEM: 2**31}))
    assert claimed(many) == {"app": (1, 2**41, 0, False)}
    assert Cluster(cards("n1", 4096)).place(many)["outcome"] == "held"


def test_memory_and_count_in_one_container_are_refused() -> None:
    found = refusal(pod("p", container("app", **{MEM: 1, COUNT: 1})))
    assert (found["code"], MEM in found["message"], COUNT in found["message"]) == (
        "ConflictingKeys",
        True,
        True,
    )


@pytest.mark.parametrize(
    "key", ["ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_ASSIGNED", "ALIYUN_COM_GPU_MEM_ASSUME_TIME"]
)
def test_results_that_a_user_writes_are_refused(key: str) -> None:
    forged = pod("p", container("app", **{MEM: 1}), annotations={key: "0"})
    assert refusal(forged)["code"] == "ReservedKey"
