"""What pods written for gpushare get."""

from dataclasses import replace

import pytest
from sublet_agent.core.slots import wanted_count

from sublet.contract.dialects.gpushare import GPUSHARE
from sublet.contract.dialects.memoryunits import Pool
from sublet.contract.patching import admission_patch
from sublet.model.ids import DecisionId
from tests.builders import ask, card, container, pod
from tests.conformance.words import (
    ALL,
    ALL_MIB,
    WHOLE,
    Cluster,
    cards,
    claimed,
    example,
    refusal,
    sample,
    used,
)

MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def test_three_services_of_two_units_share_one_card_though_others_are_free() -> None:
    cluster = Cluster(cards("n1", 15360, 15360), cards("n2", 15360, 15360))
    assert cluster.seats(example("gpushare")) == [{"app": ["n1/0"]}] * 3


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


TWO_UNITS = replace(ALL, gpu_mem_pools=(Pool("pool", "large", 1),))
"""The nodes with pool=large count in MiB, all others in GiB."""


def test_a_pod_whose_user_named_its_node_gets_a_card_there_or_is_refused_at_once() -> None:
    """With gpushare such a pod has no card, and dies when it starts."""
    cluster = Cluster(cards("n1", 2048, 2048), cards("n2", 4096))
    bound = pod("p", container("app", **{MEM: 2}), nodeName="n1")
    assert cluster.place(bound)["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] == "0"
    refused = cluster.place(pod("q", container("app", **{MEM: 3}), nodeName="n1"))
    assert (refused["outcome"], refused["reasons"]) == (
        "refused",
        {"NodeSelector": 1, "InsufficientMemory": 2},
    )
    assert "spec.nodeName='n1'" in refused["message"]


def test_an_unhealthy_card_gets_nothing_though_nobody_keeps_a_config_map_of_it() -> None:
    node = cards("n1", 4096, 4096)
    node["cards"][1]["health"] = "condemned"
    whole_card = pod("p", container("app", **{MEM: 4}))
    cluster = Cluster(node)
    assert cluster.seats([whole_card]) == [{"app": ["n1/0"]}]
    assert cluster.place(whole_card)["reasons"] == {"Unhealthy": 1, "InsufficientMemory": 1}


def test_eight_large_cards_counted_in_mib_are_one_number_and_few_slots() -> None:
    """As devices of the kubelet they would be more than a million, over the limit of one message."""
    held = [card(f"GPU-{at}", index=at, gib=None) for at in range(8)]
    large = [replace(one, memory_mib=143771) for one in held]
    totals = GPUSHARE.totals(large, shares_per_card=16, options=ALL_MIB)
    assert totals == {MEM: 8 * 143771, COUNT: 8}
    assert wanted_count(cards=8, shares_per_card=16) == 128


def test_a_number_means_the_same_wherever_the_pod_may_go() -> None:
    """8 is 8 GiB for a pod that names no pool: the node that counts in MiB is not for it, however empty."""
    large = {**cards("large", 16276), "labels": {"pool": "large"}}
    cluster = Cluster(large, cards("other", 10240), options=TWO_UNITS)
    free = pod("free", container("app", **{MEM: 8}))
    bound = pod("bound", container("app", **{MEM: 8138}), nodeSelector={"pool": "large"})
    assert claimed(free, TWO_UNITS) == {"app": (1, 8192, 0, False)}
    assert claimed(bound, TWO_UNITS) == {"app": (1, 8138, 0, False)}
    assert cluster.seats([free, bound]) == [{"app": ["other/0"]}, {"app": ["large/0"]}]
    full = cluster.place(free)
    assert (full["outcome"], full["reasons"]) == ("held", {"OtherMemoryUnit": 1, "InsufficientMemory": 1})
    lost = Cluster(large, options=TWO_UNITS).place(free)
    assert lost["reasons"] == {"OtherMemoryUnit": 1}
    assert "name the node's pool in the pod's node selector" in lost["message"]


def test_everything_that_is_written_is_in_the_unit_of_the_pods_node() -> None:
    large = {**cards("large", 16276), "labels": {"pool": "large"}}
    cluster = Cluster(large, cards("other", 10240), options=TWO_UNITS)
    bound = cluster.place(pod("b", container("app", **{MEM: 8138}), nodeSelector={"pool": "large"}))
    free = cluster.place(pod("f", container("app", **{MEM: 8})))
    counted = cluster.place(pod("c", container("app", **{COUNT: 1}), nodeSelector={"pool": "large"}))
    names = [f"ALIYUN_COM_GPU_MEM_{name}" for name in ("CONTAINER", "POD", "DEV")]
    assert [bound["env"]["app"][name] for name in names] == ["8138", "8138", "16276"]
    assert [free["env"]["app"][name] for name in names] == ["8", "8", "10"]
    assert counted["outcome"] == "held"
    empty = Cluster(large, options=TWO_UNITS).place(pod("c", container("app", **{COUNT: 1})))
    assert [empty["annotations"][name] for name in names[1:]] == ["16276", "16276"]


ISOLATES_NOT = {"cgpu.disable.isolation": "true"}


def test_shares_on_a_node_without_isolation_are_told_so_and_nobody_else_is() -> None:
    cluster = Cluster({**cards("n1", 8192, 8192), "labels": ISOLATES_NOT})
    share = cluster.place(pod("p", container("app", **{MEM: 1})))
    assert share["env"]["app"]["CGPU_DISABLE"] == "true"
    whole = cluster.place(pod("w", container("app", **{COUNT: 1})))
    assert "CGPU_DISABLE" not in whole["env"]["app"]
    for labels in ({}, {"cgpu.disable.isolation": "false"}):
        isolated = Cluster({**cards("n1", 4096), "labels": labels})
        assert "CGPU_DISABLE" not in isolated.place(pod("p", container("app", **{MEM: 1})))["env"]["app"]


@pytest.mark.parametrize("some_node", [True, False])
def test_where_the_runtime_reads_the_variables_that_of_isolation_is_asked_for_where_a_node_has_the_label(
    some_node: bool,
) -> None:
    manifest = pod("p", container("app", **{MEM: 1}))
    patch = admission_patch(
        manifest,
        ask(manifest),
        DecisionId("1"),
        placement=None,
        written=None,
        waiting="no room",
        options=ALL,
        key=b"",
        node_labels=set(ISOLATES_NOT.items()) if some_node else (),
    )
    [env] = [one["value"] for one in patch if one["path"] == "/spec/containers/0/env"]
    found = [one["valueFrom"]["fieldRef"]["fieldPath"] for one in env if one["name"] == "CGPU_DISABLE"]
    assert found == ["metadata.annotations['cgpu-disable.env.sublet.dev/app']"] * some_node
    placed = Cluster({**cards("n1", 4096), "labels": ISOLATES_NOT}).place(manifest)
    assert placed["annotations"]["cgpu-disable.env.sublet.dev/app"] == "true"


@pytest.mark.parametrize(
    "key", ["ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_ASSIGNED", "ALIYUN_COM_GPU_MEM_ASSUME_TIME"]
)
def test_results_that_a_user_writes_are_refused(key: str) -> None:
    forged = pod("p", container("app", **{MEM: 1}), annotations={key: "0"})
    assert refusal(forged)["code"] == "ReservedKey"
