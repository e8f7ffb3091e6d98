"""How much CPU and memory of a node is kept for its idle cards: so much each, no more than is free."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from sublet_scheduler.core.node import NodeState, counted_grants
from sublet_scheduler.core.size import Size

LEAST = Size(cpu_milli=1, memory_bytes=2**20)
"""What a ballast pod asks for when it keeps nothing: without any request its QoS class would be another one,
which the API server refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """What every idle card of a node pool has kept for it."""

    selector: Mapping[str, str]
    """Labels that a node of the pool carries; empty for all nodes with cards."""
    cpu_milli: int
    memory_bytes: int

    def is_for(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.selector.items())


def ratio_for(labels: Mapping[str, str], ratios: Iterable[Ratio]) -> Ratio | None:
    """The first ratio whose pool a node with these labels is in."""
    return next((one for one in ratios if one.is_for(labels)), None)


def ballast_size(ratio: Ratio, *, idle_cards: int, free: Size) -> Size:
    """What a node's ballast shall ask for; `free` is what all other pods leave of the node.

    A pod that claims no card then fits exactly where it leaves `idle_cards` x `ratio` free.
    """
    return Size(
        cpu_milli=max(LEAST.cpu_milli, min(idle_cards * ratio.cpu_milli, free.cpu_milli)),
        memory_bytes=max(LEAST.memory_bytes, min(idle_cards * ratio.memory_bytes, free.memory_bytes)),
    )


def idle_cards(node: NodeState, leaving: Container[str] = ()) -> int:
    """Cards that take new shares and hold nothing, but for what `leaving` (booking keys) still hold; one in
    partitions is idle when all of them are."""
    held = {
        grant.card
        for key, booking in node.bookings.items()
        if key not in leaving
        for grant in counted_grants(booking.held)
    }
    cards, busy = set(), set()
    for one in node.by_index:
        card = one.card.parent or one.card.id
        cards.add(card)
        if one.card.id in held or one.card.used_outside_mib or not one.open:
            busy.add(card)
    return len(cards - busy)


def free_of(node: NodeState) -> Size:
    """What pods other than the ballast leave of the node; less than nothing where it is over-committed."""
    facts = node.facts
    if facts is None:
        return Size(cpu_milli=0, memory_bytes=0)
    return Size(
        cpu_milli=facts.cpu_milli - node.cpu_milli,
        memory_bytes=(facts.memory_mib - node.memory_mib) * 2**20,
    )
