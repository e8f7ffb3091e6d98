"""Where a pod goes, or for every node and card why not."""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from sublet.contract.waiting import with_nearest
from sublet.model.claim import Apart, PodAsk
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import EXPLANATIONS, Reason
from sublet_scheduler.core.assigning import Patience, grants_of
from sublet_scheduler.core.candidates import Candidates
from sublet_scheduler.core.clearing import Plan, apart, counted, seen_past, without
from sublet_scheduler.core.eligible import Eligible
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.limits import Amount, Limits
from sublet_scheduler.core.linking import all_linked, worth
from sublet_scheduler.core.matching import node_objection, only_node, totals_lag
from sublet_scheduler.core.misses import Misses
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.refusals import Refusals
from sublet_scheduler.core.scoring.fragmentation import Fragmentation
from sublet_scheduler.core.scoring.workload import Workload
from sublet_scheduler.core.shapes import Policies, Shape

Avoid = Mapping[NodeName, Reason]
"""Nodes to which this pod must not go for the moment, beside what the nodes themselves say."""
NOTHING_AVOIDED: Avoid = {}

Kept = Mapping[NodeName, Sequence[Plan]]
"""What is kept on nodes for the pods that are ahead in the queue."""
NOTHING_KEPT: Kept = {}
MISSED = frozenset(
    {
        Reason.INSUFFICIENT_CPU,
        Reason.INSUFFICIENT_HOST_MEMORY,
        Reason.TOO_MANY_PODS,
        Reason.IN_USE,
        Reason.EXCLUSIVE,
        Reason.INSUFFICIENT_MEMORY,
        Reason.INSUFFICIENT_CORES,
        Reason.TOO_MANY_SHARES,
        Reason.TOO_FEW_CARDS,
        Reason.NOT_LINKED,
        Reason.NOT_ON_ONE_NUMA,
        Reason.SAME_CARD_FULL,
        Reason.SEARCH_CUT_SHORT,
        Reason.KEPT,
    }
)
"""Reasons that end when pods leave a node: less of them would have done."""
NODES_COMPARED = 4
"""Of nodes that rank alike so many more at most are compared by how the cards of a pod would be joined."""
NODES_OF_A_CLASS = 64
"""On so many nodes at most cards are sought that are free of the other service class."""


