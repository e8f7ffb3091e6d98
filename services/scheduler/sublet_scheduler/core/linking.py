"""Which of several fitting cards are joined best."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from sublet.model.card import Link
from sublet_scheduler.core.fleet import CardState

# any number of slower links never outweighs a faster one: a node has at most some dozens of pairs
_VALUE = {Link.NVLINK: 1_000_000, Link.SWITCH: 1_000, Link.HOST: 1, None: 0}


def link(one: CardState, other: CardState) -> Link | None:
    return one.card.links.get(other.card.id) or other.card.links.get(one.card.id)


def best_linked(fitting: Sequence[CardState], count: int) -> Sequence[CardState]:
    """`count` cards with the most and fastest links, grown greedily from every card; where links do
    not tell, the first ones of `fitting`."""
    best = list(fitting[:count])
    best_value = _value(best)
    for seed in fitting:
        grown = _grow(seed, fitting, count)
        if (value := _value(grown)) > best_value:
            best, best_value = grown, value
    return best


def _grow(seed: CardState, fitting: Sequence[CardState], count: int) -> list[CardState]:
    grown, rest = [seed], [card for card in fitting if card is not seed]
    gain = {card.card.id: _VALUE[link(card, seed)] for card in rest}
    while len(grown) < count:
        best = max(rest, key=lambda card: gain[card.card.id])  # the first of equals
        rest.remove(best)
        grown.append(best)
        for card in rest:
            gain[card.card.id] += _VALUE[link(card, best)]
    return grown


def _value(cards: Iterable[CardState]) -> int:
    return sum(_VALUE[link(one, other)] for one, other in combinations(cards, 2))


def fully_linked(fitting: Sequence[CardState], count: int) -> Sequence[CardState] | None:
    """The first set by preference in which every pair is joined by nvlink."""

    def grow(chosen: list[CardState], rest: Sequence[CardState]) -> list[CardState] | None:
        if len(chosen) == count:
            return chosen
        for at, card in enumerate(rest):
            after = [one for one in rest[at + 1 :] if link(card, one) is Link.NVLINK]
            if len(chosen) + 1 + len(after) >= count and (found := grow([*chosen, card], after)):
                return found
        return None

    return grow([], fitting)
