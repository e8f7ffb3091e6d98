"""What a Node's condition says of its cards."""

from sublet_healthd.shell.nodestatus import Condition, wanted_status

from sublet.model.ids import CardId
from tests.unit.healthd.words import NODE, A, B, Clocked, sees, xid


def condition(judge: Clocked) -> Condition:
    found = wanted_status(judge.engine.known.of_node(NODE)).condition
    assert found is not None
    return found


def two_cards() -> Clocked:
    judge = Clocked()
    judge.at(0, *(sees(0, "card", card, pci=f"0000:0{n}:00.0") for n, card in enumerate((A, B))))
    return judge


def test_a_card_that_takes_no_shares_makes_it_false_and_is_named() -> None:
    judge = two_cards()
    judge.at(1, xid(1, 48))
    assert (condition(judge).status, condition(judge).reason) == ("False", "CardsNotHealthy")
    assert "GPU-A condemned (xid:48)" in condition(judge).message


def test_a_card_that_was_replaced_is_no_trouble_of_the_node() -> None:
    judge = two_cards()
    judge.at(1, xid(1, 64))
    judge.at(9, sees(9, "card", CardId("GPU-C"), pci="0000:00:00.0"))
    assert (judge.state(), condition(judge).status) == ("lost", "True")


def test_a_node_whose_cards_all_fail_alike_is_unknown_as_a_node() -> None:
    judge = two_cards()
    for second in (10, 20, 30):
        judge.at(second, *(sees(second, "probe", card, value="error") for card in (A, B)))
    assert (condition(judge).status, condition(judge).reason) == ("Unknown", "CommonCause")
