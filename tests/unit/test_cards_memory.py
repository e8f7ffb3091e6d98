"""What became of the cards that were there before."""

from sublet.cards.memory import Outcome, remember
from sublet.model.card import Card
from sublet.model.health import HealthState
from sublet.model.ids import CardId


def a_card(name: str, index: int, *, pci: str | None = None) -> Card:
    return Card(id=CardId(name), index=index, pci=pci, memory_mib=1024)


def known(*cards: Card) -> dict[CardId, Card]:
    return {card.id: card for card in cards}


def test_a_card_whose_index_hangs_stays_as_it_was() -> None:
    a, b = a_card("a", 0), a_card("b", 1)
    cards, outcomes = remember(known(a, b), [a], {1: Outcome.HANG})
    assert cards == (a, b)
    assert outcomes[b.id] is Outcome.HANG


def test_a_card_that_is_not_listed_is_lost() -> None:
    a, b = a_card("a", 0), a_card("b", 1)
    cards, outcomes = remember(known(a, b), [a], {})
    assert cards[1].health is HealthState.LOST
    assert outcomes[b.id] is Outcome.LOST


def test_a_card_never_seen_before_at_the_same_address_replaces_the_old_one() -> None:
    old, new = a_card("old", 0, pci="0000:01:00.0"), a_card("new", 3, pci="0000:01:00.0")
    assert remember(known(old), [new], {})[0] == (new,)


def test_without_addresses_the_index_is_the_place() -> None:
    assert [card.id for card in remember(known(a_card("old", 0)), [a_card("new", 0)], {})[0]] == ["new"]


def test_a_known_card_that_moved_up_replaces_nobody_and_indices_stay_apart() -> None:
    a, b = a_card("a", 0), a_card("b", 1)
    cards, _ = remember(known(a, b), [a_card("b", 0)], {})
    assert [(card.id, card.index, card.health) for card in cards] == [
        ("b", 0, HealthState.HEALTHY),
        ("a", 1, HealthState.LOST),
    ]
