"""What a poll of NVIDIA's driver says of a card's health; what a card does not have is not told."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from sublet.cards.nvml import NvmlCards
from sublet.cards.nvml.rates import Counters, Rates
from sublet.cards.port import Observation
from sublet.model.health import SignalKind
from sublet.model.ids import CardId
from sublet.model.level import COUNTS, FLAGS
from tests.fakenvml.build import fake_nvml
from tests.fakenvml.control import FakeCard, FakeNvml

A = CardId("GPU-a")
REPLAYS, RETIRED_BY_TWO_BITS = (
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_RETIRED_DBE,
)
THERMAL, POWER_BRAKE, SLOWDOWN = 0x40, 0x80, 0x8
LEAST_MARGIN = (pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, -2)


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return fake_nvml(tmp_path)


@pytest.fixture
async def source(fake: FakeNvml, tmp_path: Path) -> AsyncIterator[NvmlCards]:
    made = NvmlCards(library=str(fake.library), sysfs_root=tmp_path, poll_s=0.02, event_slice_ms=50)
    yield made
    await made.close()


async def polled(source: NvmlCards, polls: int = 1) -> list[Observation]:
    """All that is told until the card was polled so often."""
    found: list[Observation] = []
    async with asyncio.timeout(5):
        async for one in source.signals():
            found.append(one)
            if [each.kind for each in found].count(SignalKind.PROBE) == polls:
                break
    return found


async def levels(source: NvmlCards) -> dict[str, str]:
    return {one.name: one.value for one in await polled(source) if one.kind is SignalKind.LEVEL}


@pytest.mark.parametrize(
    ("card", "name", "value"),
    [
        ({"ecc": 2}, "ecc_uncorrectable", "2"),
        ({"ecc_aggregate": 9}, "ecc_uncorrectable_ever", "9"),
        ({"sram_exceeded": 1}, "sram_threshold", "true"),
        ({"remap_pending": True}, "remap_pending", "true"),
        ({"remap_failed": True}, "remap_failed", "true"),
        ({"retired_pending": True}, "retired_pending", "true"),
        ({"values": ((RETIRED_BY_TWO_BITS, 63),)}, "retired_limit", "true"),
        ({"values": ((RETIRED_BY_TWO_BITS, 62),)}, "retired_limit", "false"),
        ({"clocks": THERMAL}, "thermal_slowdown", "true"),
        ({"clocks": POWER_BRAKE}, "power_brake", "true"),
        ({"clocks": SLOWDOWN}, "hw_slowdown", "true"),
        ({"clocks": SLOWDOWN | THERMAL}, "hw_slowdown", "false"),
        ({"margin": -3, "values": (LEAST_MARGIN,)}, "thermal_margin_low", "true"),
        ({"margin": -2, "values": (LEAST_MARGIN,)}, "thermal_margin_low", "false"),
        ({"unrepairable": 1}, "memory_unrepairable", "true"),
        ({"unrepairable": 0}, "memory_unrepairable", "false"),
        ({"ecc_corrected": 9_999}, "ecc_correctable_storm", "false"),
        ({"inforom_corrupt": 1}, "inforom_corrupt", "true"),
        ({"fabric": 1}, "fabric_down", "true"),
        ({"fabric": 3, "fabric_status": 999}, "fabric_down", "true"),
        ({"fabric": 3}, "fabric_down", "false"),
        ({"width": 8, "width_max": 16}, "pcie_degraded", "true"),
        ({"width": 16, "width_max": 16}, "pcie_degraded", "false"),
        ({"used_mib": 4096}, "leftover_memory_mib", "4096"),
        ({"used_mib": 4096, "processes": ((7, 4000),)}, "leftover_memory_mib", "0"),
        ({"used_mib": 3}, "leftover_memory_mib", "0"),
    ],
)
async def test_a_level_is_told_as_the_driver_has_it(
    fake: FakeNvml, source: NvmlCards, card: dict[str, Any], name: str, value: str
) -> None:
    fake.show(FakeCard(uuid=A, **card))
    assert (await levels(source))[name] == value
    assert name in FLAGS + COUNTS


async def test_what_a_card_does_not_have_is_not_told(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A, memory_mib=-1))
    absent = {"ecc_uncorrectable", "sram_threshold", "retired_limit", "inforom_corrupt", "fabric_down"}
    absent |= {"memory_unrepairable", "ecc_correctable_storm", "thermal_margin_low"}
    absent |= {"pcie_degraded", "nvlink_errors", "leftover_memory_mib"}
    assert not absent & (await levels(source)).keys()


async def test_a_driver_without_the_newer_calls_tells_what_it_has(tmp_path: Path) -> None:
    driver = fake_nvml(tmp_path / "old", old=True)
    driver.show(FakeCard(uuid=A, ecc=1, clocks=THERMAL, retired_pending=True, used_mib=99, recovery=1))
    source = NvmlCards(library=str(driver.library), sysfs_root=tmp_path, poll_s=0.02, event_slice_ms=50)
    found = await polled(source)
    card = (await source.discover()).cards[0]
    await source.close()
    assert {one.name: one.value for one in found if one.kind is SignalKind.LEVEL} == {
        "ecc_uncorrectable": "1",
        "retired_pending": "true",
        "thermal_slowdown": "true",
        "power_brake": "false",
        "hw_slowdown": "false",
    }
    assert [one.value for one in found if one.kind is SignalKind.PROBE] == ["ok"]
    assert card.memory_mib == 81920


async def test_leftover_memory_is_told_at_every_poll_while_it_is_there(
    fake: FakeNvml, source: NvmlCards
) -> None:
    fake.show(FakeCard(uuid=A, used_mib=512))
    told = [one.value for one in await polled(source, polls=3) if one.name == "leftover_memory_mib"]
    assert told == ["512"] * 3


async def test_errors_of_links_that_were_there_before_are_no_news(fake: FakeNvml, source: NvmlCards) -> None:
    fake.show(FakeCard(uuid=A, values=((REPLAYS, 40),)))
    assert (await levels(source))["nvlink_errors"] == "0"


def nvlink(rates: Rates, now_s: float, *, replays: int = 0, crcs: int = 0) -> str:
    return rates.levels(Counters(nvlink_replays=replays, nvlink_crcs=crcs), now_s)["nvlink_errors"]


def test_a_link_error_counts_for_a_minute() -> None:
    rates = Rates()
    told = [nvlink(rates, now_s, replays=replays) for now_s, replays in ((0, 5), (10, 7), (60, 7), (70, 7))]
    assert told == ["0", "2", "2", "0"]


def test_checksum_errors_count_only_in_a_storm() -> None:
    rates = Rates()
    assert [nvlink(rates, now_s, crcs=crcs) for now_s, crcs in ((0, 0), (10, 900), (20, 1_900))] == [
        "0",
        "0",
        "1900",
    ]


def test_a_counter_that_began_anew_counts_what_it_has_since() -> None:
    rates = Rates()
    assert [nvlink(rates, now_s, replays=replays) for now_s, replays in ((0, 90), (10, 1))] == ["0", "1"]


def pcie(rates: Rates, now_s: float, **counters: int) -> str:
    link = {"width": 16, "width_most": 16, "generation": 4, "generation_most": 4, "pcie_replays": 0}
    return rates.levels(Counters(**(link | counters)), now_s)["pcie_degraded"]


def test_a_slower_generation_is_a_fault_under_load_only() -> None:
    assert pcie(Rates(), 0, generation=1, busy_percent=0) == "false"
    assert pcie(Rates(), 0, generation=1, busy_percent=90) == "true"


def test_replays_are_a_fault_above_what_width_and_generation_let_expect() -> None:
    rates = Rates()
    replays = ((0, 100), (10, 116), (20, 117), (90, 117))
    assert [pcie(rates, now_s, pcie_replays=count) for now_s, count in replays] == [
        *("false", "false", "true", "false"),
    ]


def test_corrected_errors_are_a_storm_from_ten_a_minute_on_until_they_are_fewer_than_five() -> None:
    rates = Rates()
    told = [
        rates.levels(Counters(ecc_corrected=count), now_s)["ecc_correctable_storm"]
        for now_s, count in ((0, 500), (10, 509), (20, 510), (75, 515), (130, 517), (140, 519), (190, 519))
    ]
    assert told == ["false", "false", "true", "true", "true", "false", "false"]


def test_pages_retired_for_double_bit_errors_are_too_many_when_they_come_fast() -> None:
    hour_s = 3600.0
    slow, fast = Rates(), Rates()
    for week in range(4):
        assert "retired_limit" not in slow.levels(
            Counters(retired_by_two_bits=14 + week), week * 169 * hour_s
        )
    told = [
        fast.levels(Counters(retired_by_two_bits=14 + day), day * 24 * hour_s).get("retired_limit")
        for day in range(4)
    ]
    assert told == [None, None, "true", "true"]