@dataclass(slots=True)
class Placer:
    """Places asks on a fleet; it changes nothing."""

    fleet: Fleet
    defaults: Policies
    fresh_s: float
    candidates: Candidates
    eligible: Eligible
    refusals: Refusals
    misses: Misses
    fragmentation: Fragmentation
    patience: Patience
    """With the pod that is placed now."""
    limits: Limits = field(default_factory=Limits)
    tries: int = 0
    """How often a place was sought."""
    _shaped: tuple[PodAsk, Shape] | None = None
    """The last ask and its shape: it is observed right after it was placed."""

    @classmethod
    def over(
        cls,
        fleet: Fleet,
        defaults: Policies,
        fresh_s: float,
        *,
        workload: Workload,
        limits: Limits | None = None,
    ) -> "Placer":
        """A placer that knows nothing of `fleet` yet, and expects `workload`."""
        patience = Patience()
        fragmentation, eligible = Fragmentation(fleet, workload), Eligible(fleet)
        return cls(
            fleet,
            defaults,
            fresh_s,
            Candidates(fleet, fragmentation, patience),
            eligible,
            Refusals(fleet, fresh_s, patience),
            Misses(fleet, eligible, fresh_s),
            fragmentation,
            patience,
            limits or Limits(),
        )

    def observe(self, ask: PodAsk) -> None:
        """A pod that was not there before asks."""
        self.fragmentation.observe(ask, self.shape(ask)[0].asked.loads)

    def place(
        self, ask: PodAsk, *, now: float, avoid: Avoid = NOTHING_AVOIDED, kept: Kept = NOTHING_KEPT
    ) -> Placement | NoRoom:
        found = self.find(ask, now=now, avoid=avoid, kept=kept)
        return self.no_room(ask, now=now, avoid=avoid, kept=kept) if found is None else found

    def find(
        self, ask: PodAsk, *, now: float, avoid: Avoid = NOTHING_AVOIDED, kept: Kept = NOTHING_KEPT
    ) -> Placement | NoRoom | None:
        """A place, or why the namespace may have none; None where there is no room, of which `no_room` says
        why."""
        self.tries += 1
        self.patience.renew()
        shape, named = self.shape(ask)
        over = self.limits.against(ask.pod.namespace, Amount.least(shape.asked.loads))
        if over:
            return _over_limit(over)
        wishes = ask.wishes
        compare = shape.several and named is None and not (wishes.apart or wishes.service_class)
        best: tuple[int, int, Placement] | None = None
        looks = 0
        replicas = self.fleet.replicas.get(ask.owner, {}) if wishes.apart else {}
        for real, node in self._views(ask, shape, named, kept):
            if best and (looks >= NODES_COMPARED or self.candidates.score(shape, real.name) != best[1]):
                break
            looks += 1 if best else 0
            if real.name in avoid or node_objection(node, ask, now=now, fresh_s=self.fresh_s):
                continue
            beside = self.fleet.replicas_on(ask.owner, real.name) if real.name in replicas else None
            assigned = self.candidates.assign_on(node, shape.asked, beside)
            if assigned and not totals_lag(node, ask):
                containers = grants_of(assigned, shape.asked)
                over = self.limits.against(ask.pod.namespace, Amount.of(counted(ask, containers)))
                if over:
                    continue
                placement = Placement(node=node.name, containers=containers)
                if not compare or all(map(all_linked, assigned.seats)):
                    return placement
                joined = sum(map(worth, assigned.seats))
                if best is None or joined > best[0]:
                    best = (joined, self.candidates.score(shape, real.name), placement)
        if best:
            return best[2]
        return _over_limit(over) if over else None

    @property
    def looks(self) -> int:
        """About how many nodes were looked at for pods that ask as none did before."""
        return self.candidates.scored + 2 * self.refusals.said

    def may_find(self, ask: PodAsk, most: int) -> bool:
        """Get `find` ready, by looking at up to `most` nodes; whether it need not look at many more."""
        self.patience.renew()
        shape, named = self.shape(ask)
        return named is not None or self.candidates.prepare(shape, most)

    def may_refuse(self, ask: PodAsk, most: int, *, now: float) -> bool:
        """The same for `no_room`."""
        self.patience.renew()
        return self.refusals.prepare(ask, self.shape(ask)[0], now=now, most=most)

    def told(
        self,
        no_room: NoRoom,
        ask: PodAsk,
        *,
        now: float,
        avoid: Avoid = NOTHING_AVOIDED,
        kept: Kept = NOTHING_KEPT,
    ) -> str:
        """What the pod is told of `no_room`: why, and what came nearest where less would have done."""
        if not no_room.reasons.keys() & MISSED or Reason.LARGER_THAN_ANY_NODE in no_room.reasons:
            return no_room.message
        shape, named = self.shape(ask)
        nearest = self.misses.nearest(ask, shape, named, now=now, avoid=avoid, kept=kept)
        return with_nearest(no_room.message, nearest)

    def shape(self, ask: PodAsk) -> tuple[Shape, NodeName | None]:
        """What is asked of any node's cards, and the only node that may be it, where there is one."""
        group = (ask.pod.namespace, ask.wishes.same_card) if ask.wishes.same_card else None
        seat = self.fleet.group_card(group) if group else None
        if self._shaped is None or self._shaped[0] is not ask or group:
            self._shaped = (ask, Shape.of(ask, self.defaults, seat[1] if seat else None))
        return self._shaped[1], seat[0] if seat else only_node(ask)

    def _views(
        self, ask: PodAsk, shape: Shape, named: NodeName | None, kept: Kept
    ) -> Iterator[tuple[NodeState, NodeState]]:
        """Nodes, best first, and how each looks to the pod. One with a service class looks at some of them
        without the cards of the other class first."""
        mine = ask.wishes.service_class
        if mine:
            with closing(self._kept_apart(ask, shape, named)) as some:
                for real, shut in islice(some, NODES_OF_A_CLASS):
                    yield real, apart(without(seen_past(real, kept), shut), mine)
        for real, shut in self._kept_apart(ask, shape, named):
            yield real, without(seen_past(real, kept), shut)

    def _kept_apart(
        self, ask: PodAsk, shape: Shape, named: NodeName | None
    ) -> Generator[tuple[NodeState, Collection[CardId]]]:
        """Nodes in order, each with cards that are not to be taken; where that leaves no room they come once
        more, those with the fewest of the pod's replicas first."""
        held = self.fleet.replicas.get(ask.owner) if ask.wishes.apart else None
        if not held:
            for real in self._in_order(ask, shape, named):
                yield real, ()
            return
        crowded: list[NodeState] = []
        for real in self._in_order(ask, shape, named):
            if real.name not in held:
                yield real, ()
                continue
            crowded.append(real)
            if ask.wishes.apart is Apart.CARDS:
                yield real, self.fleet.replicas_on(ask.owner, real.name)
        for real in sorted(crowded, key=lambda node: len(held[node.name])):
            yield real, ()

    def _in_order(self, ask: PodAsk, shape: Shape, named: NodeName | None) -> Generator[NodeState]:
        if named is None:
            yield from self.candidates.best_first(shape, self.eligible.barred(ask, shape.asked))
        elif named in self.fleet.nodes:
            yield self.fleet.nodes[named]

    def no_room(self, ask: PodAsk, *, now: float, avoid: Avoid, kept: Kept) -> NoRoom:
        """How many nodes and cards say what."""
        self.patience.renew()
        shape, _ = self.shape(ask)
        reasons, larger = self.refusals.counts(ask, shape, now=now, avoid=avoid, kept=set(kept))
        if larger or not reasons:
            reasons[Reason.LARGER_THAN_ANY_NODE] += 1
        ordered = {reason: reasons[reason] for reason in Reason if reason in reasons}
        return NoRoom(reasons=ordered, message=_sentence(ordered, larger))


def _over_limit(over: str) -> NoRoom:
    reason = Reason.NAMESPACE_LIMIT
    return NoRoom(reasons={reason: 1}, message=f"{over} (1 {reason}); {EXPLANATIONS[reason].way_out}")


def _sentence(reasons: dict[Reason, int], larger: str) -> str:
    """The counts are in it in any case: a waiting pod carries nothing else of them."""
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    if larger:
        return f"{larger} ({counts})"
    most = max(reasons.values())
    tied = [reason for reason in Reason if reasons.get(reason) == most]
    # what passes when pods end says more than what only another pod or node would change; and of several
    # the one that is asked last, since what it is said of came nearest
    worst = max(tied, key=lambda reason: (reason in MISSED, tied.index(reason)))
    mostly = "mostly " if len(tied) == 1 < len(reasons) else ""
    return f"no room now ({counts}): {mostly}{EXPLANATIONS[worst].text}; {EXPLANATIONS[worst].way_out}"
