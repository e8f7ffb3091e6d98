"""The cards that agents told of, for what needs a card's vendor, model or memory beside the engine."""

from collections.abc import Callable, Iterator, Mapping

from sublet.model.card import Card
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import Placement

CardsOf = Callable[[Placement], Mapping[CardId, Card]]


class Cards:
    def __init__(self) -> None:
        self._nodes: dict[NodeName, tuple[Card, ...]] = {}

    def set(self, node: NodeName, cards: tuple[Card, ...]) -> None:
        self._nodes[node] = cards

    def of(self, placement: Placement) -> dict[CardId, Card]:
        """The cards of a placement; one whose inventory is not there yet as its grant describes it."""
        known = {one.id: one for card in self._nodes.get(placement.node, ()) for one in card.offered}
        return {
            grant.card: known.get(grant.card) or Card(id=grant.card, index=grant.index)
            for grants in placement.containers.values()
            for grant in grants
        }

    def on(self, node: NodeName) -> tuple[Card, ...]:
        """None where its agent has not told of any."""
        return self._nodes.get(node, ())

    def __iter__(self) -> Iterator[tuple[NodeName, tuple[Card, ...]]]:
        return iter(self._nodes.items())
