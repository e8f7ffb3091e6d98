"""Which cards of one node a pod gets: every "no" has a reason, every tie is broken.

Loads are put on cards one after another, the hardest first; where the best card for one leaves no room
for the next, other cards are tried. What a load takes is booked on copies.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

from sublet.model.card import Card
from sublet.model.claim import Claim, LinkWish, Policy, Wishes
from sublet.model.ids import CardId
from sublet.model.placement import CardGrant
from sublet.model.reasons import Reason
from sublet_scheduler.core.linking import broken, linked_sets, sets_by_links, worth
from sublet_scheduler.core.need import Load, Need
from sublet_scheduler.core.node import CardState, NodeState

MOST_TRIES = 200
"""Dead ends on one node before the search for a pod of several loads is cut short there."""
MOST_A_DECISION = 1_000
"""Dead ends on all nodes together; on those that come after, one way is tried."""


@dataclass(slots=True)
class Patience:
    """How many dead ends a decision may still meet. No pod may keep all others waiting."""

    left: int = MOST_A_DECISION

    def renew(self) -> None:
        self.left = MOST_A_DECISION


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a pod asks of the cards of any node."""

    claims: tuple[Claim, ...]
    loads: tuple[Load, ...]
    wishes: Wishes
    card_policy: Policy
    only_card: CardId | None = None
    """Where the pod's same-card group sits."""
    cpu_milli: int = 0
    memory_mib: int = 0
    """Of the host."""
    bound: bool = False
    """The pod may not take cards of every model."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The chosen cards of each load; `left_mib` is what they have free afterwards."""

    loads: Sequence[Load]
    seats: Sequence[Sequence[CardState]]
    left_mib: int
    grown: int = 0
    """Over how many cards more than asked for the memory is spread, because no card had it."""


@dataclass(frozen=True, slots=True)
class Objections:
    """For every card of the node the first thing against it."""

    reasons: Mapping[CardId, Reason]


def too_large(node: NodeState, asked: Asked) -> bool:
    """Whether a glance at the node is enough to say that `asked` does not fit; reasons are for `assign`."""
    return any(
        load.cards > node.unused if load.exclusive else load.memory_mib > node.most_free_mib
        for load in asked.loads
        if not load.grows
    )


CardOrder = Callable[[CardState, Load], tuple[Any, ...]]
"""What the policy thinks of a card: the smaller, the better for the load. Of equals the one comes first that
breaks the least of what is joined, then the first by index."""


def assign(
    cards: Sequence[CardState],
    asked: Asked,
    *,
    shares_per_card: int,
    order: CardOrder | None = None,
    patience: Patience | None = None,
) -> Assigned | Objections:
    """Choose cards of one node, given by ascending index, for all loads of a pod. Without `patience` it is
    the only node of the decision."""
    patience = patience or Patience()
    order = order or usual_order(asked)
    if asked.wishes.one_numa:
        return _on_one_numa(cards, asked, shares_per_card, order, patience)
    return _anywhere(cards, asked, shares_per_card, order, patience)


def usual_order(asked: Asked) -> CardOrder:
    """The order of policies that look at nothing but the card."""
    return _emptiest_first if asked.card_policy is Policy.SPREAD else _fullest_first


def _on_one_numa(
    cards: Sequence[CardState], asked: Asked, shares_per_card: int, order: CardOrder, patience: Patience
) -> Assigned | Objections:
    """The cards of one NUMA node: of those with room the one whose cards are joined best."""
    found = []
    for numa in sorted({state.card.numa for state in cards if state.card.numa is not None}):
        here = [state for state in cards if state.card.numa == numa]
        outcome = _anywhere(here, asked, shares_per_card, order, patience)
        if isinstance(outcome, Assigned):
            found.append(outcome)
    if found:
        return min(found, key=lambda one: _preference(one, order))
    outcome = _anywhere(cards, asked, shares_per_card, order, patience)
    if isinstance(outcome, Objections):
        return outcome
    load = asked.loads[0]
    reasons = {state.card.id: objection(state, load, asked.wishes, shares_per_card) for state in cards}
    return Objections({card: reason or Reason.NOT_ON_ONE_NUMA for card, reason in reasons.items()})


def _preference(assigned: Assigned, order: CardOrder) -> tuple[Any, ...]:
    joined = sum(worth(states) for states in assigned.seats)
    seats = zip(assigned.loads, assigned.seats, strict=True)
    return (assigned.grown, -joined, [order(state, load) for load, states in seats for state in states])


def _anywhere(
    cards: Sequence[CardState], asked: Asked, shares_per_card: int, order: CardOrder, patience: Patience
) -> Assigned | Objections:
    search = _Search(asked, shares_per_card, order, min(MOST_TRIES, patience.left))
    if len(asked.loads) > 1 and not _within(cards, asked.loads, shares_per_card):
        search.most = 1  # one way is enough to say why not
        search.fill(cards, asked.loads)
        return Objections(search.objections)
    try:
        return _searched(search, cards, asked)
    finally:
        patience.left -= min(patience.left, search.tries)


