"""The queue: pods that wait are tried by priority, then age, whenever something changed that could help one.

A pod that finds no room keeps a place (see `holds`); the pods behind it may use what does not delay it.
"""

from collections.abc import Iterator, Mapping
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


class Waiting:
    def __init__(self, state: State, releases: Releases, holds: Holds, gangs: Gangs) -> None:
        self._state = state
        self._releases = releases
        self._holds = holds
        self._gangs = gangs
        self._together = Together(state)
        self._untold: dict[PodUid, float] = {}
        """Pods whose reasons changed again so soon that they are told later, and when."""
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

    def try_all(self, now: float) -> None:
        """Place what waits, in its order; pods that ask alike fail alike within one pass."""
        state = self._state
        state.dirty = False
        failed: dict[object, NoRoom] = {}
        self._in_vain.clear()
        state.hungry = NOBODY
        tried: set[GangId] = set()
        state.passed_s = now
        self._holds.begin()
        waiting = [state.records[uid] for uid in state.waiting]
        for record in sorted(waiting, key=lambda one: one.order):
            pod = record.facts
            if pod is None or not _may_be_tried(record, pod):
                continue
            gathering = self._gangs.of(record)
            if gathering:
                id_ = (record.ref.namespace, gathering.gang.name)
                if id_ not in tried:
                    tried.add(id_)
                    self._try_gang(id_, gathering, now)
                continue
            if record.patching:
                self._holds.carry(record)
                continue
            if pod.foreign_gates:
                record.no_room = NoRoom(
                    reasons={Reason.FOREIGN_GATE: 1}, message=explain(Reason.FOREIGN_GATE)
                )
            elif pod.gated or pod.node:
                self._try(record, pod, failed, now)
            self._tell(record, now)

    def _try(self, record: PodRecord, pod: PodFacts, failed: dict[object, NoRoom], now: float) -> None:
        state, ask = self._state, pod.ask
        if ask is None or (record.no_room and record.hopeless == (ask, state.fleet.growths)):
            return
        namespace = ask.pod.namespace if ask.pod.namespace in state.limits.quotas else ""
        alike = (
            (ask.claims, repr(ask.wishes), ask.cpu_milli, ask.memory_mib, ask.node_name, ask.owner),
            namespace,
        )
        apart = record.ref in state.refs
        outcome: Placement | NoRoom | None = None if apart else failed.get(alike)
        if outcome is None:
            outcome = state.placer.place(
                ask,
                now=now,
                avoid=state.avoided(record.ref, record.uid, ask.owner, now),
                kept=self._holds.kept,
            )
        if isinstance(outcome, Placement):
            state.hold(record, Stage.COMMITTING, now, placement=outcome)
            announce(self._state, "decided", record)
            return
        record.no_room = outcome
        larger = Reason.LARGER_THAN_ANY_NODE in outcome.reasons
        record.hopeless = (ask, state.fleet.growths) if larger else None
        if not apart:
            failed[alike] = outcome
        if not _helps_that_others_leave(outcome):
            return
        if not self._preempt(record, ask, alike, now):
            self._holds.keep(record, ask, now)

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
            record.no_room = _waits(Reason.PREEMPTING, f"evicted for it: {names}", count=count)
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
            no_room = _waits(Reason.GANG_INCOMPLETE, f"of gang {gang.name!r} of {gang.size} pods {why}")
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
            no_room = _waits(Reason.GANG_NO_ROOM, text, outcome.reasons)
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


def _waits(reason: Reason, text: str, reasons: Mapping[Reason, int] = NO_REASONS, count: int = 1) -> NoRoom:
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
