"""Fill what is begun: least memory left on the chosen cards, then least free on the node."""

from sublet_scheduler.core.assigning import Assigned
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.scoring.packing import packed


def binpack_score(node: NodeState, assigned: Assigned) -> int:
    return packed(assigned.grown, assigned.left_mib, node.free_mib + node.unused)
