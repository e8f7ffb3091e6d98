"""Partitions that come and go while containers run: who can still open which."""

from collections.abc import Iterable, Mapping

from sublet.model.card import Card
from sublet.model.ids import CardId
from sublet_agent.core.edits import Node
from sublet_agent.core.record import Record


def still_reached(
    card: Card, nodes: Mapping[CardId, tuple[Node, ...]], records: Iterable[Record]
) -> frozenset[CardId]:
    """Partitions of `card` whose own device nodes are in the hands of a container that was given another.

    The driver gives a new instance the nodes of the one that it takes the place of, so whoever was prepared
    with the old one reaches the new one until it ends.
    """
    if not card.partitions:
        return frozenset()
    shared = {node.host_path for node in nodes.get(card.id, ())}
    found: set[CardId] = set()
    for record in records:
        held = {node.host_path for node in record.edits.nodes}
        for one in card.partitions:
            own = {node.host_path for node in nodes.get(CardId(one.uuid), ())} - shared
            if own and own <= held and CardId(one.uuid) not in record.cards:
                found.add(CardId(one.uuid))
    return frozenset(found)
