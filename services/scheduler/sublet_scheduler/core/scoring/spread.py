"""Stay apart: the node of which the smallest part is promised, then the one with most memory free."""

from sublet_scheduler.core.assigning import Assigned
from sublet_scheduler.core.node import CardState, NodeState
from sublet_scheduler.core.scoring.packing import FIELD_MAX, packed


def spread_score(node: NodeState, assigned: Assigned) -> int:
    used_ppm = sum(_used_ppm(card) for card in node.cards.values()) // max(1, len(node.cards))
    return packed(assigned.grown, used_ppm, FIELD_MAX - node.free_mib)


def _used_ppm(card: CardState) -> int:
    if card.exclusive:
        return 1_000_000
    memory_ppm = 1_000_000 * card.used_mib // card.total_mib if card.total_mib else 0
    return max(memory_ppm, 1_000_000 * card.used_core // card.total_core)
