"""What each container of a pod claims, in every dialect, and what no fleet could satisfy."""

from fractions import Fraction
from typing import Any

import pytest

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.model.card import Vendor
from sublet.model.claim import Claim, ContainerKind
from sublet.model.reasons import Refusal, RefusalCode
from tests.builders import ask, container, pod, reading, sidecar

MIB = Options(gpu_mem_unit_mib=1)


def claim(**limits: object) -> Claim:
    [one] = ask(pod("pod", container("main", **limits))).claims
    return one


def refused(manifest: dict[str, Any], **how: Any) -> Refusal:
    found = reading(manifest, **how)
    assert isinstance(found, Refusal), found
    return found


def heirs(manifest: dict[str, Any]) -> dict[str, str]:
    return {one.container: one.heir for one in ask(manifest).claims}


# -- our own spelling


def test_a_count_alone_is_whole_cards_for_one_container() -> None:
    assert claim(gpu=2) == Claim(
        container="main",
        kind=ContainerKind.MAIN,
        dialect="sublet",
        cards=2,
        core_percent=100,
        exclusive=True,
    )


def test_memory_is_a_share_of_one_card_that_promises_no_compute() -> None:
    found = claim(gpu_memory=4096)
    assert (found.cards, found.memory_mib, found.memory_percent) == (1, 4096, None)
    assert (found.core_percent, found.exclusive) == (0, False)


def test_a_percentage_of_memory_is_of_the_card_that_is_chosen() -> None:
    found = claim(gpu_memory_percent=100)
    assert (found.memory_mib, found.memory_percent, found.exclusive) == (None, Fraction(100), False)


def test_compute_alone_leaves_the_memory_to_the_card() -> None:
    found = claim(gpu_core=100)
    assert (found.memory_mib, found.memory_percent, found.core_percent) == (None, None, 100)
    assert not found.exclusive


def test_a_count_beside_a_share_is_that_share_of_each_card() -> None:
    found = claim(gpu=3, gpu_memory=1024, gpu_core=30)
    assert (found.cards, found.memory_mib, found.core_percent, found.exclusive) == (3, 1024, 30, False)


def test_both_forms_of_memory_are_refused_with_both_values() -> None:
    refusal = refused(pod("pod", container(gpu_memory=1, gpu_memory_percent=2)))
    assert refusal.code is RefusalCode.CONFLICTING_KEYS
    assert f"{keys.GPU_MEMORY}='1'" in refusal.message
    assert f"{keys.GPU_MEMORY_PERCENT}='2'" in refusal.message


@pytest.mark.parametrize(
    ("limits", "written", "unit"),
    [
        ({"gpu": "0"}, "sublet.dev/gpu='0'", "cards"),
        ({"gpu": "0.5"}, "sublet.dev/gpu='0.5'", "cards"),
        ({"gpu": 1025}, "sublet.dev/gpu='1025'", "cards"),
        ({"gpu_memory": "16Gi"}, "sublet.dev/gpu-memory='16Gi'", "MiB"),
        ({"gpu_memory": "-1"}, "sublet.dev/gpu-memory='-1'", "MiB"),
        ({"gpu_memory_percent": 101}, "sublet.dev/gpu-memory-percent='101'", "percent"),
        ({"gpu_core": "3000m"}, "sublet.dev/gpu-core='3000m'", "percent"),
        ({"gpu": 1, "gpu_core": 0}, "sublet.dev/gpu-core='0'", "percent"),
        ({"nvidia": "5k"}, "nvidia.com/gpu='5k'", "cards"),
        ({"nvidia": 0}, "nvidia.com/gpu='0'", "cards"),
        ({"gpu_mem": "10G"}, "aliyun.com/gpu-mem='10G'", "GiB"),
        ({"gpu_mem": 0}, "aliyun.com/gpu-mem='0'", "GiB"),
        ({"gpu_count": "1.5"}, "aliyun.com/gpu-count='1.5'", "cards"),
    ],
)
def test_a_bad_amount_is_refused_as_written(limits: dict[str, object], written: str, unit: str) -> None:
    refusal = refused(pod("pod", container("main", **limits)))
    assert refusal.code is RefusalCode.BAD_QUANTITY
    assert written in refusal.message
    assert unit in refusal.message


def test_what_stands_in_requests_alone_is_no_claim() -> None:
    manifest = pod("pod", {"name": "main", "resources": {"requests": {keys.GPU: "1"}}})
    assert reading(manifest) is None


