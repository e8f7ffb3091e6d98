"""Kubernetes quantities are read exactly."""

from fractions import Fraction

import pytest

from sublet.demo.quantity import quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        (3, 3),
        ("500m", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("16Gi", 16 * 2**30),
        ("1.5Ki", 1536),
        ("5k", 5_000),
        ("1E", 10**18),
        ("1e3", 1_000),
        ("12E-1", Fraction(6, 5)),
        ("250u", Fraction(1, 4_000)),
        ("-1", -1),
    ],
)
def test_each_spelling_has_its_exact_value(text: str | float, value: Fraction | int) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "much", "1 Gi", "1GiB", "1_000", "0x10", "1ki", "--1", "Infinity"])
def test_anything_else_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)
