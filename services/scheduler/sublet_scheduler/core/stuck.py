"""Released pods that cannot start where their cards are: first avoid the node, then let the pod go."""

from collections.abc import Iterator

from sublet.model.placement import Occupancy
from sublet_scheduler.core.effects import FreeStuckPin
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.state import State


class StuckPins:
    def __init__(self, state: State) -> None:
        self._state = state

    def tick(self, now: float) -> None:
        for key, until in list(self._state.avoid.items()):
            if until <= now:
                del self._state.avoid[key]
                self._state.dirty = True
        for record in self._state.watched():
            stuck = record.stuck_s if record.stage is Stage.RELEASED else None
            if stuck is not None and now - stuck >= self._state.rules.stuck_pin_s:
                self._free_pin(record, "kube-scheduler cannot place it on the node of its cards", now)

    def timer(self, record: PodRecord) -> Iterator[float]:
        """When a stuck pod is to be freed, monotonic seconds."""
        if record.stage is Stage.RELEASED and record.stuck_s is not None:
            yield record.stuck_s + self._state.rules.stuck_pin_s

    def move_unstarted(self, occupancy: Occupancy, now: float) -> None:
        node = self._state.fleet.node(occupancy.node)
        entry = self._state.ledgers.seen.get(occupancy.node)
        if not node.closed or entry is None or occupancy.ledger_revision < entry.revision:
            return
        started = {one.uid for one in occupancy.prepared}
        for record in self._state.on_node(occupancy.node):
            bound = record.stage is Stage.RELEASED and record.facts and record.facts.node
            on_closed = any(node.is_closed(one.grant.card) for one in record.grants)
            waited = now - record.since >= self._state.rules.stuck_pin_s
            if bound and on_closed and waited and record.uid not in started:
                self._free_pin(record, "its card was closed before it started", now)

    def _free_pin(self, record: PodRecord, why: str, now: float) -> None:
        """First keep the owner's further pods off the node, then let go, at most one per back-off."""
        state, pod = self._state, record.facts
        if pod is None or pod.ask is None or record.node is None or pod.deleting:
            return
        owner = pod.ask.owner
        next_s, back_off = state.owners.get(owner or record.uid, (now, state.rules.owner_back_off_s))
        if next_s > now:
            return
        state.owners[owner or record.uid] = (
            now + back_off,
            min(2 * back_off, state.rules.owner_back_off_most_s),
        )
        state.avoid[owner or record.uid, record.node] = now + state.rules.avoid_s
        record.stuck_s = now
        kind = pod.ask.owner_kind if owner else ""
        state.effects.append(FreeStuckPin(record.uid, record.ref, kind, f"{why} ({record.node})"))
