"""What became of the cards that were there before: kept, lost or replaced. Pure; shared by the sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from sublet.model.card import Card
from sublet.model.health import HealthState
from sublet.model.ids import CardId


class Outcome(StrEnum):
    """How an attempt to read a card ended."""

    OK = "ok"
    LOST = "lost"
    RESET_REQUIRED = "reset_required"
    INFOROM = "inforom"
    ERROR = "error"
    HANG = "hang"


def remember(
    known: Mapping[CardId, Card], read: Sequence[Card], failed: Mapping[int, Outcome]
) -> tuple[tuple[Card, ...], dict[CardId, Outcome]]:
    """All cards by index, and how reading each of them ended.

    `read` are the cards that answered, `failed` what came of the other indices. A known card whose index
    failed stays as it was; one that is not listed at all is lost, unless a card never seen before has
    taken its place.
    """
    cards = {card.id: card for card in read}
    outcomes = dict.fromkeys(cards, Outcome.OK)
    fresh = [card for card in read if card.id not in known]
    for old in known.values():
        if old.id in cards or any(_same_place(old, new) for new in fresh):
            continue
        outcomes[old.id] = outcome = failed.get(old.index, Outcome.LOST)
        cards[old.id] = replace(old, health=HealthState.LOST) if outcome is Outcome.LOST else old
    return _each_its_index(cards.values(), outcomes), outcomes


def _same_place(old: Card, new: Card) -> bool:
    return old.pci == new.pci if old.pci and new.pci else old.index == new.index


def _each_its_index(cards: Iterable[Card], outcomes: Mapping[CardId, Outcome]) -> tuple[Card, ...]:
    """Indices move when a card vanishes; the one that answers has the index, the other the next free one."""
    taken: dict[int, Card] = {}
    for card in sorted(cards, key=lambda card: (outcomes[card.id] is not Outcome.OK, card.index)):
        index = card.index if card.index not in taken else max(taken) + 1
        taken[index] = card if index == card.index else replace(card, index=index)
    return tuple(taken[index] for index in sorted(taken))
