"""Lose as little as possible of what a node can still serve: fragmentation-gradient descent.

The loss of a place is the fall of its node's use (see `tables`) for the target workload, and beside that:

* what becomes *stranded*: free parts of cards for which the host has not enough CPU or memory left, if the
  tasks to come ask for it in their usual proportion;
* a *price* on kinds of cards that other tasks are bound to, paid by pods that could go elsewhere.

Losses are told apart in steps of `STEP` thousandths of a card only, and the first node in order wins among
equals: that packs, where an exact comparison would scatter.
"""

from math import floor

from sublet.model.claim import PodAsk
from sublet_scheduler.core.assigning import Asked, Assigned, CardOrder
from sublet_scheduler.core.fleet import CardState, Fleet, NodeState
from sublet_scheduler.core.kinds import Kind
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.scoring.tables import Tables
from sublet_scheduler.core.scoring.view import NodeView
from sublet_scheduler.core.scoring.workload import Workload

STEP = 40.0
PRICE = 0.5
"""Thousandths lost by each thousandth that is taken of cards which bound tasks could all fill."""
STRANDED = 0.35
"""Thousandths lost by each thousandth stranded."""
SLACK = 0.75
"""Part of the usual CPU and memory of the host for each card below which a card counts as stranded."""
LEVELS = 255
_ZERO = 16
_MOST_VIEWS = 4_096


class Fragmentation:
    """Scores nodes against the workload that was seen so far."""

    def __init__(self, fleet: Fleet, workload: Workload) -> None:
        self._fleet = fleet
        self._workload = workload
        self._views: dict[str, NodeView] = {}
        self._tables = Tables((), {})
        self.version = 0
        """Scores of an older version are a little out of date."""

    def observe(self, ask: PodAsk) -> None:
        self._workload.observe(ask)

    def refresh(self) -> None:
        """Take a new target workload when enough was learned or cards of a new kind came."""
        new_kinds = bool(self._fleet.kinds.keys() - self._tables.counted.keys())
        if not (new_kinds or self._workload.moved):
            return
        target = self._workload.target(afresh=new_kinds)
        if target is not None:
            self._tables = Tables(target, dict(self._fleet.kinds))
            self._views.clear()
            self.version += 1

    def level(self, node: NodeState, asked: Asked) -> int | None:
        """How the node ranks for a pod of one load, 0 the best; None where it has no room."""
        [load] = asked.loads
        if load.exclusive:
            if load.cards > node.unused:
                return None
        elif load.memory_mib > node.most_free_mib or load.core_percent > node.most_free_core:
            return None
        view = self._view(node)
        lost = view.loss_of(load, asked.cpu_milli, asked.memory_mib)
        if lost is None:
            return None
        use, taken, kind = lost
        return self._level(view, use, taken, kind, asked, load.cards)

    def level_with(self, node: NodeState, assigned: Assigned, asked: Asked) -> int:
        """The same for any pod, with `assigned` put on the node."""
        view = self._view(node)
        use, taken, kind = view.loss_with(assigned, asked.cpu_milli, asked.memory_mib)
        cards = sum(load.cards for load in assigned.loads)
        return min(LEVELS - 1, self._level(view, use, taken, kind, asked, cards) + 16 * assigned.grown)

    def card_order(self, node: NodeState, asked: Asked) -> CardOrder:
        """The cards of the node, the one whose use falls least first; of equals the fullest."""
        view = self._view(node)

        def order(state: CardState, load: Load) -> tuple[float, int, int, int, str]:
            lost = view.loss_on(state, load, asked.cpu_milli, asked.memory_mib)
            return (floor(lost / STEP), state.free_mib, state.free_core, state.card.index, state.card.id)

        return order

    def _level(self, view: NodeView, use: float, taken: float, kind: Kind, asked: Asked, cards: int) -> int:
        tables = self._tables
        stranded = _stranded(
            tables, view.free - taken, view.cpu_milli - asked.cpu_milli, view.memory_mib - asked.memory_mib
        )
        loss = use + STRANDED * (stranded - view.stranded)
        if not asked.bound:
            loss += PRICE * tables.price.get(kind, 0.0) * taken
        return min(LEVELS - 1, max(0, _ZERO + floor(loss / (STEP * max(1, cards)))))

    def _view(self, node: NodeState) -> NodeView:
        view = self._views.get(node.name)
        if view is None or view.node is not node or view.version != node.version:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            view = NodeView(node, self._tables)
            view.stranded = _stranded(self._tables, view.free, view.cpu_milli, view.memory_mib)
            self._views[node.name] = view
        return view


def _stranded(tables: Tables, free: float, cpu_milli: int, memory_mib: int) -> float:
    """What of the free cards the host's CPU and memory do not reach for."""
    reached = free
    if tables.cpu_per_use:
        reached = min(reached, cpu_milli / (SLACK * tables.cpu_per_use))
    if tables.memory_per_use:
        reached = min(reached, memory_mib / (SLACK * tables.memory_per_use))
    return free - max(0.0, reached)
