"""What pods written for AMD's device plugin get."""

import pytest

from tests.builders import container, pod
from tests.conformance.words import WHOLE, Cluster, card, cards, claimed, example, refusal

AMD_NODE = {"name": "n2", "cards": [card("AMD-0", 65536, vendor="amd")]}


def test_the_sample_gets_an_amd_card_and_no_variable() -> None:
    [one] = example("amd")
    assert claimed(one) == {"app": WHOLE}
    placed = Cluster(cards("n1", 8192), AMD_NODE).place(one)
    assert [grant["card"] for grant in placed["containers"]["app"]] == ["AMD-0"]
    assert placed["env"] == {"app": {}}


def test_cards_of_the_other_vendor_do_not_do() -> None:
    held = Cluster(cards("n1", 8192)).place(example("amd")[0])
    assert held["reasons"] == {"VendorMismatch": 1}
    held = Cluster(AMD_NODE).place(pod("p", container("app", nvidia=1)))
    assert held["reasons"] == {"VendorMismatch": 1}


@pytest.mark.parametrize("value", ["0.5", "0", "", "5k", 2**62])
def test_an_amount_that_is_no_count_of_cards_is_refused(value: object) -> None:
    found = refusal(pod("p", container("app", **{"amd.com/gpu": value})))
    assert (found["code"], f"amd.com/gpu={str(value)!r}" in found["message"]) == ("BadQuantity", True)
