"""Which cards a container sees because its variables name them: NVIDIA's runtime gives those to anybody."""

from collections.abc import Iterable

from sublet.model.card import Card, Vendor
from sublet.model.ids import CardId
from sublet_agent.core.observation import Exposure

NOTHING = frozenset({"", "void", "none"})
_WATCHERS = frozenset({"utility"})
"""Of a container with these capabilities alone: it may look at cards and cannot compute on them."""


def exposed_cards(seen: Exposure, cards: Iterable[Card]) -> frozenset[CardId]:
    """The cards and partitions that `seen` names and whose device nodes are there, where they are known."""
    if seen.visible in NOTHING:
        return frozenset()
    capabilities = {part.strip() for part in seen.capabilities.split(",") if part.strip()}
    if capabilities and capabilities <= _WATCHERS:
        return frozenset()
    named = {part.strip() for part in seen.visible.split(",")}
    return frozenset(
        card.id
        for card in cards
        if card.vendor is Vendor.NVIDIA
        and ("all" in named or named & _names(card))
        and (card.minor is None or card.minor in seen.minors)
    )


def _names(card: Card) -> set[str]:
    return {card.id, str(card.index), *([card.parent] if card.parent else ())}
