"""Pods of all dialects side by side: one card, one pod, one node's totals, one scheduler."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.totals import foreign_totals, totals_patch, wanted_totals

from sublet.cli.claims import claims_of
from sublet.contract import dialects
from sublet.contract.dialects.interface import IN_A_CLUSTER, Options
from sublet.contract.patching import admission_patch
from sublet.model.card import Card, Partition, Vendor
from sublet.model.ids import CardId, DecisionId, NodeName
from tests import builders
from tests.builders import ask, container, pod
from tests.conformance.words import ALL, Cluster, cards, claimed, refusal

SHARES: dict[str, dict[str, object]] = {
    "sublet": {"sublet.dev/gpu-memory": 1024},
    "nvidia": {"nvidia.com/gpu.shared": 1},
    "gpushare": {"aliyun.com/gpu-mem": 1},
    "volcano": {"volcano.sh/gpu-memory": 1024},
    "qgpu": {"tke.cloud.tencent.com/qgpu-core": 5, "tke.cloud.tencent.com/qgpu-memory": 1},
    "elastic-gpu": {"elasticgpu.io/gpu-memory": 1024},
    "vcuda": {"tencent.com/vcuda-core": 5, "tencent.com/vcuda-memory": 4},
    "hami": {"nvidia.com/gpumem": 1024},
}


def test_every_dialect_is_in_one_list_under_the_name_that_outputs_show() -> None:
    names = "sublet nvidia amd gpushare volcano qgpu elastic-gpu vcuda hami kai"
    assert list(dialects.BY_NAME) == names.split()
    assert set(dialects.BY_NAME) - set(IN_A_CLUSTER) == {"hami"}
    assert Options().enabled == IN_A_CLUSTER


# -- one container, one pod, one card


def test_pods_of_all_dialects_share_one_card() -> None:
    cluster = Cluster(cards("n1", 16384))
    seats = [cluster.place(pod(name, container("app", **limits))) for name, limits in SHARES.items()]
    seats.append(cluster.place(pod("kai", {"name": "app"}, annotations={"gpu-memory": "1024"})))
    assert {one["outcome"] for one in seats} == {"placed"}
    assert {grant["card"] for one in seats for grant in one["containers"]["app"]} == {"n1/0"}


def test_containers_of_all_dialects_share_one_pod_and_each_sees_its_own_words() -> None:
    many = pod(
        "p",
        *(container(name, **limits) for name, limits in SHARES.items()),
        {"name": "kai"},
        annotations={"gpu-memory": "1024", "gpu-fraction-container-name": "kai"},
    )
    placed = Cluster(cards("n1", 16384)).place(many)
    assert claims_of(many, ALL)["dialects"] == sorted([*SHARES, "kai"])
    own = {
        "gpushare": "ALIYUN_COM_GPU_MEM_IDX",
        "volcano": "VOLCANO_GPU_TOTAL",
        "elastic-gpu": "GPU",
        "vcuda": "LD_LIBRARY_PATH",
        "hami": "CUDA_DEVICE_MEMORY_LIMIT_0",
        "kai": "GPU_PORTION",
    }
    assert {name for name, variable in own.items() if variable in placed["env"][name]} == set(own)
    assert [name for name in SHARES if len(placed["env"][name]) == 1] == ["sublet", "nvidia", "qgpu"]


@pytest.mark.parametrize("one", SHARES)
@pytest.mark.parametrize("other", SHARES)
def test_two_dialects_in_one_container_are_refused(one: str, other: str) -> None:
    if one < other:
        found = refusal(pod("p", container("app", **SHARES[one], **SHARES[other])))
        assert found["code"] == "TwoDialects"
        assert all(key in found["message"] for key in (*SHARES[one], *SHARES[other]))


MEMORY_KEYS = {
    "sublet.dev/gpu-memory": {},
    "aliyun.com/gpu-mem": {},
    "volcano.sh/gpu-memory": {},
    "volcano.sh/vgpu-memory": {"volcano.sh/vgpu-number": 1},
    "tke.cloud.tencent.com/qgpu-memory": {"tke.cloud.tencent.com/qgpu-core": 5},
    "elasticgpu.io/gpu-memory": {},
    "elasticgpu.com/gpu-memory": {},
    "tencent.com/vcuda-memory": {"tencent.com/vcuda-core": 5},
    "nvidia.com/gpumem": {"nvidia.com/gpu": 1},
}
"""Each with what must stand beside it."""
COUNT_KEYS = (
    "sublet.dev/gpu",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.5gb",
    "amd.com/gpu",
    "aliyun.com/gpu-count",
    "volcano.sh/gpu-number",
    "volcano.sh/vgpu-number",
)
BAD_AMOUNTS = ("10G", "16Gi", "5k", "3000m", "0.5", "1e3", "0", "-1", "", 2**62)


@pytest.mark.parametrize("value", BAD_AMOUNTS)
@pytest.mark.parametrize("key", [*MEMORY_KEYS, *COUNT_KEYS])
def test_no_dialect_takes_an_amount_that_is_no_plain_number(key: str, value: object) -> None:
    found = refusal(pod("p", container("app", **{**MEMORY_KEYS.get(key, {}), key: value})))
    assert (found["code"], f"{key}={str(value)!r}" in found["message"]) == ("BadQuantity", True)
    assert found["hint"]


@pytest.mark.parametrize("key", MEMORY_KEYS)
def test_an_amount_beyond_32_bits_is_never_taken_for_nothing(key: str) -> None:
    many = pod("p", container("app", **{**MEMORY_KEYS[key], key: 2**31 if "qgpu" not in key else 2**30}))
    held = Cluster(cards("n1", 16384)).place(many)
    assert (held["outcome"], "LargerThanAnyNode" in held["reasons"]) == ("held", True)


@pytest.mark.parametrize("key", COUNT_KEYS)
def test_more_cards_than_any_machine_has_are_refused_and_more_than_a_node_has_are_held(key: str) -> None:
    assert refusal(pod("p", container("app", **{key: 2**31})))["code"] == "BadQuantity"
    assert Cluster(cards("n1", 16384)).place(pod("p", container("app", **{key: 2})))["outcome"] == "held"


def test_a_dialect_that_is_off_is_left_to_others() -> None:
    for name, limits in SHARES.items():
        off = replace(ALL, enabled=tuple(one for one in ALL.enabled if one != name))
        assert claimed(pod("p", container("app", **limits)), off) == {}


# -- schedulers


def admitted(manifest: dict[str, Any], options: Options) -> dict[str, Any]:
    patch = admission_patch(
        manifest,
        ask(manifest, options=options),
        DecisionId("1"),
        placement=None,
        written=None,
        waiting="no room",
        options=options,
        key=b"",
    )
    found: dict[str, Any] = jsonpatch.apply_patch(manifest, patch)
    return found


def named(scheduler: str, dialect: str = "volcano") -> dict[str, Any]:
    return pod("p", container("app", **SHARES[dialect]), schedulerName=scheduler)


@pytest.mark.parametrize("scheduler", ["volcano", "kai-scheduler", "hami-scheduler"])
def test_the_scheduler_of_another_system_makes_way_for_the_default_one(scheduler: str) -> None:
    assert admitted(named(scheduler), ALL)["spec"]["schedulerName"] == "default-scheduler"
    assert claims_of(named(scheduler), ALL)["schedulerName"] == {
        "from": scheduler,
        "to": "default-scheduler",
    }


@pytest.mark.parametrize(
    ("manifest", "options"),
    [
        (named("volcano"), replace(ALL, keep_scheduler_name=True)),
        (named("hami-scheduler"), Options()),
        (named("my-scheduler"), ALL),
        (named("volcano", "sublet"), ALL),
    ],
    ids=["a setting keeps it", "its dialect is off", "nobody's scheduler", "a native claim"],
)
def test_other_schedulers_are_kept(manifest: dict[str, Any], options: Options) -> None:
    kept = manifest["spec"]["schedulerName"]
    assert admitted(manifest, options)["spec"]["schedulerName"] == kept
    assert "schedulerName" not in claims_of(manifest, options)


# -- totals


def node_of(*held: Card, capacity: dict[str, int] | None = None) -> Any:
    fleet, name = Fleet(), NodeName("n1")
    state = fleet.node(name)
    state.facts = NodeFacts(name=name, capacity=capacity or {}, allocatable=capacity or {})
    fleet.set_inventory(name, builders.inventory("n1", *held))
    return state


def card(uuid: str, mib: int | None, index: int, vendor: Vendor = Vendor.NVIDIA, *parts: Partition) -> Card:
    return Card(id=CardId(uuid), index=index, vendor=vendor, memory_mib=mib, partitions=parts)


MIXED = (
    card("A", 12_288, 0),
    card("B", 16_276, 1),
    card("C", None, 2),
    card("D", 65_536, 3, Vendor.AMD),
    card(
        "E",
        40_960,
        4,
        Vendor.NVIDIA,
        Partition(uuid="E1", profile="3g.20gb", memory_mib=20_096),
        Partition(uuid="E2", profile="1g.5gb", memory_mib=4_864),
        Partition(uuid="E3", profile="1g.5gb", memory_mib=4_864),
    ),
)


def test_totals_of_a_mixed_node_count_each_card_by_itself() -> None:
    """Cards of 12,288, 16,276 and unknown MiB of NVIDIA, one of AMD, one in partitions."""
    assert wanted_totals(node_of(*MIXED), Options()) == {
        "sublet.dev/gpu": 64,
        "sublet.dev/gpu-memory": 12_288 + 16_276 + 65_536,
        "sublet.dev/gpu-memory-percent": 400,
        "sublet.dev/gpu-core": 400,
        "nvidia.com/gpu": 3,
        "nvidia.com/gpu.shared": 48,
        "nvidia.com/mig-3g.20gb": 1,
        "nvidia.com/mig-1g.5gb": 2,
        "amd.com/gpu": 1,
        "aliyun.com/gpu-mem": 12 + 15,
        "aliyun.com/gpu-count": 3,
        "volcano.sh/gpu-memory": 12_288 + 16_276,
        "volcano.sh/gpu-number": 3,
        "volcano.sh/vgpu-number": 48,
        "volcano.sh/vgpu-memory": 12_288 + 16_276,
        "volcano.sh/vgpu-memory-percentage": 300,
        "volcano.sh/vgpu-cores": 300,
        "tke.cloud.tencent.com/qgpu-core": 300,
        "tke.cloud.tencent.com/qgpu-core-greedy": 4800,
        "tke.cloud.tencent.com/qgpu-memory": 12 + 15,
        "elasticgpu.io/gpu-core": 300,
        "elasticgpu.com/gpu-core": 300,
        "elasticgpu.io/gpu-memory": 12_288 + 16_276,
        "elasticgpu.com/gpu-memory": 12_288 + 16_276,
        "tencent.com/vcuda-core": 300,
        "tencent.com/vcuda-memory": 48 + 63,
    }


def test_with_hami_on_a_count_of_cards_is_of_shares() -> None:
    totals = wanted_totals(node_of(*MIXED[:2]), ALL)
    assert {key: totals[key] for key in ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores")} == {
        "nvidia.com/gpu": 32,
        "nvidia.com/gpumem": 12_288 + 16_276,
        "nvidia.com/gpucores": 200,
    }


def test_dialects_that_are_off_have_no_totals() -> None:
    names = wanted_totals(node_of(*MIXED), Options(enabled=("sublet", "gpushare")))
    assert {name.partition("/")[0] for name in names} == {"sublet.dev", "aliyun.com"}


def test_the_label_counts_cards_and_not_their_partitions() -> None:
    patch = totals_patch(node_of(*MIXED), Options(), managed=True, leaving=False)
    assert patch is not None
    assert patch.label == "5"


@pytest.mark.parametrize("name", ["volcano.sh/gpu-memory", "nvidia.com/mig-1g.5gb", "amd.com/gpu"])
def test_a_total_that_another_plugin_shows_is_foreign(name: str) -> None:
    state = node_of(*MIXED, capacity={name: 4, "nvidia.com/gpumem": 4, "example.com/gpu": 4})
    assert foreign_totals(state, Options()) == {name}


def test_cards_out_of_scheduling_are_not_counted_and_take_their_partitions_along() -> None:
    fleet, name = Fleet(), NodeName("n1")
    fleet.set_inventory(name, builders.inventory("n1", *MIXED))
    for uuid in ("A", "E"):
        fleet.set_open(name, CardId(uuid), open_=False)
    assert _open(fleet.nodes[name].cards.items()) == ["B", "C", "D"]
    fleet.set_open(name, CardId("E"), open_=True)
    assert _open(fleet.nodes[name].cards.items()) == ["B", "C", "D", "E1", "E2", "E3"]


def _open(states: Iterable[tuple[CardId, Any]]) -> list[str]:
    return sorted(card for card, state in states if state.open)
