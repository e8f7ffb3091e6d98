"""The queue: pods that wait are tried by priority, then age, whenever something changed that could help one.

A pod that finds no room keeps a place (see `holds`); the pods behind it may use what does not delay it.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from sublet.contract.queue import Order, order
from sublet.model.claim import PodAsk
from sublet.model.ids import PodUid
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import EXPLANATIONS, Reason
from sublet_scheduler.core.effects import EvictPods
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.gangs import GangId, Gangs, Gathering
from sublet_scheduler.core.holds import Holds
from sublet_scheduler.core.placing import MISSED
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.releases import Releases
from sublet_scheduler.core.state import NOBODY, State
from sublet_scheduler.core.telling import announce, explain
from sublet_scheduler.core.together import Together

NO_REASONS: Mapping[Reason, int] = {}
HOPELESS = frozenset({Reason.LARGER_THAN_ANY_NODE, Reason.FOREIGN_GATE, Reason.NAMESPACE_LIMIT})

TOLD_OTHERWISE = frozenset({Reason.PREEMPTING, Reason.GANG_NO_ROOM, Reason.GANG_INCOMPLETE})
"""Reasons of pods for which it says nothing what one node lacks for one pod."""


LOOKS_A_PLAN = 800
"""As so many looks at a node counts the search for a place to keep."""
LOOKS_A_POD = 8
LOOKS_A_PLACED = 50
"""And as so many what there is to do with each pod that is passed, and with one that gets a place."""


@dataclass(slots=True)
class _Pass:
    """A pass over the queue: who is not tried yet, who failed how, and which gangs were tried."""

    rest: deque[PodRecord]
    failed: dict[object, NoRoom] = field(default_factory=dict)
    tried: set[GangId] = field(default_factory=set)
    without_room: PodRecord | None = None
    """No place was found for it, and it is not known yet why."""
    cost: int = 0
    """Of the pods that were tried, as looks at nodes."""


class Waiting:
    def __init__(self, state: State, releases: Releases, holds: Holds, gangs: Gangs) -> None:
        self._state = state
        self._releases = releases
        self._holds = holds
        self._gangs = gangs
        self._together = Together(state)
        self._untold: dict[PodUid, float] = {}
        """Pods whose reasons changed again so soon that they are told later, and when."""
        self._pass: _Pass | None = None
        self._in_vain: set[object] = set()
        """Of this pass: asks, with their priority, for which no eviction makes room."""

    def anybody_ahead(self, ask: PodAsk) -> bool:
        """Whether a pod that waits must be tried before one that is created now."""
        records, place = self._state.records, newest(ask)
        if any(
            records[uid].order < place and _may_be_tried(records[uid], records[uid].facts)
            for uid in self._state.waiting
        ):
            return True
        created = self._state.unplaced.values()  # and not seen yet
        return any(one.ask.rank >= ask.rank for one in created)

    @property
    def passing(self) -> bool:
        """A pass over the queue is under way: some pods were tried in it and others were not."""
        return self._pass is not None

    def go_on(self, now: float) -> None:
        """Begin a pass over the queue, or go on with the one that is under way: place what waits, in its
        order, until others should get a turn. Pods that ask alike fail alike within one pass."""
        state, under_way = self._state, self._pass or self._begun()
        self._pass = under_way
        state.passed_s = now
        until = self._looks + state.rules.looks_a_slice
        while under_way.rest and self._looks < until:
            if self._step(under_way, under_way.rest[0], until - self._looks, now):
                record = under_way.rest.popleft()
                under_way.cost += LOOKS_A_POD if record.stage is Stage.WAITING else LOOKS_A_PLACED
        if not under_way.rest:
            self._pass = None
            self._holds.end()

    def finish(self, now: float) -> None:
        """Bring the pass that is under way to its end: what comes next may change what it goes by."""
        while self._pass:
            self.go_on(now)

    def _begun(self) -> _Pass:
        state = self._state
        state.dirty = False
        self._in_vain.clear()
        state.hungry = NOBODY
        self._holds.begin()
        waiting = [state.records[uid] for uid in state.waiting]
        return _Pass(deque(sorted(waiting, key=lambda one: one.order)))

    @property
    def _looks(self) -> int:
        """What this pass has cost, as looks at nodes."""
        tried = self._pass.cost if self._pass else 0
        return self._state.placer.looks + self._holds.searches * LOOKS_A_PLAN + tried

    def _step(self, under_way: _Pass, record: PodRecord, most: int, now: float) -> bool:
        """Try one pod, or the gang that it belongs to; False where that takes more than `most` looks."""
        pod = record.facts
        if pod is None or not _may_be_tried(record, pod):
            return True
        gathering = self._gangs.of(record)
        if gathering:
            id_ = (record.ref.namespace, gathering.gang.name)
            if id_ not in under_way.tried:
                if not self._ready(gathering, most, now):
                    return False
                under_way.tried.add(id_)
                self._try_gang(id_, gathering, now)
            return True
        if record.patching:
            self._holds.carry(record)
            return True
        if pod.foreign_gates:
            record.no_room = NoRoom(reasons={Reason.FOREIGN_GATE: 1}, message=explain(Reason.FOREIGN_GATE))
        elif (pod.gated or pod.node) and not self._try(under_way, record, pod, most, now):
            return False
        self._tell(record, now)
        return True

    def _ready(self, gathering: Gathering, most: int, now: float) -> bool:
        placer = self._state.placer
        asks = [one.ask for one in self._gangs.records(gathering) if one.stage is Stage.WAITING and one.ask]
        return all(placer.may_find(ask, most) and placer.may_refuse(ask, most, now=now) for ask in asks)

    def _sought(
        self, under_way: _Pass, record: PodRecord, ask: PodAsk, most: int, now: float
    ) -> Placement | NoRoom | None:
        """A place or why there is none; None where that takes more looks at nodes than are left."""
        placer = self._state.placer
        avoid = self._state.avoided(record.ref, record.uid, ask.owner, now)
        if under_way.without_room is not record:
            if not placer.may_find(ask, most):
                return None
            found = placer.find(ask, now=now, avoid=avoid, kept=self._holds.kept)
            if found is not None:
                return found
            under_way.without_room = record
        if not placer.may_refuse(ask, most // 2 + 1, now=now):
            return None
        return placer.no_room(ask, now=now, avoid=avoid, kept=self._holds.kept)

    def _try(self, under_way: _Pass, record: PodRecord, pod: PodFacts, most: int, now: float) -> bool:
        state, ask, failed = self._state, pod.ask, under_way.failed
        if ask is None or (record.no_room and record.hopeless == (ask, state.fleet.growths)):
            return True
        namespace = ask.pod.namespace if ask.pod.namespace in state.limits.quotas else ""
        alike = (
            (ask.claims, repr(ask.wishes), ask.cpu_milli, ask.memory_mib, ask.node_name, ask.owner),
            namespace,
        )
        apart = record.ref in state.refs
        outcome: Placement | NoRoom | None = None if apart else failed.get(alike)
        if outcome is None:
            outcome = self._sought(under_way, record, ask, most, now)
        if outcome is None:
            return False
        if isinstance(outcome, Placement):
            state.hold(record, Stage.COMMITTING, now, placement=outcome)
            announce(self._state, "decided", record)
            return True
        record.no_room = outcome
        larger = Reason.LARGER_THAN_ANY_NODE in outcome.reasons
        record.hopeless = (ask, state.fleet.growths) if larger else None
        if not apart:
            failed[alike] = outcome
        if _helps_that_others_leave(outcome) and not self._preempt(record, ask, alike, now):
            self._holds.keep(record, ask, now)
        return True

    def _preempt(self, record: PodRecord, ask: PodAsk, alike: object, now: float) -> bool:
        """Evict pods of lower priority where that makes room; whether it does."""
        state = self._state
        if not (state.rules.preemption and ask.preempts):
            return False
        state.hungry = max(state.hungry, ask.rank)
        kind = (alike, ask.rank)
        if kind in self._in_vain or min(state.running.values(), default=ask.rank) >= ask.rank:
            return False
        count, victims = self._holds.clear(record, ask, now)
        if not self._holds.of(record.uid):
            self._in_vain.add(kind)
            return False
        if victims:
            names = ", ".join(str(one.ref) for one in victims)
            message = f"{record.ref} of priority {ask.priority} needs what they hold"
            state.effects.append(
                EvictPods(record.uid, record.ref, tuple((one.uid, one.ref) for one in victims), message)
            )
            record.no_room = waits(Reason.PREEMPTING, f"evicted for it: {names}", count=count)
        return True

    def _try_gang(self, id_: GangId, gathering: Gathering, now: float) -> None:
        """Place all members that wait, or none; what is told of one is told of all."""
        state, gang = self._state, gathering.gang
        members = self._gangs.records(gathering)
        waiting = [one for one in members if one.stage is Stage.WAITING]
        if any(one.patching for one in waiting):
            for record in waiting:
                self._holds.carry(record)
            return
        missing = self._gangs.missing(gathering)
        ready = [one for one in waiting if one.facts and one.facts.gated and not one.facts.foreign_gates]
        if missing or len(ready) < len(waiting):
            why = f"{missing} are missing" if missing else f"{len(waiting) - len(ready)} are held by others"
            no_room = waits(Reason.GANG_INCOMPLETE, f"of gang {gang.name!r} of {gang.size} pods {why}")
        else:
            near = [one.node for one in members if one.node]
            outcome = self._together.places(ready, near, self._holds.kept, now)
            needed = gang.size - len(gathering.others) - len(members) + len(waiting)
            if isinstance(outcome, NoRoom) and 0 < needed < len(ready):  # more came than must start together
                outcome = self._together.places(ready[:needed], near, self._holds.kept, now)
            if not isinstance(outcome, NoRoom):
                for record in ready:
                    if record.uid in outcome:
                        state.hold(record, Stage.COMMITTING, now, placement=outcome[record.uid])
                        announce(state, "decided", record)
                return
            text = f"gang {gang.name!r} of {gang.size} pods does not fit at once: {outcome.message}"
            no_room = waits(Reason.GANG_NO_ROOM, text, outcome.reasons)
            if _helps_that_others_leave(outcome):
                for record in ready:
                    if record.ask:
                        self._holds.keep(record, record.ask, now, group=id_)
        for record in ready:
            record.no_room = no_room
            self._tell(record, now)

    def _tell(self, record: PodRecord, now: float) -> None:
        """Write into the pod why it waits, when the reasons changed and not too often."""
        why = record.no_room
        if record.stage is not Stage.WAITING or why is None or record.facts is None or not record.facts.gated:
            return
        reasons = frozenset(why.reasons)
        stale = bool(record.facts.decision and record.facts.decision.placement)
        again_s = record.told_s + self._state.rules.tell_again_s
        if stale or (reasons != record.told and (now >= again_s or record.told <= PASSING)):
            record.told, record.told_s = reasons, now
            self._untold.pop(record.uid, None)
            self._releases.send_waiting(record, self._words(record, why, now))
        elif reasons != record.told:
            self._untold[record.uid] = again_s

    def _words(self, record: PodRecord, why: NoRoom, now: float) -> str:
        ask = record.ask
        if ask is None or why.reasons.keys() & TOLD_OTHERWISE:
            return why.message
        return self._state.placer.told(
            why,
            ask,
            now=now,
            avoid=self._state.avoided(record.ref, record.uid, ask.owner, now),
            kept=self._holds.ahead_of(record.order),
        )

    def tick(self, now: float) -> None:
        """Tell what was held back because the pod had been told something else a moment before."""
        for uid in [uid for uid, again_s in self._untold.items() if again_s <= now]:
            del self._untold[uid]
            record = self._state.records.get(uid)
            if record:
                self._tell(record, now)

    def timer(self) -> Iterator[float]:
        """When something held back is to be told, monotonic seconds; the first held back comes first."""
        yield from islice(self._untold.values(), 1)


PASSING = frozenset({Reason.UNDECIDED, Reason.QUEUED})
"""What a pod is told before anybody looked for a place; the first real answer need not wait."""


def waits(reason: Reason, text: str, reasons: Mapping[Reason, int] = NO_REASONS, count: int = 1) -> NoRoom:
    """What holds a pod, where it is nothing of a card or node: `text`, then the way out."""
    return NoRoom(
        reasons={**reasons, reason: count},
        message=f"{text} ({count} {reason}); {EXPLANATIONS[reason].way_out}",
    )


def _helps_that_others_leave(why: NoRoom) -> bool:
    return bool(why.reasons.keys() & MISSED) and not why.reasons.keys() & HOPELESS


def newest(ask: PodAsk) -> Order:
    """The place in the queue of a pod that is created now."""
    return order(rank=ask.rank, created_s=float("inf"), pod=ask.pod, uid="")


def _may_be_tried(record: PodRecord, pod: PodFacts | None) -> bool:
    if pod is None or pod.ask is None or pod.ended or pod.deleting or record.forged:
        return False
    return pod.gated or pod.node is not None