def _searched(search: "_Search", cards: Sequence[CardState], asked: Asked) -> Assigned | Objections:
    seats = search.fill(cards, asked.loads)
    if seats is not None:
        return _assigned(asked.loads, seats, grown=0)
    why = search.objections
    several = len(asked.loads) > 1
    for grown, loads in _grown(asked.loads, len(cards)):
        if search.cut_short:
            break
        if several:
            search.count()
        seats = search.fill(cards, loads)
        if seats is not None:
            return _assigned(loads, seats, grown=grown)
    if search.cut_short:
        return Objections(
            {state.card.id: _cut_short(state, asked, search.shares_per_card) for state in cards}
        )
    return Objections(why)


def _cut_short(state: CardState, asked: Asked, shares_per_card: int) -> Reason:
    """What is against a card where not every way was tried: that, unless no load fits on the card anyhow."""
    found = [objection(state, load, asked.wishes, shares_per_card) for load in asked.loads]
    return (found[0] or Reason.SEARCH_CUT_SHORT) if all(found) else Reason.SEARCH_CUT_SHORT


def _within(cards: Sequence[CardState], loads: Sequence[Load], shares_per_card: int) -> bool:
    """Whether all loads are within what all cards have; no pod may make us search for more."""
    shares = sum(max(0, shares_per_card - card.shares) for card in cards)
    free_mib = sum(max(0, card.free_mib) for card in cards)
    return (
        sum(load.cards * len(load.needs) for load in loads) <= shares
        and sum(load.cards * load.core_percent for load in loads) <= sum(card.free_core for card in cards)
        and sum(load.cards * load.memory_mib for load in loads if not load.exclusive) <= free_mib
    )


def _assigned(loads: Sequence[Load], seats: Sequence[Sequence[CardState]], *, grown: int) -> Assigned:
    left: dict[CardId, int] = {}
    for load, states in zip(loads, seats, strict=True):
        for state in states:
            left[state.card.id] = state.free_mib - load.of_card(state.card)
    return Assigned(loads, seats, sum(left.values()), grown)


def _grown(loads: Sequence[Load], most: int) -> Iterator[tuple[int, Sequence[Load]]]:
    """Ways to spread those loads that may be, over as few cards more as possible."""
    growing = sum(load.grows for load in loads)
    if not growing:
        return
    ways = sorted(islice(product(range(most), repeat=growing), MOST_TRIES), key=lambda way: (sum(way), way))
    for more in ways[1:]:
        over = iter(more)
        yield sum(more), [load.over(1 + next(over)) if load.grows else load for load in loads]


def grants_of(assigned: Assigned, asked: Asked) -> dict[str, tuple[CardGrant, ...]]:
    """The grants of every claiming container, ascending by index."""
    found: dict[str, tuple[CardGrant, ...]] = {}
    for load, states in zip(assigned.loads, assigned.seats, strict=True):
        for need in load.needs:
            grants = tuple(_grant(state.card, need) for state in states)
            found |= {claim.container: grants for claim in need.claims}
    return {claim.container: found[claim.container] for claim in asked.claims}


def objection(card: CardState, load: Load, wishes: Wishes, shares_per_card: int) -> Reason | None:
    """The first thing that stands against putting `load` on `card`, if any."""
    if not card.open:
        return _why_shut(card)
    if load.exclusive:
        if not card.unused:
            return Reason.IN_USE
    elif room := _room_objection(card, load, shares_per_card):
        return room
    return wish_objection(card.card, load, wishes)


def _why_shut(card: CardState) -> Reason:
    if card.card.is_unpartitioned:
        return Reason.NO_PARTITIONS
    return Reason.USED_OUTSIDE if card.shut else Reason.UNHEALTHY


def _room_objection(card: CardState, load: Load, shares_per_card: int) -> Reason | None:
    if card.exclusive:
        return Reason.EXCLUSIVE
    known = card.card.memory_mib is not None
    if known and (load.of_card(card.card) > card.free_mib or not load.each_within(card.card)):
        return Reason.INSUFFICIENT_MEMORY
    if load.core_percent > card.free_core:
        return Reason.INSUFFICIENT_CORES
    if card.shares + len(load.needs) > shares_per_card:
        return Reason.TOO_MANY_SHARES
    return None if known else Reason.UNKNOWN_MEMORY


def wish_objection(card: Card, load: Load, wishes: Wishes) -> Reason | None:
    if wishes.card_models or wishes.exclude_card_models:
        model = card.model.lower()
        if wishes.card_models and not any(part in model for part in wishes.card_models):
            return Reason.MODEL_MISMATCH
        if any(part in model for part in wishes.exclude_card_models):
            return Reason.MODEL_MISMATCH
    if wishes.card_uuids and not _is_named(card, wishes.card_uuids):
        return Reason.UUID_MISMATCH
    if _is_named(card, wishes.exclude_card_uuids):
        return Reason.UUID_MISMATCH
    if load.vendors and load.vendors != {card.vendor}:
        return Reason.VENDOR_MISMATCH
    if load.profiles != {card.profile}:
        return Reason.PROFILE_MISMATCH
    return Reason.UNKNOWN_NUMA if wishes.one_numa and card.numa is None else None


