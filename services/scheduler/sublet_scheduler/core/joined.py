"""How well the cards of one node are joined, as numbers that may be added up: the table of all its pairs."""

from collections.abc import Sequence

from sublet.model.card import Card, Link
from sublet.model.ids import CardId

# any number of worse pairs never outweighs a better one: a node has at most some hundreds of pairs
ANY, SAME_NUMA, SAME_SWITCH, LINKED = 1, 1_000, 1_000_000, 1_000_000_000

Row = tuple[int, ...]
"""What a card is worth to each card of its node in one set, by their places; 0 to itself."""


def link_of(one: Card, other: Card) -> Link | None:
    return one.links.get(other.id) or other.links.get(one.id)


def worth_of(one: Card, other: Card) -> int:
    """What it is worth to have both in one set."""
    link = link_of(one, other)
    if link is Link.NVLINK:
        return LINKED
    if link is Link.SWITCH:
        return SAME_SWITCH
    if one.numa is not None and one.numa == other.numa:
        return SAME_NUMA
    return ANY if link else 0


def rows_of(cards: Sequence[Card]) -> dict[CardId, Row]:
    """The row of each card, with places as in `cards`."""
    return {one.id: tuple(0 if one is other else worth_of(one, other) for other in cards) for one in cards}