def test_a_pod_without_limits_is_not_ours() -> None:
    assert reading(pod("pod", {"name": "main"})) is None
    assert reading(pod("pod", {"name": "main", "resources": None})) is None
    assert reading({"metadata": {"name": "pod"}, "spec": {}}) is None


# -- other spellings


def test_nvidia_asks_for_whole_cards_of_its_own() -> None:
    found = claim(nvidia=2)
    assert (found.dialect, found.cards, found.exclusive, found.vendor) == ("nvidia", 2, True, Vendor.NVIDIA)


def test_gpu_mem_is_read_in_the_unit_of_the_cluster() -> None:
    assert claim(gpu_mem=3).memory_mib == 3 * 1024
    [found] = ask(pod("pod", container(gpu_mem=16276)), options=MIB).claims
    assert found.memory_mib == 16276
    refusal = refused(pod("pod", container(gpu_mem="1Gi")), options=MIB)
    assert "whole number of MiB" in refusal.message


def test_gpu_mem_of_all_containers_goes_on_one_card() -> None:
    first, second = ask(pod("pod", container("a", gpu_mem=1), container("b", gpu_mem=2))).claims
    assert first.one_card_group == second.one_card_group != ""


def test_gpu_count_is_whole_cards() -> None:
    found = claim(gpu_count=2)
    assert (found.cards, found.exclusive, found.memory_mib, found.one_card_group) == (2, True, None, "")


def test_gpu_mem_and_gpu_count_in_one_container_are_refused() -> None:
    refusal = refused(pod("pod", container(gpu_mem=1, gpu_count=2)))
    assert refusal.code is RefusalCode.CONFLICTING_KEYS
    assert "aliyun.com/gpu-mem='1'" in refusal.message
    assert "aliyun.com/gpu-count='2'" in refusal.message


def test_two_dialects_in_one_container_are_refused_and_in_one_pod_are_not() -> None:
    refusal = refused(pod("pod", container(gpu_memory=1, nvidia=1)))
    assert refusal.code is RefusalCode.TWO_DIALECTS
    assert "nvidia.com/gpu='1'" in refusal.message
    assert "sublet.dev/gpu-memory='1'" in refusal.message
    mixed = ask(pod("pod", container("a", gpu_memory=1), container("b", nvidia=1), container("c", gpu_mem=1)))
    assert mixed.dialects == ("gpushare", "nvidia", "sublet")


def test_foreign_names_count_in_managed_namespaces_alone() -> None:
    foreign = pod("pod", container(nvidia=1))
    assert reading(foreign, managed=False) is None
    assert reading(foreign, managed=True) is not None
    both = pod("pod", container("a", nvidia="no number"), container("b", gpu=1))
    [only] = [one for one in [reading(both, managed=False)] if one is not None]
    assert not isinstance(only, Refusal)
    assert [one.container for one in only.claims] == ["b"]
    assert refused(both, managed=True).code is RefusalCode.BAD_QUANTITY


def test_a_dialect_that_is_not_enabled_is_not_read() -> None:
    assert reading(pod("pod", container(gpu_mem=1)), options=Options(enabled=("sublet", "nvidia"))) is None


# -- init containers and sidecars


def test_an_init_container_hands_its_slot_to_the_next_claiming_container() -> None:
    manifest = pod(
        "pod",
        {"name": "plain"},
        container("main", gpu_memory=4),
        container("other", gpu_memory=5),
        init=(container("first", gpu_memory=1), container("second", gpu_memory=9)),
    )
    assert heirs(manifest) == {"first": "main", "second": "main", "main": "", "other": ""}


def test_a_sidecar_takes_over_from_those_before_it() -> None:
    manifest = pod(
        "pod",
        container("main", gpu=1),
        init=(container("a", gpu=1), sidecar("side", gpu=1), container("b", gpu=1)),
    )
    assert heirs(manifest) == {"a": "side", "side": "", "b": "main", "main": ""}
    kinds = [one.kind for one in ask(manifest).claims]
    assert kinds == [ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.INIT, ContainerKind.MAIN]


def test_init_containers_that_nobody_follows_hand_on_to_the_last_of_them() -> None:
    manifest = pod("pod", {"name": "main"}, init=(container("a", gpu=1), container("b", gpu=1)))
    assert heirs(manifest) == {"a": "b", "b": ""}


