"""The best-linked sets of cards, against trying all; and who leaves them for later."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from sublet_scheduler.core.linking import MOST_SETS, best_linked, linked_sets
from sublet_scheduler.core.node import CardState

from sublet.contract import keys
from sublet.model.card import Card, Link
from sublet.model.claim import Policy
from sublet.model.ids import CardId
from sublet.model.reasons import Reason
from tests.builders import card, container
from tests.unit.scheduler.nodes import Nodes

Cards = Sequence[CardState]
Pairs = dict[tuple[int, int], Link]
ORDER = (Link.NVLINK, Link.SWITCH, "numa", "any")


def machine(count: int, pairs: Pairs, numa: Callable[[int], int | None] = lambda _: None) -> list[Card]:
    """Cards c0, c1, ... joined as `pairs` says."""
    links: dict[int, dict[str, str]] = {at: {} for at in range(count)}
    for (one, other), link in pairs.items():
        links[one][f"c{other}"] = links[other][f"c{one}"] = link
    return [replace(card(f"c{at}", index=at, links=links[at]), numa=numa(at)) for at in range(count)]


def joined_by(link: Link, *groups: Iterable[int]) -> Pairs:
    return {pair: link for group in groups for pair in combinations(group, 2)}


# two quads, the four opposite corners joined too: eight cards with six NVLinks each between two boards
CUBE = joined_by(Link.NVLINK, range(4), range(4, 8)) | {(at, at + 4): Link.NVLINK for at in range(4)}
ALL_16 = joined_by(Link.NVLINK, range(16))
HALVES_16 = joined_by(Link.NVLINK, range(0, 16, 2), range(1, 16, 2))
QUADS_16 = joined_by(Link.SWITCH, range(8), range(8, 16)) | joined_by(
    Link.NVLINK, *(range(at, at + 4) for at in range(0, 16, 4))
)
PAIRS_16 = joined_by(Link.SWITCH, *(range(at, at + 4) for at in range(0, 16, 4))) | joined_by(
    Link.NVLINK, *((at, at + 1) for at in range(0, 16, 2))
)
BUILT = [(8, CUBE), (16, ALL_16), (16, HALVES_16), (16, QUADS_16), (16, PAIRS_16), (16, {})]


def drawn(seed: int, count: int, part_linked: float) -> list[Card]:
    draw = random.Random(seed)
    pairs: Pairs = {}
    for pair in combinations(range(count), 2):
        lot = draw.random()
        if lot < part_linked:
            pairs[pair] = Link.NVLINK
        elif lot < part_linked + 0.3:
            pairs[pair] = draw.choice([Link.SWITCH, Link.HOST])
    return machine(count, pairs, lambda _: draw.choice([0, 1, None]))


def counts(chosen: Sequence[CardState]) -> tuple[int, ...]:
    """How many pairs there are of each kind, the best kind first."""
    kinds = [_kind(one.card, other.card) for one, other in combinations(chosen, 2)]
    return tuple(kinds.count(kind) for kind in ORDER)


def _kind(one: Card, other: Card) -> str:
    link = one.links.get(other.id)
    if link in (Link.NVLINK, Link.SWITCH):
        return str(link)
    return "numa" if one.numa is not None and one.numa == other.numa else "any"


def best_counts(states: Cards, count: int) -> tuple[int, ...]:
    return max(counts(chosen) for chosen in combinations(states, count))


def states_of(cards: Iterable[Card]) -> list[CardState]:
    return [CardState(card=one) for one in cards]


@pytest.mark.parametrize("seed", range(60))
def test_the_best_set_of_few_cards_is_found_as_by_trying_all(seed: int) -> None:
    draw = random.Random(seed)
    states = states_of(drawn(seed, draw.randint(2, 8), 0.4))
    count = draw.randint(2, len(states))
    assert counts(best_linked(states, count)) == best_counts(states, count)
    ids = [frozenset(one.card.id for one in some) for some in linked_sets(states, count)]
    every = [some for some in combinations(states, count) if counts(some)[0] == count * (count - 1) // 2]
    assert len(ids) == len(set(ids))
    assert set(ids) == {frozenset(one.card.id for one in some) for some in every}


@pytest.mark.parametrize(("count", "pairs"), BUILT)
@pytest.mark.parametrize("taken", [0, 1, 3, 6])
def test_on_machines_as_they_are_built_the_best_set_is_found(count: int, pairs: Pairs, taken: int) -> None:
    draw = random.Random(taken)
    states = states_of(machine(count, pairs, lambda at: at * 2 // count))
    left = sorted(draw.sample(states, count - taken), key=lambda one: one.card.index)
    for wanted in (2, 3, 4, 8):
        if wanted <= len(left) and (wanted < 8 or taken < 3):
            assert counts(best_linked(left, wanted)) == best_counts(left, wanted)


def test_on_links_drawn_by_lot_the_grown_set_is_nearly_always_the_best() -> None:
    """Ten to twelve cards, so that more than the compared sets exist; 100 machines."""
    best = 0
    for seed in range(100):
        states = states_of(drawn(seed, 10 + seed % 3, (0.2, 0.4, 0.6)[seed % 3]))
        wanted = 4 + seed % 2
        found, most = counts(best_linked(states, wanted)), best_counts(states, wanted)
        best += found == most
        assert found[0] >= most[0] - 1, "one pair of nvlink less at most"
    assert best >= 95


def test_sets_that_are_compared_one_by_one_cover_nodes_of_eight_cards() -> None:
    assert MOST_SETS >= 70


def test_sixteen_cards_in_two_halves_give_one_half() -> None:
    chosen = best_linked(states_of(machine(16, HALVES_16)), 8)
    assert {one.card.index % 2 for one in chosen} in ({0}, {1})


# -- who gets them


def node(*held: Card, policy: Policy = Policy.FRAGMENTATION) -> Nodes:
    nodes = Nodes(node_policy=policy, card_policy=policy)
    nodes.add("n1", *held)
    return nodes


def test_linked_cards_are_preferred_to_the_first_ones() -> None:
    nodes = node(
        card("a", index=0, links={"b": "host"}),
        card("b", index=1),
        card("c", index=2, links={"d": "nvlink", "a": "switch"}),
        card("d", index=3),
    )
    assert nodes.place(container(gpu=2)) == {"main": ["c", "d"]}
    assert nodes.place(container(gpu=3)) == {"main": ["a", "c", "d"]}
    assert nodes.place(container(gpu=2), annotations={keys.LINK: "required"}) == {"main": ["c", "d"]}
    assert nodes.hold(container(gpu=3), annotations={keys.LINK: "required"}) == {Reason.NOT_LINKED: 4}


def test_cards_of_one_numa_node_are_preferred_where_no_switch_joins_them() -> None:
    apart = machine(4, joined_by(Link.HOST, range(4)), lambda at: (0, 1, 2, 1)[at])
    assert node(*apart).place(container(gpu=2)) == {"main": ["c1", "c3"]}
    switched = machine(4, {(0, 2): Link.SWITCH}, lambda at: (0, 1, 2, 1)[at])
    assert node(*switched).place(container(gpu=2)) == {"main": ["c0", "c2"]}


def test_of_a_linked_pair_that_is_half_used_no_pair_is_left() -> None:
    nodes = node(*machine(3, {(0, 1): Link.NVLINK}))
    nodes.use("c1", 1)
    wish = {keys.LINK: "required"}
    assert nodes.hold(container(gpu=2), annotations=wish) == {Reason.IN_USE: 1, Reason.NOT_LINKED: 2}


def test_one_card_alone_needs_no_link() -> None:
    assert node(card("a")).place(container(gpu=1), annotations={keys.LINK: "required"})


@pytest.mark.parametrize("policy", [Policy.FRAGMENTATION, Policy.BINPACK, Policy.SPREAD])
@pytest.mark.parametrize("asked", [container(gpu=1), container(gpu_memory=1024)])
def test_one_card_is_taken_where_it_breaks_no_good_set(policy: Policy, asked: dict[str, Any]) -> None:
    nodes = node(*machine(5, joined_by(Link.NVLINK, (0, 1), (2, 3))), policy=policy)
    assert nodes.place(asked) == {"main": ["c4"]}
    nodes.use("c4", exclusive=True, core=100, mib=10240)
    nodes.use("c2", exclusive=True, core=100, mib=10240)
    assert nodes.place(asked) == {"main": ["c3"]}


def test_several_cards_are_taken_where_they_leave_the_most_joined_ones() -> None:
    nodes = node(*machine(8, CUBE))
    nodes.use("c6", exclusive=True, core=100, mib=10240)
    nodes.use("c7", exclusive=True, core=100, mib=10240)
    assert nodes.place(container(gpu=2)) == {"main": ["c4", "c5"]}
    assert nodes.place(container(gpu=2), annotations={keys.LINK: "required"}) == {"main": ["c4", "c5"]}
    assert nodes.place(container(gpu=4)) == {"main": ["c0", "c1", "c2", "c3"]}


def test_what_is_begun_is_filled_before_a_good_set_is_weighed() -> None:
    nodes = node(*machine(3, {(0, 1): Link.NVLINK}), policy=Policy.BINPACK)
    nodes.use("c0", mib=1024)
    assert nodes.place(container(gpu_memory=1024)) == {"main": ["c0"]}
    assert nodes.place(container(gpu=1)) == {"main": ["c1"]}


def test_a_card_that_takes_no_shares_is_no_part_of_a_good_set() -> None:
    nodes = node(*machine(3, {(0, 1): Link.NVLINK}))
    nodes.fleet.set_open(nodes.fleet.order[0], CardId("c1"), open_=False)
    assert nodes.place(container(gpu=1)) == {"main": ["c0"]}


def nodes_with(*pairs: Pairs, policy: Policy = Policy.FRAGMENTATION) -> Nodes:
    """Nodes n0, n1, ... of four cards each, joined as `pairs` says."""
    nodes = Nodes(node_policy=policy, card_policy=policy)
    for at, joined in enumerate(pairs):
        held = machine(4, {})
        links: dict[int, dict[str, str]] = {number: {} for number in range(4)}
        for (one, other), link in joined.items():
            links[one][f"n{at}-{other}"] = links[other][f"n{at}-{one}"] = link
        named = [card(f"n{at}-{number}", index=number, links=links[number]) for number in range(len(held))]
        nodes.add(f"n{at}", *named)
    return nodes


def test_of_nodes_that_rank_alike_the_one_with_the_best_links_is_taken() -> None:
    nodes = nodes_with({}, {(0, 1): Link.SWITCH}, {(2, 3): Link.NVLINK}, {(0, 1): Link.NVLINK})
    assert nodes.place(container(gpu=2)) == {"main": ["n2-2", "n2-3"]}
    assert nodes.place(container(gpu=1)) == {"main": ["n0-0"]}, "one card has no use for links"


def test_only_a_few_nodes_are_compared() -> None:
    nodes = nodes_with(*[{}] * 8, {(0, 1): Link.NVLINK})
    assert nodes.place(container(gpu=2)) == {"main": ["n0-0", "n0-1"]}


def test_what_the_policy_prefers_comes_before_links_elsewhere() -> None:
    nodes = nodes_with({}, {(0, 1): Link.NVLINK}, policy=Policy.BINPACK)
    nodes.use("n0-2", 10240, 100, exclusive=True)
    assert nodes.place(container(gpu=2)) == {"main": ["n0-0", "n0-1"]}
