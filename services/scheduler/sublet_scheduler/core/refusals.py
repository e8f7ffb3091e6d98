"""Why a pod finds no room: how many nodes and cards say what, kept for each way of asking.

A node says the same until something on it changes; so only nodes that changed since the last refusal are
asked again, and those of which more than the node itself decides: its agent is silent, the pod must avoid
it, or something is kept there.
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from sublet.model.claim import PodAsk
from sublet.model.ids import NodeName
from sublet.model.reasons import Reason
from sublet_scheduler.core.assigning import Asked, Objections, Patience, assign
from sublet_scheduler.core.eligible import class_of
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.larger import larger_than_any
from sublet_scheduler.core.matching import node_objection
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.shapes import Shape

MOST_KEPT = 64
"""Ways of asking of which the counts are kept."""

Counts = Mapping[Reason, int]


@dataclass(slots=True)
class _Known:
    layout: int
    described: int
    larger: str
    silent: set[NodeName]
    """Nodes whose word is not kept: all at first."""
    seen: int
    """Up to which change of the fleet its nodes were asked."""
    said: dict[NodeName, Counts] = field(default_factory=dict)
    total: Counter[Reason] = field(default_factory=Counter)

    def put(self, name: NodeName, counts: Counts | None) -> None:
        """What the node says; None while that does not hang on the node alone."""
        before = self.said.pop(name, None)
        if before:
            self.total.subtract(before)
        if counts is not None:
            self.said[name] = counts
            self.total.update(counts)
            self.silent.discard(name)
        else:
            self.silent.add(name)


class Refusals:
    def __init__(self, fleet: Fleet, fresh_s: float, patience: Patience) -> None:
        self._fleet = fleet
        self._patience = patience
        self._fresh_s = fresh_s
        self.built: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        """Of each way of asking: the nodes as they stood, and below which position they were asked
        beforehand. A pass over the queue goes by that, so an engine that takes over from another knows it."""
        self._known: dict[Hashable, _Known] = {}
        self.said = 0
        """How many nodes were asked beforehand."""

    def prepare(self, ask: PodAsk, shape: Shape, *, now: float, most: int) -> bool:
        """Ask up to `most` nodes more that no pod asked that asks like this one; whether that was all."""
        key, fleet = _key(ask, shape), self._fleet
        known = self._get(key, ask, shape)
        _, built = self.built[key]
        size = len(fleet.order)
        until = min(size, built + most)
        apart = fleet.not_counted_on(now - self._fresh_s) if built < size else frozenset()
        for name in fleet.order[built:until]:
            if name in known.silent and name not in apart:
                known.put(name, self._says(fleet.nodes[name], ask, shape.asked, now))
        self.said += until - built
        self.built[key] = (fleet.layout, until)
        return until == size

    def counts(
        self, ask: PodAsk, shape: Shape, *, now: float, avoid: Mapping[NodeName, Reason], kept: set[NodeName]
    ) -> tuple[Counter[Reason], str]:
        """How often each reason is said, and the sentence of a pod that is larger than any node."""
        key, fleet = _key(ask, shape), self._fleet
        known = self._get(key, ask, shape)
        apart = fleet.not_counted_on(now - self._fresh_s) | avoid.keys() | kept
        stale = {name for name in fleet.changed.since(known.seen) if name in fleet.nodes}
        for name in stale | known.silent:
            said = None if name in apart else self._says(fleet.nodes[name], ask, shape.asked, now)
            known.put(name, said)
        known.seen, self.built[key] = fleet.changed.now, (fleet.layout, len(fleet.order))
        total = known.total.copy()
        for name in sorted(apart & fleet.nodes.keys()):
            total.subtract(known.said.get(name, {}))
            node = fleet.nodes[name]
            said = self._says(node, ask, shape.asked, now, avoid.get(name))
            total.update({Reason.KEPT: len(node.cards)} if name in kept and _lags(said) else said)
        return +total, known.larger

    def _get(self, key: Hashable, ask: PodAsk, shape: Shape) -> _Known:
        fleet = self._fleet
        known = self._known.get(key)
        if known is None or known.layout != fleet.layout or known.described != fleet.described.now:
            larger = larger_than_any(ask, shape.asked, fleet.nodes.values())
            if known is None or known.layout != fleet.layout:
                known = _Known(fleet.layout, fleet.described.now, larger, set(fleet.nodes), fleet.changed.now)
            known.described, known.larger = fleet.described.now, larger
            self._known[key] = known
        if self.built.get(key, (-1, 0))[0] != fleet.layout:
            self.built[key] = (fleet.layout, 0)
        self.built.move_to_end(key)
        if len(self.built) > MOST_KEPT:
            oldest, _ = self.built.popitem(last=False)
            self._known.pop(oldest, None)
        return known

    def _says(
        self, node: NodeState, ask: PodAsk, asked: Asked, now: float, avoided: Reason | None = None
    ) -> Counts:
        if node.facts is None:
            return {}
        against = node_objection(node, ask, now=now, fresh_s=self._fresh_s) or avoided
        if against:
            return {against: 1}
        outcome = assign(node.by_index, asked, shares_per_card=node.shares_per_card, patience=self._patience)
        if isinstance(outcome, Objections):
            return Counter(outcome.reasons.values())
        return _LAGS


def _key(ask: PodAsk, shape: Shape) -> Hashable:
    """Pods with the same find the same said of every node."""
    return (
        shape.full_key,
        class_of(ask, shape.asked),
        ask.cpu_milli,
        ask.memory_mib,
        *ask.resources.items(),
    )


_LAGS: Counts = {Reason.NODE_NOT_PREPARED: 1}
"""Its cards would do, its totals lag."""


def _lags(said: Counts) -> bool:
    return said is _LAGS
