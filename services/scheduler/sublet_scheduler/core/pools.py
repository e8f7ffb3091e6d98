"""What the cluster says of nodes that are not there: the kinds that an autoscaler can add."""

from dataclasses import dataclass

from sublet.model.card import Inventory
from sublet_scheduler.core.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """One kind of node, as one of them would look."""

    facts: NodeFacts
    inventory: Inventory
