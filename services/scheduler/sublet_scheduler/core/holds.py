"""Places kept for the pods at the head of the queue, so that no pod behind them makes them wait longer.

A pod that finds no room gets a plan: a node, and the pods there that must leave. Whoever is behind may use
what is free now and will still be free when that pod has come. Nothing of a plan is written anywhere: a new
leader makes new ones.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from sublet.contract.queue import Order
from sublet.model.claim import PodAsk
from sublet.model.ids import NodeName, PodUid
from sublet_scheduler.core.assigning import Asked, Patience
from sublet_scheduler.core.clearing import (
    NODES_COMPARED,
    Leavers,
    Plan,
    Ranking,
    Worth,
    after,
    cost,
    nearest,
    plan_of,
    plan_on,
    ranking,
    seats,
    seen_past,
)
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.shapes import Shape
from sublet_scheduler.core.state import State

NEW_A_PASS = 8
"""So many places are newly kept in one pass over the queue; the next pass, soon after, goes on."""
SEARCHES_A_PASS = 64
"""Each costs a look at many nodes; who gets none in this pass may be passed."""


@dataclass(slots=True)
class Hold:
    """`since` is when somebody left last, or the plan was made, monotonic seconds; `left` are the nodes
    on which this pod waited in vain; holds of one `group` count as one."""

    order: Order
    plan: Plan
    since: float
    left: frozenset[NodeName] = frozenset()
    group: object = None
    evicting: frozenset[str] = frozenset()
    """Those of `plan.leaving` that were asked to go."""


class Holds:
    def __init__(self, state: State) -> None:
        self._state = state
        self._before: dict[PodUid, Hold] = {}
        self._holds: dict[PodUid, Hold] = {}
        self.kept: dict[NodeName, list[Plan]] = {}
        """What the pass over the queue has kept up to now, for the pods that come after."""
        self._rankings: dict[Hashable, Ranking] = {}
        """Of this pass: where pods of a shape will fit soonest."""
        self._new = 0
        self.searches = 0

    def begin(self) -> None:
        """A pass over the queue begins; what is not kept again in it is given up."""
        self._before, self._holds, self.kept = self._holds, {}, {}
        self._rankings.clear()
        self._new, self.searches = 0, 0

    def end(self) -> None:
        """The pass is over."""
        self._before = {}

    def ahead_of(self, order: Order) -> dict[NodeName, list[Plan]]:
        """What is kept for the pods ahead of that place in the queue."""
        kept: dict[NodeName, list[Plan]] = {}
        holds = {**self._before, **self._holds}  # in the midst of a pass some are not kept again yet
        for uid, hold in sorted(holds.items(), key=lambda one: one[1].order):
            if hold.order < order and uid in self._state.waiting:
                kept.setdefault(hold.plan.node, []).append(hold.plan)
        return kept

    def of(self, uid: PodUid) -> Plan | None:
        hold = self._holds.get(uid)
        return hold.plan if hold else None

    def carry(self, record: PodRecord) -> None:
        """The pod cannot be placed just now, but stays where it is in the queue."""
        hold = self._before.get(record.uid)
        if hold:
            self._keep(record, hold)

    def keep(self, record: PodRecord, ask: PodAsk, now: float, *, group: object = None) -> None:
        """Keep a place for a pod that found no room, unless so many are ahead that it gets none. Those of
        one `group` count as one."""
        groups = {uid if hold.group is None else hold.group for uid, hold in self._holds.items()}
        if len(groups) >= self._state.rules.holds and group not in groups:
            return
        shape, named = self._state.placer.shape(ask)
        hold = self._before.get(record.uid)
        if hold and self._renew(hold, ask, shape.asked, now):
            self._keep(record, hold)
            return
        if group not in groups and self._new >= NEW_A_PASS:
            self._state.dirty = True  # the next pass goes on
            return
        left = hold.left if hold else frozenset()
        plan = self._plan(record, ask, shape, named, left, now, self._worth)
        if plan is None and left:
            left = frozenset()
            plan = self._plan(record, ask, shape, named, left, now, self._worth)
        if plan:
            self._new += 1
            self._keep(record, Hold(record.order, plan, now, left, group))

    def clear(self, record: PodRecord, ask: PodAsk, now: float) -> tuple[int, Sequence[PodRecord]]:
        """Keep a place that pods of lower priority must leave: how many of them are asked to go, and who is
        to be asked now; nobody where no such place was found."""
        shape, named = self._state.placer.shape(ask)
        hold = self._before.get(record.uid)
        if hold and hold.evicting and self._renew(hold, ask, shape.asked, now):
            self._keep(record, hold)
            return len(hold.evicting & hold.plan.leaving), ()

        def worth(key: str) -> Worth | None:
            return self._victim_worth(key, ask.rank)

        left = hold.left if hold else frozenset()
        plan = self._plan(record, ask, shape, named, left, now, worth)
        if plan is None:
            return 0, ()
        victims = [self._state.records[PodUid(key)] for key in sorted(plan.leaving) if _stays(worth(key))]
        evicting = frozenset(str(victim.uid) for victim in victims)
        self._keep(record, Hold(record.order, plan, now, left, evicting=evicting))
        return len(victims), victims

    def refused(self, uid: PodUid, victims: Iterable[PodUid], now: float) -> None:
        """Not all that were to leave do: look for another place."""
        for victim in victims:
            self._state.unevictable[victim] = now + self._state.rules.evict_again_s
        self._holds.pop(uid, None)
        self._state.dirty = True

    def tick(self, now: float) -> None:
        for uid in [uid for uid, until in self._state.unevictable.items() if until <= now]:
            del self._state.unevictable[uid]
            self._state.dirty = True

    def _victim_worth(self, key: str, rank: int) -> Worth | None:
        """None for who cannot be evicted for a pod of that rank."""
        record = self._state.records.get(PodUid(key))
        if record is None or record.facts is None:
            return self._worth(key) if record else None
        worth = self._worth(key)
        may_go = record.stage is Stage.RELEASED and worth[1] < rank
        if worth[0] and not (may_go and record.uid not in self._state.unevictable):
            return None
        return worth

    def _keep(self, record: PodRecord, hold: Hold) -> None:
        self._holds[record.uid] = hold
        self.kept.setdefault(hold.plan.node, []).append(hold.plan)

    def _renew(self, hold: Hold, ask: PodAsk, asked: Asked, now: float) -> bool:
        """Whether to go on waiting at the same place; bring the plan up to date."""
        real = self._state.fleet.nodes.get(hold.plan.node)
        if real is None:
            return False
        leaving = hold.plan.leaving & real.bookings.keys()
        if leaving != hold.plan.leaving:
            hold.since = now
        elif now - hold.since > self._state.rules.hold_s:
            hold.left |= {real.name}
            return False
        view = after(seen_past(real, self.kept), leaving=leaving)
        fresh_s, patience = self._state.rules.fresh_s, Patience()
        containers = seats(view, ask, asked, now=now, fresh_s=fresh_s, patience=patience)
        if containers is None or self._spoken_for(real.name) & leaving:
            return False
        hold.plan = plan_of(real.name, ask, leaving, containers)
        return True

    def _plan(
        self,
        record: PodRecord,
        ask: PodAsk,
        shape: Shape,
        named: NodeName | None,
        left: frozenset[NodeName],
        now: float,
        worth: Callable[[str], Worth | None],
    ) -> Plan | None:
        if self.searches >= SEARCHES_A_PASS:
            return None
        self.searches += 1
        fresh_s, asked, nodes = self._state.rules.fresh_s, shape.asked, self._state.fleet.nodes
        avoid = left | self._state.avoided(record.ref, record.uid, ask.owner, now).keys()
        patience = Patience()
        able = nearest(nodes, self._ranked(shape, named), ask, avoid, now=now, fresh_s=fresh_s)
        while some := list(islice(able, NODES_COMPARED)):
            found = []
            for real in some:
                leavers = self._leavers(real, worth)
                view = seen_past(real, self.kept)
                plan = plan_on(view, ask, asked, leavers, now=now, fresh_s=fresh_s, patience=patience)
                if plan:
                    found.append((cost(plan, leavers), plan))
            if found:
                return min(found, key=lambda one: one[0])[1]
        return None

    def _ranked(self, shape: Shape, named: NodeName | None) -> Ranking:
        if named is not None:
            return [(0, named)]
        if shape.full_key not in self._rankings:
            self._rankings[shape.full_key] = ranking(self._state.fleet.nodes.values(), shape.asked)
        return self._rankings[shape.full_key]

    def _spoken_for(self, node: NodeName) -> frozenset[str]:
        """Who is waited for already by a pod ahead."""
        return frozenset().union(*(plan.leaving for plan in self.kept.get(node, ())))

    def _leavers(self, node: NodeState, worth: Callable[[str], Worth | None]) -> Leavers:
        spoken_for = self._spoken_for(node.name)
        found = {key: worth(key) for key in node.bookings if key not in spoken_for}
        return {key: one for key, one in found.items() if one is not None}

    def _worth(self, key: str) -> Worth:
        record = self._state.records.get(PodUid(key))
        if record is None or record.facts is None:
            return (int(record is None), 0, 0.0)
        leaves = record.stage is Stage.ENDING or record.facts.deleting
        rank = record.ask.rank if record.ask else 0
        return (int(not leaves), rank, -record.facts.created_s)


def _stays(worth: Worth | None) -> bool:
    """Whether a pod of that worth leaves only when it is asked to."""
    return worth is not None and worth[0] > 0
