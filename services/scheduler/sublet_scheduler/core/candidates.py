"""Nodes in order of preference for one shape of request, kept up to date by what changed.

A shape is what a pod asks of cards, without where the pod may run: pods of equal shape share one index.
Only nodes whose cards changed since the shape was last used are scored again, so a decision does not
cost a scan of the fleet. Whether the pod may run on a node is tested when the node is taken.
"""

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from sublet.model.claim import PodAsk, Policy
from sublet.model.ids import NodeName
from sublet_scheduler.core.assigning import Assigned, assign
from sublet_scheduler.core.fleet import Fleet, NodeState

MOST_SHAPES = 64


@dataclass(frozen=True, slots=True)
class Policies:
    node: Policy
    card: Policy


def policies(ask: PodAsk, default: Policies) -> Policies:
    return Policies(ask.wishes.node_policy or default.node, ask.wishes.card_policy or default.card)


def shape(ask: PodAsk, chosen: Policies) -> Hashable:
    """Equal for pods that every node's cards treat alike."""
    wishes = ask.wishes
    return (
        tuple(replace(claim, dialect="") for claim in ask.claims),
        chosen,
        wishes.link,
        wishes.card_models,
        wishes.exclude_card_models,
        wishes.card_uuids,
        wishes.exclude_card_uuids,
        wishes.same_card is not None,
    )


def score(node: NodeState, assigned: Assigned, policy: Policy) -> tuple[int, int]:
    """Smaller is better. Packing: least memory left on the chosen cards, then least free on the node;
    spreading: the node of which the smallest part is promised."""
    free = sum(card.free_mib for card in node.cards.values())
    if policy is Policy.SPREAD:
        used = sum(_used_permille(node))
        return (used * 1000 // max(1, len(node.cards)), -free)
    unused = sum(card.unused for card in node.cards.values())
    return (assigned.left_mib, free + unused)


def _used_permille(node: NodeState) -> Iterator[int]:
    for card in node.cards.values():
        memory = card.card.memory_mib
        yield (
            1000
            if card.exclusive
            else max(1000 * card.used_mib // memory if memory else 0, 10 * card.used_core)
        )


@dataclass(slots=True)
class _Index:
    stale: set[NodeName]
    heap: list[tuple[tuple[int, int], NodeName, int]] = field(default_factory=list)


class Candidates:
    """The indices of the live shapes of one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._indices: OrderedDict[Hashable, _Index] = OrderedDict()

    def best_first(self, ask: PodAsk, chosen: Policies) -> Iterator[NodeState]:
        """Every node whose cards can take `ask`, best first; ties go to the smaller name.

        Abandon the iterator when a node is taken: what was passed over returns to the index.
        """
        index = self._index(shape(ask, chosen), ask, chosen)
        passed: list[tuple[tuple[int, int], NodeName, int]] = []
        try:
            while index.heap:
                entry = heapq.heappop(index.heap)
                node = self._fleet.nodes.get(entry[1])
                if node is None or node.version != entry[2]:
                    continue
                passed.append(entry)
                yield node
        finally:
            for entry in passed:
                heapq.heappush(index.heap, entry)

    def _index(self, key: Hashable, ask: PodAsk, chosen: Policies) -> _Index:
        index = self._indices.get(key)
        if index is None:
            index = _Index(stale=set(self._fleet.nodes))
            self._indices[key] = index
            self._fleet.changed.append(index.stale)
            if len(self._indices) > MOST_SHAPES:
                _, oldest = self._indices.popitem(last=False)
                self._fleet.changed[:] = [one for one in self._fleet.changed if one is not oldest.stale]
        self._indices.move_to_end(key)
        for name in index.stale:
            node = self._fleet.nodes.get(name)
            assigned = assign(node, ask, card_policy=chosen.card) if node and node.cards else None
            if node and isinstance(assigned, Assigned):
                heapq.heappush(index.heap, (score(node, assigned, chosen.node), name, node.version))
        index.stale.clear()
        if len(index.heap) > 64 + 4 * len(self._fleet.nodes):
            index.heap = [one for one in index.heap if self._is_current(one)]
            heapq.heapify(index.heap)
        return index

    def _is_current(self, entry: tuple[tuple[int, int], NodeName, int]) -> bool:
        node = self._fleet.nodes.get(entry[1])
        return node is not None and node.version == entry[2]
