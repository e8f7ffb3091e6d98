"""Cards that others use: pods and processes which hold or see one that was not given to them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sublet.model.card import Card
from sublet.model.ids import CardId
from sublet.model.placement import CardUse


class OutsideUse(StrEnum):
    """What is made of it."""

    IGNORE = "ignore"  # it is shown, and nothing else
    MEMORY = "memory"  # what they use is not there for shares, and the card is not given whole
    CLOSE = "close"  # a card that anybody else uses or sees takes no new shares


@dataclass(frozen=True, slots=True)
class Outside:
    used_mib: int
    users: int


Outsiders = Mapping[CardId, Outside]


def outsiders_of(uses: Iterable[CardUse]) -> dict[CardId, Outside]:
    """Of the cards of which somebody else uses or sees something."""
    return {
        use.card: Outside(use.outside_mib, len(use.outside_by))
        for use in uses
        if use.outside_mib or use.outside_by
    }


def as_used(card: Card, outsiders: Outsiders, policy: OutsideUse) -> Card:
    """The card, or partition, with what of its memory is not there for shares."""
    if policy is OutsideUse.IGNORE:
        return replace(card, used_outside_mib=0) if card.used_outside_mib else card
    found = outsiders.get(card.id)
    if found is None or found.used_mib <= card.used_outside_mib:
        return card
    return replace(card, used_outside_mib=found.used_mib)


def is_shut(card: Card, outsiders: Outsiders, policy: OutsideUse) -> bool:
    """Whether the policy closes the card."""
    return policy is OutsideUse.CLOSE and (card.id in outsiders or card.used_outside_mib > 0)
