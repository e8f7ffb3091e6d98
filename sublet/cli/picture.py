"""What is known of a cluster, or of an inventory in its place, for the commands that show it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.contract.inventory import InventoryNode
from sublet.model.health import HealthState
from sublet.model.ids import CardId
from sublet.model.placement import CardUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`nodes` by name; `reasons` are the open ones of a card or partition, `health` is how it is judged,
    `uses` is what runs on it."""

    nodes: tuple[InventoryNode, ...]
    reasons: Mapping[CardId, tuple[str, ...]]
    health: Mapping[CardId, HealthState]
    uses: Mapping[CardId, CardUse] = field(default_factory=dict)
    unlisted: tuple[InventoryNode, ...] = ()
    """By node, what containers hold though no agent lists it any more, such as a destroyed partition."""
