"""Lose as little as possible of what a node can still serve: fragmentation-gradient descent.

The loss of a place is the fall of its node's use (see `tables`) for the target workload, and beside that:

* what becomes *stranded*: free parts of cards for which the host has not enough CPU or memory left, if the
  tasks to come ask for it in their usual proportion;
* a *price* on kinds of cards that other tasks are bound to, paid by pods that could go elsewhere.

Losses are told apart in steps of `STEP` thousandths of a card only, and the first node in order wins among
equals: that packs, where an exact comparison would scatter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor

from sublet.model.claim import PodAsk
from sublet_scheduler.core.assigning import Asked, Assigned, CardOrder
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.node import CardState, NodeState
from sublet_scheduler.core.scoring.tables import Tables
from sublet_scheduler.core.scoring.view import Lost, NodeView
from sublet_scheduler.core.scoring.workload import Workload

STEP = 40.0
LEVELS = 255
_ZERO = 16
_MOST_VIEWS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What counts beside the use that is lost."""

    price: float = 1.0
    """Thousandths lost by each thousandth that is taken of cards which bound tasks could all fill."""
    stranded: float = 0.35
    """Thousandths lost by each thousandth stranded."""


class Fragmentation:
    """Scores nodes against the workload that was seen so far."""

    def __init__(self, fleet: Fleet, workload: Workload) -> None:
        self._fleet = fleet
        self._workload = workload
        self._views: dict[str, NodeView] = {}
        self.tables = Tables((), {})
        self.weights = Weights()
        self.version = 0
        """Scores of an older version are a little out of date."""

    def observe(self, ask: PodAsk, loads: Sequence[Load]) -> None:
        self._workload.observe(ask, loads)

    def refresh(self) -> None:
        """Take a new target workload when enough was learned or cards of a new kind came."""
        new_kinds = not (self._fleet.kinds.keys() <= self.tables.counted.keys())
        if not (new_kinds or self._workload.moved):
            return
        target = self._workload.target(afresh=new_kinds)
        if target is not None:
            self.tables = Tables(target, dict(self._fleet.kinds))
            self._views.clear()
            self.version += 1

    def scorer(self, asked: Asked) -> Callable[[NodeState], int | None]:
        """Says how a node ranks for a pod of at most one load, 0 the best; None where it has no room."""
        tables, views = self.tables, self._views
        sized = tables.sized(asked.loads[0]) if asked.loads else None
        host = cpu_milli, memory_mib = asked.cpu_milli, asked.memory_mib
        whole = sized.cards if sized and sized.exclusive else 0
        part_mib, part_core = (sized.least_mib, sized.core_percent) if sized and not whole else (0, 0)
        cards = sized.cards if sized else 1

        def score(node: NodeState) -> int | None:
            if whole > node.unused or part_mib > node.most_free_mib or part_core > node.most_free_core:
                return None
            view = views.get(node.name)
            if view is None or view.version != node.version or view.node is not node:
                view = self._view(node)
            row = view.rows.get(host)
            if row is None:
                free_milli, free_mib = view.cpu_milli - cpu_milli, view.memory_mib - memory_mib
                if (cpu_milli and free_milli < 0) or (memory_mib and free_mib < 0):
                    return None
                row = view.rows[host] = tables.row(free_milli, free_mib)
            lost = view.lost(row, sized)
            return None if lost is None else self._level(view, lost, asked, cards)

        return score

    def score_with(self, node: NodeState, assigned: Assigned, asked: Asked) -> int:
        """How a node ranks for any pod, with `assigned` put on it."""
        view = self._view(node)
        row = self.tables.row(view.cpu_milli - asked.cpu_milli, view.memory_mib - asked.memory_mib)
        cards = sum(load.cards for load in assigned.loads)
        level = self._level(view, view.lost_with(row, assigned), asked, max(1, cards))
        return min(LEVELS - 1, level + 16 * assigned.grown)

    def card_order(self, node: NodeState, asked: Asked) -> CardOrder:
        """The cards of the node, the one whose use falls least first; of equals the fullest."""
        view = self._view(node)
        row = self.tables.row(view.cpu_milli - asked.cpu_milli, view.memory_mib - asked.memory_mib)

        def order(state: CardState, load: Load) -> tuple[int, int, int, int]:
            lost = floor(view.fall(row, load, state) / STEP)
            return (lost, state.free_mib, state.free_core, state.free_siblings)

        return order

    def _level(self, view: NodeView, lost: Lost, asked: Asked, cards: int) -> int:
        use, taken, kind = lost
        stranded = self.tables.stranded(
            view.free - taken, view.cpu_milli - asked.cpu_milli, view.memory_mib - asked.memory_mib
        )
        loss = use + self.weights.stranded * (stranded - view.stranded)
        if kind.price and not asked.bound:
            loss += self.weights.price * kind.price * taken
        level = _ZERO + floor(loss / (STEP * cards))
        return 0 if level < 0 else level if level < LEVELS else LEVELS - 1

    def _view(self, node: NodeState) -> NodeView:
        view = self._views.get(node.name)
        if view is None or view.node is not node or view.version != node.version:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            view = self._views[node.name] = NodeView(node, self.tables)
        return view
