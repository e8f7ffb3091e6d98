"""Ratios by card model or node label, and the totals that follow."""

from dataclasses import replace

import pytest

from sublet.contract import dialects
from sublet.contract.dialects.interface import Options
from sublet.contract.overcommit import Overcommit
from sublet.model.card import Card, Partition
from sublet.model.errors import BadRequest
from tests.builders import card

T4 = card("A", gib=15, model="Tesla T4")


def given(*memory: str, core: tuple[str, ...] = ()) -> Overcommit:
    return Overcommit.read(memory=memory, core=core)


def amounts(overcommit: Overcommit, one: Card, **labels: str) -> tuple[int, int]:
    found = overcommit.on(one, labels)
    return (found.most_mib, found.shareable_core_percent)


def test_by_default_no_more_is_promised_than_there_is() -> None:
    assert not Overcommit()
    assert Overcommit().on(T4, {"pool": "dev"}) is T4
    assert amounts(Overcommit(), T4) == (15360, 100)


def test_a_ratio_goes_by_part_of_the_model_or_by_a_label_of_the_node() -> None:
    ratios = given("t4:1.5", "pool=dev:2", core=("pool=dev:3",))
    assert amounts(ratios, T4) == (23040, 100)
    assert amounts(ratios, T4, pool="dev") == (23040, 300), "of the entries that hold the first counts"
    assert amounts(ratios, card("B", gib=10), pool="dev") == (20480, 300)
    assert amounts(ratios, card("B", gib=10), pool="prod") == (10240, 100)
    assert (ratios.by_label, given("t4:1.5").by_label) == (True, False)


@pytest.mark.parametrize(
    ("memory_mib", "ratio", "most_mib"),
    [
        (4096, "1", 4096),
        (10001, "1.5", 15001),
        (3, "1.3333", 3),
        (15360, "1.1", 16896),
        (2**40, "10", 10 * 2**40),
    ],
)
def test_what_may_be_promised_is_exact_and_rounded_down(memory_mib: int, ratio: str, most_mib: int) -> None:
    one = replace(T4, memory_mib=memory_mib)
    assert amounts(given(f"T4:{ratio}", core=(f"T4:{ratio}",)), one)[0] == most_mib


def test_a_card_of_unknown_memory_and_a_partition_stay_as_they_are() -> None:
    ratios = given("A100:2", core=("A100:2",))
    unknown = card("A", gib=None)
    assert ratios.on(unknown, {}) is unknown
    split = replace(card("A"), partitions=(Partition(uuid="P", profile="1g.5gb", memory_mib=5000),))
    [part] = ratios.on(split, {}).offered
    assert (part.most_mib, part.shareable_core_percent) == (5000, 100)
    assert ratios.on(part, {}) is part


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("T4", "which cards"),
        (":2", "which cards"),
        ("pool=:2", "which cards"),
        ("=dev:2", "which cards"),
        ("T4:0.9", "'0.9'"),
        ("T4:0", "'0'"),
        ("T4:-2", "'-2'"),
        ("T4:11", "'11'"),
        ("T4:1e3", "'1e3'"),
        ("T4:150%", "'150%'"),
        ("T4:", "''"),
        ("T4:nan", "'nan'"),
    ],
)
def test_another_entry_is_refused_with_what_it_says_and_an_example(entry: str, said: str) -> None:
    with pytest.raises(BadRequest, match=repr(entry)) as refused:
        given(entry)
    assert said in str(refused.value.args[0])
    assert "T4:1.5" in refused.value.hint


def test_totals_of_a_node_are_the_sums_over_its_cards_and_whole_cards_stay_whole() -> None:
    held = [replace(T4, shareable_mib=23040, shareable_core_percent=200), card("B", gib=15, model="Tesla T4")]
    totals: dict[str, int] = {}
    for dialect in dialects.ALL:
        totals |= dialect.totals(held, shares_per_card=16, options=Options())
    assert totals["sublet.dev/gpu-memory"] == totals["volcano.sh/gpu-memory"] == 23040 + 15360
    assert totals["nvidia.com/gpumem"] == 23040 + 15360
    assert totals["aliyun.com/gpu-mem"] == 22 + 15
    assert totals["tencent.com/vcuda-memory"] == (23040 + 15360) // 256
    percents = (
        "sublet.dev/gpu-memory-percent",
        "volcano.sh/vgpu-memory-percentage",
        "nvidia.com/gpumem-percentage",
    )
    assert {totals[name] for name in percents} == {150 + 100}
    cores = ("sublet.dev/gpu-core", "volcano.sh/vgpu-cores", "nvidia.com/gpucores", "tencent.com/vcuda-core")
    assert {totals[name] for name in cores} == {200 + 100}
    assert totals["sublet.dev/gpu"] == 32
    assert totals["aliyun.com/gpu-count"] == totals["volcano.sh/gpu-number"] == 2


def test_the_percent_total_of_a_node_never_refuses_what_a_card_takes() -> None:
    odd = replace(T4, memory_mib=10001, shareable_mib=15002)
    [native] = [one for one in dialects.ALL if one.name == "sublet"]
    assert native.totals([odd], shares_per_card=16, options=Options())["sublet.dev/gpu-memory-percent"] == 151