def _is_named(card: Card, uuids: Collection[str]) -> bool:
    """By its own UUID, or that of the card which it is part of."""
    return card.id in uuids or (card.parent is not None and card.parent in uuids)


@dataclass(slots=True)
class _Search:
    asked: Asked
    shares_per_card: int
    order: CardOrder
    most: int
    """Dead ends before it is cut short."""
    objections: Mapping[CardId, Reason] = field(default_factory=dict)
    """What stood against the first way that was tried."""
    tries: int = 0
    cut_short: bool = False

    def fill(self, cards: Sequence[CardState], loads: Sequence[Load]) -> list[Sequence[CardState]] | None:
        """Cards for each of `loads`, or None."""
        if not loads:
            return []
        load, rest = loads[0], loads[1:]
        seen: set[object] = set()
        for chosen in self._ways(cards, load):
            if not rest:
                return [chosen]
            alike = tuple(_alike(state) for state in chosen)
            if alike in seen and all(one.cards == 1 for one in rest):
                continue
            seen.add(alike)
            found = self.fill(taken(cards, chosen, load), rest)
            if found is not None:
                return [chosen, *found]
            self.count()
            if self.cut_short:
                return None
        return None

    def count(self) -> None:
        """One way more was tried in vain."""
        self.tries += 1
        self.cut_short = self.cut_short or self.tries >= self.most

    def _ways(self, cards: Sequence[CardState], load: Load) -> Iterator[Sequence[CardState]]:
        """Sets of cards that can take `load`, the preferred one first."""
        asked = self.asked
        fitting: list[CardState] = []
        reasons: dict[CardId, Reason] = {}
        for card in cards:
            reason = objection(card, load, asked.wishes, self.shares_per_card)
            if reason is None and self._apart(card, load):
                reason = Reason.SAME_CARD_FULL
            if reason is None:
                fitting.append(card)
            else:
                reasons[card.card.id] = reason
        if len(fitting) < load.cards:
            self._object(reasons | {card.card.id: Reason.TOO_FEW_CARDS for card in fitting})
            return
        keyed = {card.card.id: self.order(card, load) for card in fitting}
        if load.cards == 1:
            yield [_first(fitting, keyed, cards)]  # mostly the only one that is asked for
            yield from ([card] for card in _sorted(fitting, keyed, cards)[1:])
            return
        fitting = _sorted(fitting, keyed, cards)
        required = asked.wishes.link is LinkWish.REQUIRED
        some = False
        for chosen in (linked_sets if required else sets_by_links)(fitting, load.cards):
            some = True
            yield sorted(chosen, key=lambda one: (one.card.index, one.card.id))
        if not some:
            self._object(reasons | {card.card.id: Reason.NOT_LINKED for card in fitting})

    def _apart(self, card: CardState, load: Load) -> bool:
        """Whether those that must share one card cannot do so here."""
        elsewhere = self.asked.only_card not in (None, card.card.id)
        return elsewhere or (load.exclusive and len(load.needs) > 1)

    def _object(self, reasons: Mapping[CardId, Reason]) -> None:
        self.objections = self.objections or reasons


def _first(
    fitting: Sequence[CardState], keyed: Mapping[CardId, tuple[Any, ...]], cards: Sequence[CardState]
) -> CardState:
    """The first of `_sorted`."""
    least = min(keyed.values())
    alike = [one for one in fitting if keyed[one.card.id] == least]
    return alike[0] if len(alike) == 1 else _sorted(alike, keyed, cards)[0]


def _sorted(
    fitting: Sequence[CardState], keyed: Mapping[CardId, tuple[Any, ...]], cards: Sequence[CardState]
) -> list[CardState]:
    lost = broken(cards)

    def key(one: CardState) -> tuple[Any, ...]:
        return (keyed[one.card.id], lost(one), one.card.index, one.card.id)

    return sorted(fitting, key=key)


def _fullest_first(state: CardState, _: Load) -> tuple[int, int, int]:
    return (state.free_mib, state.free_core, state.free_siblings)


def _emptiest_first(state: CardState, _: Load) -> tuple[int, int, int]:
    return (-state.free_mib, -state.free_core, -state.free_siblings)


def taken(cards: Sequence[CardState], chosen: Sequence[CardState], load: Load) -> list[CardState]:
    """`cards` with `load` on the chosen ones."""
    ids = {state.card.id for state in chosen}
    return [_with(state, load) if state.card.id in ids else state for state in cards]


def _alike(state: CardState) -> object:
    """Equal for cards of which it does not matter which one is taken, links aside."""
    card = state.card
    return (card.vendor, card.model, card.memory_mib, state.free_mib, state.free_core, state.shares)


def _with(state: CardState, load: Load) -> CardState:
    return replace(
        state,
        shares=state.shares + len(load.needs),
        used_mib=state.used_mib + load.of_card(state.card),
        used_core=state.used_core + load.core_percent,
        exclusive=load.exclusive,
    )


def _grant(card: Card, need: Need) -> CardGrant:
    return CardGrant(
        card=card.id,
        index=card.index,
        memory_mib=need.of_card(card),
        core_percent=need.core_percent,
        exclusive=need.exclusive,
    )
