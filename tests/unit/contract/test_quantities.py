"""Amounts in limits are plain whole numbers; CPU and host memory are Kubernetes quantities."""

from fractions import Fraction

import pytest

from sublet.contract.quantity import LARGEST, cpu_milli, host_memory_mib, quantity, whole_number
from sublet.model.reasons import Refusal, RefusalCode


def read(value: object, most: int = LARGEST) -> int | Refusal:
    return whole_number(value, key="sublet.dev/gpu-memory", unit="MiB", most=most)


@pytest.mark.parametrize(
    ("value", "amount"),
    [("1", 1), (1, 1), ("4096", 4096), ("007", 7), ("2147483648", 2**31), (LARGEST, LARGEST)],
)
def test_a_plain_whole_number_is_read(value: object, amount: int) -> None:
    assert read(value) == amount


@pytest.mark.parametrize(
    "value",
    [
        "0", "-1", "+1", "0.5", "1.0", "16Gi", "5k", "3000m", "1e3", "", " 1", "1 ", "0x10", "1_000",
        "٣", "²", str(2**62), str(2**63), "1" * 5000,
        0, -1, 0.5, 1.0, True, False, None, 2**62, [1], {"a": 1},
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_key_value_and_unit(value: object) -> None:
    refusal = read(value)
    assert isinstance(refusal, Refusal)
    assert refusal.code is RefusalCode.BAD_QUANTITY
    assert f"sublet.dev/gpu-memory={str(value)[:80]!r}" in refusal.message
    assert "MiB" in refusal.message
    assert len(refusal.message) < 250


@pytest.mark.parametrize(
    ("written", "unit", "example"),
    [("4Gi", "MiB", 4096), ("4Gi", "GiB", 4), ("1Ki", "MiB", 10), ("4G", "MiB", 10), ("4Gi", "percent", 10)],
)
def test_the_way_out_shows_what_a_binary_suffix_means_where_that_is_whole(
    written: str, unit: str, example: int
) -> None:
    refusal = whole_number(written, key="k", unit=unit)
    assert isinstance(refusal, Refusal)
    assert refusal.hint.endswith(f"for example k: {example}")


def test_the_largest_amount_is_named() -> None:
    assert read("100", most=100) == 100
    refusal = read("101", most=100)
    assert isinstance(refusal, Refusal)
    assert "from 1 to 100" in refusal.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        (3, 3),
        (0.5, Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("16Gi", 16 * 2**30),
        ("1E", 10**18),
        ("1e3", 1000),
        ("12E-1", Fraction(6, 5)),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_a_quantity_has_its_exact_value(text: object, value: Fraction | int) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "much", "1 Gi", "1GiB", "1ki", "1e3Gi", "--1", "Infinity", "1e999999999", "1" * 5000, "٣"]
)
def test_what_is_no_quantity_is_an_error_and_takes_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        quantity(text)


def test_the_host_is_asked_for_no_less_than_is_written() -> None:
    assert cpu_milli({"cpu": "1500u"}) == 2
    assert host_memory_mib({"memory": "1"}) == 1
    assert host_memory_mib({"memory": "2Gi"}) == 2048
    assert (cpu_milli({}), host_memory_mib({})) == (0, 0)


def test_nobody_asks_for_less_than_nothing() -> None:
    with pytest.raises(ValueError, match="cpu='-1' is negative"):
        cpu_milli({"cpu": "-1"})
    with pytest.raises(ValueError, match="memory='-1Gi' is negative"):
        host_memory_mib({"memory": "-1Gi"})


@pytest.mark.parametrize(
    ("text", "amount"), [("50k", 50_000), ("4096", 4096), ("2M", 2_000_000), ("1G", 10**9)]
)
def test_what_the_api_server_stores_is_read_back(text: str, amount: int) -> None:
    """It writes 50000 as 50k, so behind it a suffix is not the user's mistake."""
    assert whole_number(text, key="k", unit="MiB", stored=True) == amount
    assert text.isdigit() or isinstance(whole_number(text, key="k", unit="MiB"), Refusal)


@pytest.mark.parametrize("text", ["0k", "16Gi", "3000m", "-5k", "1e3", "99999999999999999999k", "1.5k"])
def test_other_suffixes_stay_refused_behind_the_api_server(text: str) -> None:
    assert isinstance(whole_number(text, key="k", unit="MiB", stored=True), Refusal)
