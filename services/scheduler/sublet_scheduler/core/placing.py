"""Where a pod goes, or for every node and card why not."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sublet.model.claim import PodAsk
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import EXPLANATIONS, Reason
from sublet_scheduler.core.assigning import Assigned, assign
from sublet_scheduler.core.candidates import Candidates, Policies, policies
from sublet_scheduler.core.fleet import Fleet, NodeState
from sublet_scheduler.core.matching import node_objection, only_node
from sublet_scheduler.core.need import Need

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
        chosen = policies(ask, self.defaults)
        group = (ask.pod.namespace, ask.wishes.same_card) if ask.wishes.same_card else None
        seat = self.fleet.group_card(group) if group else None
        only_card = seat[1] if seat else None
        for node in self._in_order(ask, chosen, seat):
            if avoid(node.name) or node_objection(node, ask, now=now, fresh_s=self.fresh_s):
                continue
            assigned = assign(node, ask, card_policy=chosen.card, only_card=only_card)
            if isinstance(assigned, Assigned):
                return Placement(node=node.name, containers=assigned.containers)
        return self._no_room(ask, chosen, only_card, now=now, avoid=avoid)

    def _in_order(
        self, ask: PodAsk, chosen: Policies, seat: tuple[NodeName, CardId] | None
    ) -> Iterable[NodeState]:
        name = seat[0] if seat else only_node(ask)
        if name is None:
            return self.candidates.best_first(ask, chosen)
        return [self.fleet.nodes[name]] if name in self.fleet.nodes else []

    def _no_room(
        self, ask: PodAsk, chosen: Policies, only_card: CardId | None, *, now: float, avoid: Avoid
    ) -> NoRoom:
        reasons: Counter[Reason] = Counter()
        for node in self.fleet.nodes.values():
            if node.facts is None:
                continue
            against = node_objection(node, ask, now=now, fresh_s=self.fresh_s) or avoid(node.name)
            if against:
                reasons[against] += 1
                continue
            outcome = assign(node, ask, card_policy=chosen.card, only_card=only_card)
            if not isinstance(outcome, Assigned):
                reasons.update(outcome.reasons.values())
        larger = self._larger_than_any(ask)
        if larger or not reasons:
            reasons[Reason.LARGER_THAN_ANY_NODE] += 1
        ordered = {reason: reasons[reason] for reason in Reason if reason in reasons}
        return NoRoom(reasons=ordered, message=_sentence(ordered, larger))

    def _larger_than_any(self, ask: PodAsk) -> str:
        """A sentence with both numbers where no known node could take the pod even when empty."""
        nodes = [node for node in self.fleet.nodes.values() if node.cards and node.facts]
        if not nodes:
            return "no node with cards is known"
        most_cards = max(len(node.cards) for node in nodes)
        memories = [card.card.memory_mib or 0 for node in nodes for card in node.cards.values()]
        cpu = max(node.facts.cpu_milli for node in nodes if node.facts)
        memory = max(node.facts.memory_mib for node in nodes if node.facts)
        for need in (Need.of(claim, ask.claims) for claim in ask.claims if not claim.heir):
            asked_mib = max(claim.memory_mib or 0 for claim in need.claims)
            if need.cards > most_cards:
                return (
                    f"{need.cards} cards are asked for on one node; the largest node known has {most_cards}"
                )
            if asked_mib > max(memories):
                largest = max(memories)
                return f"{asked_mib} MiB are asked for on one card; the largest card known has {largest} MiB"
        if ask.cpu_milli > cpu:
            return f"{ask.cpu_milli}m CPU are asked for; the largest node known has {cpu}m"
        if ask.memory_mib > memory:
            return (
                f"{ask.memory_mib} MiB of host memory are asked for; the largest node known has {memory} MiB"
            )
        return ""


def _sentence(reasons: dict[Reason, int], larger: str) -> str:
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    if larger:
        return f"{larger} ({counts})"
    worst = max(reasons, key=lambda reason: reasons[reason])
    return f"no room now ({counts}): mostly {EXPLANATIONS[worst].text}; {EXPLANATIONS[worst].way_out}"
