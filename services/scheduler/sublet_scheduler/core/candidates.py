"""Nodes in order of preference for one shape of request, kept up to date by what changed.

A shape is what a pod asks of cards, without where the pod may run: pods of equal shape share one index.
Only nodes whose cards changed since the shape was last used are scored again, so a decision does not
cost a scan of the fleet. Whether the pod may run on a node is tested when the node is taken.
"""

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from sublet.model.claim import PodAsk, Policy
from sublet.model.ids import CardId, NodeName
from sublet.model.reasons import Reason
from sublet_scheduler.core.assigning import Asked, Assigned, assign, too_large
from sublet_scheduler.core.fleet import CardState, Fleet, NodeState
from sublet_scheduler.core.need import loads_of

MOST_SHAPES = 64


@dataclass(frozen=True, slots=True)
class Policies:
    node: Policy
    card: Policy


@dataclass(frozen=True, slots=True)
class Shape:
    """`key` is equal for pods that every node's cards treat alike."""

    asked: Asked
    node_policy: Policy
    key: Hashable

    @classmethod
    def of(cls, ask: PodAsk, default: Policies, only_card: CardId | None) -> "Shape":
        wishes = ask.wishes
        node_policy = wishes.node_policy or default.node
        asked = Asked(
            claims=ask.claims,
            loads=loads_of(ask),
            wishes=wishes,
            card_policy=wishes.card_policy or default.card,
            only_card=only_card,
        )
        key = (
            _claims_key(ask),
            node_policy,
            asked.card_policy,
            wishes.link,
            wishes.card_models,
            wishes.exclude_card_models,
            wishes.card_uuids,
            wishes.exclude_card_uuids,
            wishes.same_card is not None,
            only_card,
        )
        return cls(asked, node_policy, key)


def _claims_key(ask: PodAsk) -> Hashable:
    """All of the claims but what their containers are called."""
    places = {claim.container: at for at, claim in enumerate(ask.claims)}
    return tuple(
        (
            claim.cards,
            claim.memory_mib,
            claim.memory_percent,
            claim.core_percent,
            claim.exclusive,
            claim.vendor,
            claim.one_card_group,
            claim.profile,
            claim.grows,
            places.get(claim.heir),
        )
        for claim in ask.claims
    )


def score(node: NodeState, assigned: Assigned, policy: Policy) -> tuple[int, int, int]:
    """Smaller is better. Before all else memory is spread over as few cards as possible. Packing: least
    memory left on the chosen cards, then least free on the node; spreading: the node of which the smallest
    part is promised."""
    if policy is Policy.SPREAD:
        return (
            assigned.grown,
            sum(_used_ppm(card) for card in node.cards.values()) // max(1, len(node.cards)),
            -node.free_mib,
        )
    return (assigned.grown, assigned.left_mib, node.free_mib + node.unused)


def _used_ppm(card: CardState) -> int:
    if card.exclusive:
        return 1_000_000
    memory_mib = card.card.memory_mib
    return max(1_000_000 * card.used_mib // memory_mib if memory_mib else 0, 10_000 * card.used_core)


Counts = Mapping[Reason, int]


def counted_objections(node: NodeState, asked: Asked) -> Counts:
    """How many of the node's cards say what against `asked`; nothing where they can take it."""
    outcome = assign(node.by_index, asked, shares_per_card=node.shares_per_card)
    counts: dict[Reason, int] = {}
    if not isinstance(outcome, Assigned):
        for reason in outcome.reasons.values():
            counts[reason] = counts.get(reason, 0) + 1
    return counts


Entry = tuple[tuple[int, int, int], NodeName, int]
"""Score, node, and the version of the node that was scored."""


@dataclass(slots=True)
class _Index:
    stale: set[NodeName]
    heap: list[Entry] = field(default_factory=list)
    against: dict[NodeName, tuple[int, Counts]] = field(default_factory=dict)
    """Node -> a version of it, and how many of its cards said what then."""


class Candidates:
    """The indices of the live shapes of one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._indices: OrderedDict[Hashable, _Index] = OrderedDict()

    def best_first(self, shape: Shape) -> Iterator[NodeState]:
        """Every node whose cards can take the shape, best first; ties go to the smaller name.

        Abandon the iterator when a node is taken: what was passed over returns to the index.
        """
        index = self._index(shape)
        passed: list[Entry] = []
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

    def against(self, shape: Shape, node: NodeState) -> Counts:
        """How many of the node's cards say what against the shape; nothing where they can take it."""
        known = self._index(shape).against
        version, counts = known.get(node.name, (-1, {}))
        if version != node.version:
            counts = counted_objections(node, shape.asked)
            known[node.name] = (node.version, counts)
        return counts

    def _index(self, shape: Shape) -> _Index:
        index = self._indices.get(shape.key)
        if index is None:
            index = _Index(stale=set(self._fleet.nodes))
            self._indices[shape.key] = index
            self._fleet.changed.append(index.stale)
            if len(self._indices) > MOST_SHAPES:
                _, oldest = self._indices.popitem(last=False)
                self._fleet.changed[:] = [one for one in self._fleet.changed if one is not oldest.stale]
        self._indices.move_to_end(shape.key)
        for name in index.stale:
            self._score(index, shape, name)
        index.stale.clear()
        if len(index.heap) > 64 + 4 * len(self._fleet.nodes):
            index.heap = [one for one in index.heap if self._is_current(one)]
            heapq.heapify(index.heap)
        return index

    def _score(self, index: _Index, shape: Shape, name: NodeName) -> None:
        node = self._fleet.nodes.get(name)
        if node is None:
            index.against.pop(name, None)
        elif node.cards and not too_large(node, shape.asked):
            outcome = assign(node.by_index, shape.asked, shares_per_card=node.shares_per_card)
            if isinstance(outcome, Assigned):
                heapq.heappush(index.heap, (score(node, outcome, shape.node_policy), name, node.version))

    def _is_current(self, entry: Entry) -> bool:
        node = self._fleet.nodes.get(entry[1])
        return node is not None and node.version == entry[2]
