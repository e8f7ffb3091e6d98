"""Nodes in order of preference for one shape of request, kept up to date by what changed.

A shape is what a pod asks of resources, without where it may run: pods of equal shape share one ranking.
Only nodes that changed since the shape was last used are scored again, so a decision does not cost a scan
of the fleet. Whether the pod may run on a node is tested when the node is taken.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from sublet.model.claim import Policy
from sublet.model.ids import CardId, NodeName
from sublet_scheduler.core.assigning import (
    Asked,
    Assigned,
    CardOrder,
    Patience,
    assign,
    too_large,
    usual_order,
)
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.ranking import Levels, Ranking, Ranks
from sublet_scheduler.core.scoring.fragmentation import Fragmentation
from sublet_scheduler.core.scoring.interface import PLAIN
from sublet_scheduler.core.shapes import Shape

MOST_SCORES = 4_000_000
"""Live shapes times nodes."""
MOST_SHAPES = 512
LEAST_SHAPES = 64
SWEEP = 128
"""So many nodes are scored again by a decision after the policy learned more."""
LONG_SWEEP = 1_500
"""The same where the shape missed that twice."""


@dataclass(slots=True)
class Index:
    """The nodes ranked for one shape, and how far the ranking has followed what changed."""

    asked: Asked
    """What pods of the shape ask of resources."""
    ranking: Ranking
    order: tuple[NodeName, ...]
    layout: int
    seen: int = -1
    version: int = -1
    """Of what the policy knew when the sweep began that is under way."""
    swept: int = 0
    built: int = 0
    """Nodes below this position had their first score; a new ranking begins with none."""


def _fewest_first(beside: Mapping[CardId, int], order: CardOrder) -> CardOrder:
    return lambda state, load: (beside.get(state.card.id, 0), *order(state, load))


def _resources_only(asked: Asked) -> Asked:
    wishes = replace(
        asked.wishes, card_models=(), exclude_card_models=(), card_uuids=(), exclude_card_uuids=()
    )
    return replace(asked, wishes=wishes)


class Candidates:
    """The rankings of the live shapes of one fleet."""

    def __init__(self, fleet: Fleet, fragmentation: Fragmentation, patience: Patience) -> None:
        self._fleet = fleet
        self._patience = patience
        self._fragmentation = fragmentation
        self.indices: OrderedDict[Hashable, Index] = OrderedDict()
        self.scored = 0
        """How many first scores were given."""

    @property
    def live_shapes(self) -> int:
        return len(self.indices)

    def best_first(self, shape: Shape, barred: int = 0) -> Iterator[NodeState]:
        """Every node that has room for the shape, best first; ties go to the smaller name.

        `barred` has all bits set in the byte of each position that is out.
        """
        index = self._index(shape)
        for at in index.ranking.in_order(barred):
            yield self._fleet.nodes[index.order[at]]

    def prepare(self, shape: Shape, most: int) -> bool:
        """Score up to `most` nodes more for a shape that is new; whether that was all."""
        return self._is_built(shape) or self._index(shape, most).built == len(self._fleet.order)

    def _is_built(self, shape: Shape) -> bool:
        index = self.indices.get(shape.key)
        return index is not None and index.layout == self._fleet.layout and index.built == len(index.order)

    def score(self, shape: Shape, node: NodeName) -> int:
        """How a node ranks that `best_first` gave for the shape."""
        return self.indices[shape.key].ranking.score(self._fleet.places[node])

    def assign_on(
        self, node: NodeState, asked: Asked, beside: Mapping[CardId, int] | None = None
    ) -> Assigned | None:
        """The cards of `node` for a pod, as its card policy wishes; those first that have the fewest of the
        replicas that it keeps apart from, which `beside` counts."""
        order = None
        if asked.card_policy is Policy.FRAGMENTATION:
            order = self._fragmentation.card_order(node, asked)
        if beside:
            order = _fewest_first(beside, order or usual_order(asked))
        outcome = assign(
            node.by_index,
            asked,
            shares_per_card=node.shares_per_card,
            order=order,
            patience=self._patience,
        )
        return outcome if isinstance(outcome, Assigned) else None

    def _scorer(self, shape: Shape, asked: Asked) -> Callable[[NodeState], int | None]:
        """Says how a node ranks for what the shape asks of resources; None where it has no room."""
        if shape.node_policy is Policy.FRAGMENTATION and shape.simple:
            return self._fragmentation.scorer(asked)

        def score(node: NodeState) -> int | None:
            assigned = None if too_large(node, asked) else self.assign_on(node, asked)
            if assigned is None:
                return None
            if shape.node_policy is Policy.FRAGMENTATION:
                return self._fragmentation.score_with(node, assigned, asked)
            return PLAIN[shape.node_policy](node, assigned)

        return score

    def _index(self, shape: Shape, most: int | None = None) -> Index:
        fleet = self._fleet
        order = fleet.order
        self._fragmentation.refresh()
        index = self.indices.get(shape.key)
        if index is None:
            size = len(order)
            ranking: Ranking = Levels(size) if shape.node_policy is Policy.FRAGMENTATION else Ranks(size)
            index = Index(_resources_only(shape.asked), ranking, order, fleet.layout, swept=size)
            index.seen, index.version = fleet.changed.now, self._fragmentation.version
            self.indices[shape.key] = index
            room = max(LEAST_SHAPES, min(MOST_SHAPES, MOST_SCORES // max(1, size)))
            while len(self.indices) > room:
                self.indices.popitem(last=False)
        elif index.layout != fleet.layout:
            before = {name: at for at, name in enumerate(index.order)}
            index.ranking = index.ranking.moved([before.get(name, -1) for name in order])
            whole = index.built == len(index.order)
            index.order, index.layout, index.swept = order, fleet.layout, 0
            index.built = len(order) if whole else 0
        self.indices.move_to_end(shape.key)
        self._catch_up(index, shape, most)
        return index

    def _catch_up(self, index: Index, shape: Shape, most: int | None) -> None:
        fleet = self._fleet
        places, nodes, put = fleet.places, fleet.nodes, index.ranking.put
        score = self._scorer(shape, index.asked)
        for name in fleet.changed.since(index.seen):
            at = places.get(name)
            if at is not None:
                put(at, score(nodes[name]))
        index.seen = fleet.changed.now
        size = len(index.order)
        if index.built < size:
            until = size if most is None else min(size, index.built + most)
            for at in range(index.built, until):
                put(at, score(nodes[index.order[at]]))
            self.scored += until - index.built
            index.built = until
        if not shape.learns:
            return
        behind = self._fragmentation.version - index.version
        if behind:
            index.version, index.swept = self._fragmentation.version, 0
        if index.swept < size:
            until = min(size, index.swept + (LONG_SWEEP if behind > 1 else SWEEP))
            for at in range(index.swept, until):
                put(at, score(nodes[index.order[at]]))
            index.swept = until
