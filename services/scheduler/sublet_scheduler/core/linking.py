"""Which of several fitting cards are joined best, and what those that are left lose when one is taken.

Two cards of a node reach each other by NVLink, over the same switch, within one NUMA node, or any other
way, the first the best. A set of cards is worth its pairs: the more of the best kind the better, of equals
the more of the next kind. Of sets that are worth the same the one whose cards come first is taken, and cards
that are well joined to others that hold nothing come last.

Up to `MOST_SETS` sets are compared one by one: all of a node with eight cards, all pairs of one with
sixteen. Where there are more, sets are grown: to nothing, or to a card that is in no set so far, those are
added by ones and twos that are worth most; then single cards are exchanged as long as that helps. The best
of what was found is taken. On machines as they are built, where cards are joined in groups, that is the best
set there is; where links are drawn by lot it nearly always is (the tests say how often).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb

from sublet_scheduler.core.joined import LINKED, worth_of
from sublet_scheduler.core.node import CardState

MOST_SETS = 128
_PLACES = 1 << 16
"""More than the places of all cards of a set in their order can sum up to."""

Cards = Sequence[CardState]
Table = Sequence[Sequence[int]]
"""What each card is worth to each other, by their places."""


def joined(one: CardState, other: CardState) -> int:
    """What it is worth to have both in one set."""
    return one.row[other.place] if one.row else worth_of(one.card, other.card)


def broken(cards: Cards) -> Callable[[CardState], int]:
    """Says what sets among those of `cards` that hold nothing lose when something is put on one of them."""
    idle = [one for one in cards if one.open and one.unused]
    places = [one.place for one in idle]

    def lost(card: CardState) -> int:
        if len(idle) < 2 or not card.unused:
            return 0
        row = card.row
        if row:
            return sum([row[place] for place in places])
        return sum(joined(card, other) for other in idle if other is not card)

    return lost


def worth(chosen: Cards) -> int:
    return sum(joined(one, other) for one, other in combinations(chosen, 2))


def all_linked(chosen: Cards) -> bool:
    return all(joined(one, other) == LINKED for one, other in combinations(chosen, 2))


def sets_by_links(fitting: Cards, count: int) -> Iterator[Cards]:
    """Every set of `count` cards: the one that is joined best, then the others in the order of `fitting`."""
    best = best_linked(fitting, count)
    yield best
    yield from _others(combinations(fitting, count), best)


def linked_sets(fitting: Cards, count: int) -> Iterator[Cards]:
    """Every set of `count` cards of which each pair is joined by nvlink, the preferred one first."""
    best = best_linked(fitting, count)
    if all_linked(best):
        yield best
        yield from _others(_cliques(fitting, count), best)
    elif comb(len(fitting), count) > MOST_SETS:
        yield from _cliques(fitting, count)


def best_linked(fitting: Cards, count: int) -> Cards:
    """The set that is worth most; of equals the one whose cards come first in `fitting`."""
    table = [
        [joined(one, other) * _PLACES if one is not other else 0 for other in fitting] for one in fitting
    ]
    values = {table[one][other] for one, other in combinations(range(len(fitting)), 2)}
    if len(values) <= 1 or count >= len(fitting):
        return fitting[:count]
    few = comb(len(fitting), count) <= MOST_SETS
    sets = combinations(range(len(fitting)), count) if few else _grown(table, count)
    best = max(sets, key=lambda places: _value(table, places))
    return [fitting[place] for place in sorted(best)]


def _table(cards: Cards) -> Table:
    table = [[0] * len(cards) for _ in cards]
    for (one, card), (other, mate) in combinations(enumerate(cards), 2):
        table[one][other] = table[other][one] = _PLACES * joined(card, mate)
    return table


def _value(table: Table, places: Sequence[int]) -> int:
    return sum(table[one][other] for one, other in combinations(places, 2)) - sum(places)


def _grown(table: Table, count: int) -> Iterator[Sequence[int]]:
    first = _exchanged(table, _from(table, [], count))
    yield first
    known = set(first)
    for seed in range(len(table)):
        if seed not in known:
            chosen = _exchanged(table, _from(table, [seed], count))
            known.update(chosen)
            yield chosen


def _from(table: Table, chosen: list[int], count: int) -> list[int]:
    """`chosen` and, by ones and twos, the cards that are worth most to those before and to each other."""
    gains = [sum(row[one] for one in chosen) - place for place, row in enumerate(table)]
    rest = [place for place in range(len(table)) if place not in chosen]
    while len(chosen) < count:
        if count - len(chosen) > 1 and ((count - len(chosen)) % 2 == 0 or not chosen):
            two = combinations(rest, 2)
            added: tuple[int, ...] = max(
                two, key=lambda pair: gains[pair[0]] + gains[pair[1]] + table[pair[0]][pair[1]]
            )
        else:
            added = (max(rest, key=gains.__getitem__),)
        chosen = [*chosen, *added]
        rest = [place for place in rest if place not in added]
        for place in rest:
            gains[place] += sum(table[place][one] for one in added)
    return chosen


def _exchanged(table: Table, chosen: list[int]) -> list[int]:
    """`chosen` with the exchange of one card that helps most made, until none helps."""
    gains = [sum(row[one] for one in chosen) - place for place, row in enumerate(table)]
    while True:
        outside = [place for place in range(len(table)) if place not in chosen]
        gain, out, into = max(
            (gains[new] - table[new][old] - gains[old], old, new) for old in chosen for new in outside
        )
        if gain <= 0:
            return chosen
        chosen[chosen.index(out)] = into
        for place, row in enumerate(table):
            gains[place] += row[into] - row[out]


def _others(sets: Iterator[Cards] | Iterator[tuple[CardState, ...]], best: Cards) -> Iterator[Cards]:
    ids = {one.card.id for one in best}
    for chosen in sets:
        if any(one.card.id not in ids for one in chosen):
            yield chosen


def _cliques(fitting: Cards, count: int) -> Iterator[Cards]:
    """Every set of which each pair is joined by nvlink, in the order of `fitting`."""

    def grow(chosen: list[CardState], rest: Cards) -> Iterator[Cards]:
        if len(chosen) == count:
            yield chosen
            return
        for at, card in enumerate(rest):
            after = [one for one in rest[at + 1 :] if joined(card, one) == LINKED]
            if len(chosen) + 1 + len(after) >= count:
                yield from grow([*chosen, card], after)

    yield from grow([], fitting)
