"""Which of several fitting cards are joined best."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

from sublet.model.card import Link
from sublet.model.ids import CardId
from sublet_scheduler.core.fleet import CardState

MOST_SETS = 2_000
"""Up to so many sets are compared one by one; among more, a good one is grown card by card."""

# any number of slower links never outweighs a faster one: a node has at most some dozens of pairs
_VALUE = {Link.NVLINK: 1_000_000, Link.SWITCH: 1_000, Link.HOST: 1, None: 0}

Cards = Sequence[CardState]
Pairs = Mapping[tuple[CardId, CardId], int]


def link(one: CardState, other: CardState) -> Link | None:
    return one.card.links.get(other.card.id) or other.card.links.get(one.card.id)


def sets_by_links(fitting: Cards, count: int) -> Iterator[Cards]:
    """Every set of `count` cards: first the one with the most and fastest links (where links do not tell,
    the first ones of `fitting`), then the others in the order of `fitting`."""
    best = best_linked(fitting, count)
    yield best
    ids = {one.card.id for one in best}
    for chosen in combinations(fitting, count):
        if any(one.card.id not in ids for one in chosen):
            yield chosen


def best_linked(fitting: Cards, count: int) -> Cards:
    pairs: dict[tuple[CardId, CardId], int] = {}
    for one, other in combinations(fitting, 2):
        value = _VALUE[link(one, other)]
        pairs[one.card.id, other.card.id] = pairs[other.card.id, one.card.id] = value
    limit = max(pairs.values(), default=0) * comb(count, 2)
    best: Cards = fitting[:count]
    best_value = _value(best, pairs)
    few = comb(len(fitting), count) <= MOST_SETS
    for chosen in combinations(fitting, count) if few else _grown(fitting, count, pairs):
        if best_value == limit:
            break
        if (value := _value(chosen, pairs)) > best_value:
            best, best_value = chosen, value
    return best


def _grown(fitting: Cards, count: int, pairs: Pairs) -> Iterator[Cards]:
    """From every card the set that takes the best joined next card again and again."""
    for seed in fitting:
        grown, rest = [seed], [card for card in fitting if card is not seed]
        gain = {card.card.id: pairs[card.card.id, seed.card.id] for card in rest}
        while len(grown) < count:
            best = max(rest, key=lambda card: gain[card.card.id])  # the first of equals
            rest = [card for card in rest if card is not best]
            grown.append(best)
            for card in rest:
                gain[card.card.id] += pairs[card.card.id, best.card.id]
        yield grown


def _value(cards: Cards, pairs: Pairs) -> int:
    return sum(pairs[one.card.id, other.card.id] for one, other in combinations(cards, 2))


def linked_sets(fitting: Cards, count: int) -> Iterator[Cards]:
    """Every set of `count` cards of which each pair is joined by nvlink, in the order of `fitting`."""

    def grow(chosen: list[CardState], rest: Cards) -> Iterator[Cards]:
        if len(chosen) == count:
            yield chosen
            return
        for at, card in enumerate(rest):
            after = [one for one in rest[at + 1 :] if link(card, one) is Link.NVLINK]
            if len(chosen) + 1 + len(after) >= count:
                yield from grow([*chosen, card], after)

    yield from grow([], fitting)
