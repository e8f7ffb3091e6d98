"""What every policy answers: how a node ranks for a shape, and which of its fitting cards comes first."""

from collections.abc import Callable
from typing import Protocol

from sublet.model.claim import Policy
from sublet_scheduler.core.assigning import Assigned, CardOrder
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.scoring.binpack import binpack_score
from sublet_scheduler.core.scoring.spread import spread_score

Score = int
"""Smaller is better; at least 0."""


class NodeScore(Protocol):
    """How `node` ranks with `assigned` put on it."""

    def __call__(self, node: NodeState, assigned: Assigned) -> Score: ...


OrderOn = Callable[[NodeState], CardOrder]
"""The order of the cards of one node."""

PLAIN: dict[Policy, NodeScore] = {Policy.BINPACK: binpack_score, Policy.SPREAD: spread_score}
"""The policies that look at nothing but the node."""
