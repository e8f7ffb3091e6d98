"""What a pod asks, as far as places are compared by it."""

from collections.abc import Hashable
from dataclasses import dataclass

from sublet.model.claim import LinkWish, PodAsk, Policy
from sublet.model.ids import CardId
from sublet_scheduler.core.assigning import Asked
from sublet_scheduler.core.need import loads_of


@dataclass(frozen=True, slots=True)
class Policies:
    node: Policy
    card: Policy


@dataclass(frozen=True, slots=True)
class Shape:
    """`key` is equal for pods that rank nodes alike, `full_key` for pods that every card treats alike."""

    asked: Asked
    node_policy: Policy
    learns: bool
    """It depends on what the policy `fragmentation` learned."""
    simple: bool
    """At most one load, and any cards will do that have room."""
    several: bool
    """Some load wants more than one card."""
    key: Hashable
    full_key: Hashable

    @classmethod
    def of(cls, ask: PodAsk, default: Policies, only_card: CardId | None) -> "Shape":
        wishes = ask.wishes
        node_policy = wishes.node_policy or default.node
        asked = Asked(
            claims=ask.claims,
            loads=loads_of(ask),
            wishes=wishes,
            card_policy=wishes.card_policy or default.card,
            only_card=only_card,
            cpu_milli=ask.cpu_milli,
            memory_mib=ask.memory_mib,
            bound=bool(wishes.card_models or wishes.exclude_card_models),
        )
        fragmentation = Policy.FRAGMENTATION in (node_policy, asked.card_policy)
        key = (
            _claims_key(ask),
            node_policy,
            asked.card_policy,
            wishes.link,
            wishes.one_numa,
            (ask.cpu_milli, ask.memory_mib, asked.bound) if fragmentation else None,
            wishes.same_card is not None,
            only_card,
        )
        full_key = (
            key,
            wishes.card_models,
            wishes.exclude_card_models,
            wishes.card_uuids,
            wishes.exclude_card_uuids,
        )
        several = any(load.cards > 1 for load in asked.loads)
        return cls(asked, node_policy, fragmentation, _is_simple(asked), several, key, full_key)


def _is_simple(asked: Asked) -> bool:
    if not asked.loads:
        return True
    if len(asked.loads) > 1 or asked.only_card is not None or asked.card_policy is not Policy.FRAGMENTATION:
        return False
    [load] = asked.loads
    if load.grows or len(load.needs) != 1:
        return False
    free = asked.wishes.link is not LinkWish.REQUIRED and not asked.wishes.one_numa
    return load.cards == 1 or free


def _claims_key(ask: PodAsk) -> Hashable:
    """All of the claims but what their containers are called."""
    places = {claim.container: at for at, claim in enumerate(ask.claims)}
    return tuple(
        (
            claim.cards,
            claim.memory_mib,
            claim.memory_percent,
            claim.core_percent,
            claim.exclusive,
            claim.vendor,
            claim.one_card_group,
            claim.profile,
            claim.grows,
            places.get(claim.heir),
        )
        for claim in ask.claims
    )
