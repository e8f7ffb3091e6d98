"""Every polled level: how much of it, for how long, makes of a card what, and what takes it back."""

import pytest

from sublet.model.health import HealthState
from sublet.model.level import COUNTS, FLAGS
from tests.unit.healthd.words import Clocked, nobody, sees

SUSPECT = ("suspect", "level")
OUT_UNTIL_RESET, OUT_UNTIL_LOOKED_AT, OUT_WHILE_BAD = ("out", "reset"), ("out", "manual"), ("out", "level")
LEVELS = {
    "remap_pending": ("false", "true", *SUSPECT),
    "remap_failed": ("false", "true", *OUT_UNTIL_LOOKED_AT),
    "retired_pending": ("false", "true", *SUSPECT),
    "retired_limit": ("false", "true", *OUT_UNTIL_LOOKED_AT),
    "memory_unrepairable": ("false", "true", *OUT_UNTIL_LOOKED_AT),
    "sram_threshold": ("false", "true", *OUT_UNTIL_LOOKED_AT),
    "ecc_uncorrectable": ("0", "1", *OUT_UNTIL_RESET),
    "ecc_correctable_storm": ("false", "true", *SUSPECT),
    "thermal_slowdown": ("false", "true", *SUSPECT),
    "thermal_margin_low": ("false", "true", *SUSPECT),
    "power_brake": ("false", "true", *SUSPECT),
    "hw_slowdown": ("false", "true", *SUSPECT),
    "pcie_degraded": ("false", "true", *SUSPECT),
    "nvlink_errors": ("0", "1", *SUSPECT),
    "inforom_corrupt": ("false", "true", *SUSPECT),
    "fabric_down": ("false", "true", *OUT_WHILE_BAD),
    "vendor_unhealthy": ("false", "true", *OUT_WHILE_BAD),
    "leftover_memory_mib": ("64", "65", *SUSPECT),
}
"""Name: the largest good value, the smallest bad one, what it makes of the card, what takes it back."""
ONLY_NOTED = {"ecc_uncorrectable_ever"}


def test_every_level_is_in_the_table() -> None:
    assert LEVELS.keys() | ONLY_NOTED == {*FLAGS, *COUNTS}


@pytest.mark.parametrize("name", LEVELS)
def test_the_largest_good_value_is_good_for_ever(name: str) -> None:
    judge = watched(name, LEVELS[name][0])
    judge.at(60)
    assert (judge.state(), judge.reasons()) == (HealthState.HEALTHY, [])


@pytest.mark.parametrize("name", LEVELS)
def test_the_smallest_bad_value_counts_at_the_third_sample_and_not_before(name: str) -> None:
    _, bad, what, _ = LEVELS[name]
    judge = watched(name, bad)
    judge.at(19)
    assert judge.reasons() == []
    judge.at(20)
    assert judge.reasons() == [f"level:{name}"]
    assert judge.verdict().schedulable == (what == "suspect")
    assert judge.state() is (HealthState.SUSPECT if what == "suspect" else HealthState.CONDEMNED)


@pytest.mark.parametrize("name", LEVELS)
def test_two_bad_samples_of_five_are_nothing(name: str) -> None:
    good, bad, *_ = LEVELS[name]
    judge = watched(name, bad)
    judge.at(15, sees(15, "level", name=name, value=good))
    judge.at(80)
    assert judge.transitions == []


@pytest.mark.parametrize("name", LEVELS)
def test_only_its_own_condition_takes_it_back(name: str) -> None:
    good, bad, what, clears_on = LEVELS[name]
    judge = watched(name, bad)
    judge.at(60, sees(60, "reset"))
    assert judge.reasons() == [f"level:{name}"]  # it still reads bad
    judge.at(70, sees(70, "level", name=name, value=good))
    judge.at(80)
    assert judge.reasons() == [f"level:{name}"]
    judge.at(90)
    assert judge.reasons() == ([f"level:{name}"] if clears_on == "manual" else [])
    assert judge.verdict().schedulable == (what == "suspect")  # else probation


def test_without_a_reset_uncorrectable_errors_stay_whatever_the_counter_reads() -> None:
    judge = watched("ecc_uncorrectable", "1")
    judge.at(60, sees(60, "level", name="ecc_uncorrectable", value="0"))
    judge.at(85)
    assert judge.reasons() == ["level:ecc_uncorrectable"]


def test_errors_of_an_earlier_life_say_nothing_of_today() -> None:
    judge = watched("ecc_uncorrectable_ever", "17")
    judge.at(60)
    assert judge.reasons() == []


def watched(name: str, value: str) -> Clocked:
    judge = Clocked()
    judge.at(0, nobody(), sees(0, "probe", value="ok"), sees(0, "level", name=name, value=value))
    return judge
