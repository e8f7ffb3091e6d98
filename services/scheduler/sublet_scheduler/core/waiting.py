"""The pods that wait: tried in order of arrival whenever something changed that could help one of them."""

from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.releases import Releases
from sublet_scheduler.core.state import State
from sublet_scheduler.core.telling import announce, explain


class Waiting:
    def __init__(self, state: State, releases: Releases) -> None:
        self._state = state
        self._releases = releases

    def try_all(self, now: float) -> None:
        """Place what waits, in order of arrival; pods that ask alike fail alike within one pass."""
        state = self._state
        state.dirty = False
        failed: dict[object, NoRoom] = {}
        state.passed_s = now
        waiting = [state.records[uid] for uid in state.waiting]
        for record in sorted(waiting, key=lambda one: one.arrival):
            pod = record.facts
            if (
                pod is None
                or pod.ask is None
                or pod.ended
                or pod.deleting
                or record.patching
                or record.forged
            ):
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
        if ask is None:
            return
        alike = (ask.claims, repr(ask.wishes), ask.cpu_milli, ask.memory_mib, ask.node_name, ask.owner)
        apart = record.ref in state.refs
        if not apart and alike in failed:
            record.no_room = failed[alike]
            return
        outcome = state.placer.place(
            ask, now=now, avoid=lambda node: state.objection(record.ref, record.uid, ask.owner, node, now)
        )
        if isinstance(outcome, Placement):
            state.hold(record, Stage.COMMITTING, now, placement=outcome)
            announce(self._state, "decided", record)
            return
        record.no_room = outcome
        if not apart:
            failed[alike] = outcome

    def _tell(self, record: PodRecord, now: float) -> None:
        """Write into the pod why it waits, when the reasons changed and not too often."""
        why = record.no_room
        if record.stage is not Stage.WAITING or why is None or record.facts is None or not record.facts.gated:
            return
        reasons = frozenset(why.reasons)
        stale = bool(record.facts.decision and record.facts.decision.placement)
        recently = now - record.told_s < self._state.rules.tell_again_s
        if (reasons != record.told and not recently) or stale:
            record.told, record.told_s = reasons, now
            self._releases.send_waiting(record, why.message)