def test_an_init_container_that_wants_more_cards_than_its_heir_is_refused() -> None:
    manifest = pod("pod", container("main", gpu=1), init=(container("setup", gpu=2),))
    refusal = refused(manifest)
    assert refusal.code is RefusalCode.INIT_LARGER_THAN_HEIR
    assert "'setup' asks for 2 cards" in refusal.message
    assert "'main', which takes over its slot, for 1" in refusal.message


def test_an_init_container_may_want_more_memory_than_its_heir() -> None:
    assert heirs(pod("pod", container(gpu_memory=1), init=(container("setup", gpu_memory=9),)))["setup"]


def test_a_container_knows_its_place_in_the_pod() -> None:
    manifest = pod(
        "pod",
        {"name": "plain"},
        container("main", gpu_mem=1),
        init=({"name": "wait"}, sidecar("side", gpu_mem=1)),
    )
    assert {one.container: one.position for one in ask(manifest).claims} == {"main": 1, "side": 3}


@pytest.mark.parametrize("beside", [{}, {"gpu": 1}], ids=["alone", "beside a claim"])
def test_an_unknown_resource_of_ours_is_refused_by_name(beside: dict[str, object]) -> None:
    refusal = refused(
        pod("pod", container("main", **{**beside, "sublet.dev/gpu-cores": "30"})), managed=False
    )
    assert refusal.code is RefusalCode.UNKNOWN_RESOURCE
    assert "sublet.dev/gpu-cores" in refusal.message
    assert keys.GPU_CORE in refusal.hint


# -- what the pod takes of its node


def test_a_slot_and_the_totals_are_counted_as_kube_scheduler_does() -> None:
    manifest = pod(
        "pod",
        container("a", gpu_memory=10),
        container("b", gpu_memory=20, gpu_core=5),
        init=(container("setup", gpu_memory=50), sidecar("side", gpu_memory=3)),
    )
    assert ask(manifest).resources == {keys.GPU_MEMORY: 50, keys.GPU_CORE: 5, keys.SLOT: 3}


def test_the_host_is_asked_for_the_larger_of_init_steps_and_all_others() -> None:
    def uses(name: str, cpu: str, memory: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}} | more

    main = container("main", gpu=1, cpu="500m", memory="1Gi")
    side = uses("side", "250m", "256Mi", restartPolicy="Always")
    manifest = pod("pod", main, init=(side, uses("setup", "2", "128Mi")), overhead={"cpu": "10m"})
    found = ask(manifest)
    assert (found.cpu_milli, found.memory_mib) == (2250 + 10, 1024 + 256)


@pytest.mark.parametrize(
    ("whole", "cpu_milli", "memory_mib"),
    [
        ({"requests": {"cpu": "3"}}, 3000, 1024),
        ({"requests": {"cpu": "3", "memory": "2Gi"}}, 3000, 2048),
        ({"limits": {"cpu": "4", "memory": "4Gi"}}, 500, 1024),
    ],
    ids=["cpu", "cpu and memory", "limits alone"],
)
def test_what_the_pod_asks_of_the_host_as_a_whole_counts_instead(
    whole: dict[str, dict[str, str]], cpu_milli: int, memory_mib: int
) -> None:
    found = ask(pod("pod", container(gpu=1, cpu="500m", memory="1Gi"), resources=whole))
    assert (found.cpu_milli, found.memory_mib) == (cpu_milli, memory_mib)


def test_limits_of_the_whole_pod_are_its_requests_where_nothing_else_is_written() -> None:
    found = ask(pod("pod", container(gpu=1), resources={"limits": {"cpu": "4"}}))
    assert (found.cpu_milli, found.memory_mib) == (4000, 0)


def test_a_quantity_of_the_host_that_cannot_be_read_is_refused() -> None:
    refusal = refused(pod("pod", container(gpu=1, cpu="lots")))
    assert refusal.code is RefusalCode.UNREADABLE
    assert "'lots'" in refusal.message


def test_the_owner_and_the_named_node_are_read() -> None:
    found = ask(pod("pod", owner=("ReplicaSet", "uid-1"), nodeName="n1", priority=7))
    assert (found.owner, found.owner_kind, found.node_name, found.priority) == (
        "uid-1",
        "ReplicaSet",
        "n1",
        7,
    )


def test_a_pod_of_too_many_claims_is_refused_with_both_numbers() -> None:
    many = [container(f"c{number}", gpu_memory=1) for number in range(65)]
    refusal = reading(pod("many", *many))
    assert isinstance(refusal, Refusal)
    assert refusal.code is RefusalCode.TOO_MANY_CLAIMS
    assert "65" in refusal.message
    assert "64" in refusal.message
