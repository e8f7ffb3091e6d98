"""Where a pod goes, or for every node and card why not."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sublet.model.claim import PodAsk
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import EXPLANATIONS, Reason
from sublet_scheduler.core.assigning import Assigned, assign, grants_of
from sublet_scheduler.core.candidates import Candidates, Policies, Shape, counted_objections
from sublet_scheduler.core.fleet import Fleet, NodeState
from sublet_scheduler.core.larger import larger_than_any
from sublet_scheduler.core.matching import node_objection, only_node, totals_lag

Avoid = Callable[[NodeName], Reason | None]
"""Why this pod must not go to a node for the moment, beside what the node itself says."""


@dataclass(slots=True)
class Placer:
    """Places asks on a fleet; it changes nothing."""

    fleet: Fleet
    defaults: Policies
    fresh_s: float
    candidates: Candidates

    def place(self, ask: PodAsk, *, now: float, avoid: Avoid = lambda _: None) -> Placement | NoRoom:
        group = (ask.pod.namespace, ask.wishes.same_card) if ask.wishes.same_card else None
        seat = self.fleet.group_card(group) if group else None
        shape = Shape.of(ask, self.defaults, seat[1] if seat else None)
        for node in self._in_order(ask, shape, seat):
            if avoid(node.name) or node_objection(node, ask, now=now, fresh_s=self.fresh_s):
                continue
            assigned = assign(node.by_index, shape.asked, shares_per_card=node.shares_per_card)
            if isinstance(assigned, Assigned) and not totals_lag(node, ask):
                return Placement(node=node.name, containers=grants_of(assigned, shape.asked))
        return self._no_room(ask, shape, now=now, avoid=avoid)

    def _in_order(
        self, ask: PodAsk, shape: Shape, seat: tuple[NodeName, CardId] | None
    ) -> Iterable[NodeState]:
        name = seat[0] if seat else only_node(ask)
        if name is None:
            return self.candidates.best_first(shape)
        return [self.fleet.nodes[name]] if name in self.fleet.nodes else []

    def _no_room(self, ask: PodAsk, shape: Shape, *, now: float, avoid: Avoid) -> NoRoom:
        reasons: Counter[Reason] = Counter()
        one_place = shape.asked.only_card is not None or only_node(ask) is not None
        for node in self.fleet.nodes.values():
            if node.facts is None:
                continue
            against = node_objection(node, ask, now=now, fresh_s=self.fresh_s) or avoid(node.name)
            if against:
                reasons[against] += 1
                continue
            counts = (
                counted_objections(node, shape.asked) if one_place else self.candidates.against(shape, node)
            )
            # where its cards would do, its totals lag
            for reason, count in counts.items() if counts else [(Reason.NODE_NOT_PREPARED, 1)]:
                reasons[reason] += count
        larger = larger_than_any(ask, shape.asked, self.fleet.nodes.values())
        if larger or not reasons:
            reasons[Reason.LARGER_THAN_ANY_NODE] += 1
        ordered = {reason: reasons[reason] for reason in Reason if reason in reasons}
        return NoRoom(reasons=ordered, message=_sentence(ordered, larger))


def _sentence(reasons: dict[Reason, int], larger: str) -> str:
    """The counts are in it in any case: a waiting pod carries nothing else of them."""
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    if larger:
        return f"{larger} ({counts})"
    worst = max(reasons, key=lambda reason: reasons[reason])
    return f"no room now ({counts}): mostly {EXPLANATIONS[worst].text}; {EXPLANATIONS[worst].way_out}"
