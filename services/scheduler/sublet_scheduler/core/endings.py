"""When a pod has ended: at once on its own word, or when its node's agent proves that nothing is left."""

from sublet.model.ids import NodeName
from sublet.model.placement import GrantState, Occupancy
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.state import State
from sublet_scheduler.core.telling import announce


class Endings:
    def __init__(self, state: State) -> None:
        self._state = state

    def end(self, record: PodRecord, pod: PodFacts, now: float) -> None:
        """The pod is Succeeded or Failed, or goes before it had a node; its object may stay for long."""
        if pod.node:
            self._state.fleet.host(pod.node, record.uid, None)
        if record.stage is Stage.ENDING and not (pod.settled or pod.node is None):
            return
        if record.stage is Stage.WAITING:
            return
        if pod.node is None or pod.settled:
            announce(self._state, "ended", record)
            self._state.settle_doubts(record.uid)
            self._state.drop(record, now)
        else:
            self.ending(record, now)

    def ending(self, record: PodRecord, now: float) -> None:
        if record.stage is Stage.ENDING:
            return
        node = self._state.fleet.node(record.node) if record.node else None
        record.ending_boot = node.inventory.boot_id if node and node.inventory else ""
        record.ending_revision = 0
        self._state.enter(record, Stage.ENDING, now)
        if record.node:
            self._state.fleet.host(record.node, record.uid, None)
        announce(self._state, "ending", record)

    def finish(self, record: PodRecord, now: float) -> None:
        if record.placement:
            announce(self._state, "ended", record)
        self._state.forget(record, now)

    def evidence(self, occupancy: Occupancy, now: float) -> None:
        """An agent's record proves which ending pods have left nothing behind."""
        for record in self._state.on_node(occupancy.node):
            if record.stage is not Stage.ENDING or record.sought:
                continue
            rebooted = bool(record.ending_boot) and occupancy.boot_id != record.ending_boot
            later = 0 < record.ending_revision <= occupancy.ledger_revision
            absent = occupancy.cgroups_read and record.uid not in occupancy.pods_with_cgroups
            if rebooted or (later and absent):
                self.free(record, now)
        self._end_doubts(occupancy)

    def _end_doubts(self, occupancy: Occupancy) -> None:
        """A pod that is over left nothing on the other node where it might have run."""
        entry = self._state.ledgers.seen.get(occupancy.node)
        if entry is None or occupancy.ledger_revision < entry.revision or not occupancy.cgroups_read:
            return
        for uid in list(self._state.doubtful.get(occupancy.node, ())):
            shown = [one for one in entry.grants if one.uid == uid]
            ending = shown and all(one.state is GrantState.ENDING for one in shown)
            if ending and uid not in self._state.records and uid not in occupancy.pods_with_cgroups:
                self._state.settle_doubts(uid, occupancy.node)

    def free(self, record: PodRecord, now: float) -> None:
        """Nothing of the pod is left, which was proved."""
        if record.facts is not None and record.facts.ended and not record.gone:
            announce(self._state, "ended", record)
            self._state.drop(record, now)  # the object is still there: remember it without grants
        else:
            self.finish(record, now)

    def release_node(self, node: NodeName, now: float) -> int:
        ending = [one for one in self._state.on_node(node) if one.stage is Stage.ENDING]
        for record in ending:
            self.free(record, now)
        for uid in list(self._state.doubtful.get(node, ())):
            if uid not in self._state.records:
                self._state.settle_doubts(uid, node)
        return len(ending)

    def trust_absence(self, now: float) -> None:
        """A pod that is over and has no grant in a complete ledger was proven gone before."""
        for uid in [uid for uid, one in self._state.records.items() if one.stage is Stage.ENDING]:
            record = self._state.records[uid]
            over = record.gone or (record.facts is not None and record.facts.ended)
            entry = self._state.ledgers.seen.get(record.node) if record.node else None
            if over and not (entry and any(one.uid == uid for one in entry.grants)):
                (self._state.forget if record.gone else self._state.drop)(record, now)
