"""Which cards of one node a pod gets: every "no" has a reason, every tie is broken.

The assignment is tentative: it works on copies of the cards, container after container.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sublet.model.card import Card
from sublet.model.claim import LinkWish, PodAsk, Policy, Wishes
from sublet.model.ids import CardId
from sublet.model.placement import CardGrant
from sublet.model.reasons import Reason
from sublet_scheduler.core.fleet import CardState, NodeState
from sublet_scheduler.core.linking import best_linked, fully_linked
from sublet_scheduler.core.need import Need


@dataclass(frozen=True, slots=True)
class Assigned:
    """Grants of every claiming container, ascending by index; `left_mib` is what the chosen cards have
    free afterwards."""

    containers: Mapping[str, tuple[CardGrant, ...]]
    left_mib: int


@dataclass(frozen=True, slots=True)
class Objections:
    """For every card of the node the first thing against it."""

    reasons: Mapping[CardId, Reason]


def assign(
    node: NodeState, ask: PodAsk, *, card_policy: Policy, only_card: CardId | None = None
) -> Assigned | Objections:
    """Choose cards for all claims of `ask`; `only_card` is where its same-card group sits."""
    cards = [replace(state) for state in node.by_index()]
    needs = [Need.of(claim, ask.claims) for claim in ask.claims if not claim.heir]
    containers: dict[str, tuple[CardGrant, ...]] = {}
    groups: dict[str, CardId] = {}
    left: dict[CardId, int] = {}
    for need in sorted(needs, key=_hardest_first):
        claim = need.claims[0]
        within = only_card or groups.get(claim.one_card_group)
        chosen = _choose(cards, need, ask.wishes, node.shares_per_card, card_policy, within)
        if isinstance(chosen, Objections):
            return chosen
        if claim.one_card_group:
            groups[claim.one_card_group] = chosen[0].card.id
        if ask.wishes.same_card:
            only_card = chosen[0].card.id
        containers[claim.container] = tuple(_take(state, need) for state in chosen)
        left |= {state.card.id: state.free_mib for state in chosen}
    for claim in ask.claims:
        if claim.heir:
            containers[claim.container] = containers[claim.heir]
    return Assigned(
        {claim.container: containers[claim.container] for claim in ask.claims}, sum(left.values())
    )


def _hardest_first(need: Need) -> tuple[bool, int, int, int]:
    memory = max(claim.memory_mib or 0 for claim in need.claims)
    return (not need.exclusive, -need.cards, -memory, -need.core_percent)


def objection(card: CardState, need: Need, wishes: Wishes, shares_per_card: int) -> Reason | None:
    """The first thing that stands against putting `need` on `card`, if any."""
    if not card.open:
        return Reason.UNHEALTHY
    if need.exclusive:
        if not card.unused:
            return Reason.IN_USE
    elif room := _room_objection(card, need, shares_per_card):
        return room
    return _wish_objection(card.card, need, wishes)


def _room_objection(card: CardState, need: Need, shares_per_card: int) -> Reason | None:
    if card.exclusive:
        return Reason.EXCLUSIVE
    known = card.card.memory_mib is not None
    if known and (need.memory_mib(card.card) or 0) > card.free_mib:
        return Reason.INSUFFICIENT_MEMORY
    if need.core_percent > card.free_core:
        return Reason.INSUFFICIENT_CORES
    if card.shares >= shares_per_card:
        return Reason.TOO_MANY_SHARES
    return None if known else Reason.UNKNOWN_MEMORY


def _wish_objection(card: Card, need: Need, wishes: Wishes) -> Reason | None:
    if wishes.card_models or wishes.exclude_card_models:
        model = card.model.lower()
        if wishes.card_models and not any(part in model for part in wishes.card_models):
            return Reason.MODEL_MISMATCH
        if any(part in model for part in wishes.exclude_card_models):
            return Reason.MODEL_MISMATCH
    if wishes.card_uuids and card.id not in wishes.card_uuids:
        return Reason.UUID_MISMATCH
    if card.id in wishes.exclude_card_uuids:
        return Reason.UUID_MISMATCH
    if need.vendors and need.vendors != {card.vendor}:
        return Reason.VENDOR_MISMATCH
    return None


def _choose(
    cards: Sequence[CardState],
    need: Need,
    wishes: Wishes,
    shares_per_card: int,
    policy: Policy,
    within: CardId | None,
) -> Sequence[CardState] | Objections:
    reasons: dict[CardId, Reason] = {}
    fitting: list[CardState] = []
    for card in cards:
        reason = objection(card, need, wishes, shares_per_card)
        if reason is None and within and card.card.id != within:
            reason = Reason.SAME_CARD_FULL
        if reason is None:
            fitting.append(card)
        else:
            reasons[card.card.id] = reason
    if len(fitting) < need.cards:
        return Objections(reasons | {card.card.id: Reason.TOO_FEW_CARDS for card in fitting})
    sign = -1 if policy is Policy.SPREAD else 1
    fitting.sort(key=lambda one: (sign * one.free_mib, sign * one.free_core, one.card.index, one.card.id))
    if need.cards == 1:
        return fitting[:1]
    required = wishes.link is LinkWish.REQUIRED
    chosen = fully_linked(fitting, need.cards) if required else best_linked(fitting, need.cards)
    if chosen is None:
        return Objections(reasons | {card.card.id: Reason.NOT_LINKED for card in fitting})
    return sorted(chosen, key=lambda one: (one.card.index, one.card.id))


def _take(state: CardState, need: Need) -> CardGrant:
    """Book `need` on the copied card and return the grant."""
    memory_mib = need.memory_mib(state.card)
    state.shares += 1
    state.used_mib += memory_mib or 0
    state.used_core += need.core_percent
    state.exclusive = need.exclusive
    return CardGrant(
        card=state.card.id,
        index=state.card.index,
        memory_mib=memory_mib,
        core_percent=need.core_percent,
        exclusive=need.exclusive,
    )
