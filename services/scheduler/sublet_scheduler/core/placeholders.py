"""Placeholder pods: they stand for pods that wait behind our gate, which autoscalers do not see.

Each asks for what one more node would carry, so that an autoscaler adds it. They are never given cards and
count nowhere with us; each goes when nobody it stands for waits any more, or its node is used.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest

from sublet.contract import keys
from sublet.model.ids import PodUid
from sublet.model.reasons import Reason
from sublet_scheduler.core.effects import MakePlaceholder, PlaceholderEffect, RemovePlaceholder
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.rooms import Room, Rooms, could_be_new
from sublet_scheduler.core.state import State

NOT_FOR_WANT_OF_NODES = frozenset(
    {
        Reason.FOREIGN_GATE,
        Reason.NAMESPACE_LIMIT,
        Reason.GANG_INCOMPLETE,
        Reason.PREEMPTING,
        Reason.PREDECESSOR_ENDING,
    }
)
NOT_DECIDED = frozenset({Reason.UNDECIDED, Reason.QUEUED})
LOOKED_AT = 256
"""So many waiting pods, the first of the queue, are looked at in one round."""
ROUND_S = 1.0
PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Placeholders:
    def __init__(self, state: State) -> None:
        self._state = state
        self._rooms = Rooms(state, state.rules.pools)
        self.pods: dict[PodUid, PodFacts] = {}
        self._busy: dict[str, tuple[PodUid, ...]] = {}
        """Names whose write is on its way, and for whom one that is being made stands."""
        self._again: tuple[float, float] = (float("-inf"), PAUSE_S / 2)
        """After a failed write: when it may be tried again, and the pause before."""
        self._looked: tuple[float, int] | None = None
        """Pass over the queue, and how many waited, when it was last looked at; None: look again."""
        self._due_s = float("inf")
        self._round_s = float("-inf")
        """When it may be looked next for who needs one."""

    # -- what is told

    def seen(self, pod: PodFacts) -> None:
        self.pods[pod.uid] = pod
        self._looked = None

    def gone(self, uid: PodUid) -> bool:
        """Whether it was a placeholder."""
        self._looked = None
        return self.pods.pop(uid, None) is not None

    def written(self, name: str, pod: PodFacts | None, *, done: bool, now: float) -> None:
        """What came of a write; `pod` is the pod as read afterwards, None where there is none."""
        self._busy.pop(name, None)
        self._looked = None
        if done:
            self._again = (float("-inf"), PAUSE_S / 2)
        else:
            pause_s = min(2 * self._again[1], LONGEST_PAUSE_S)
            self._again = (now + pause_s, pause_s)
            self._due_s = now + pause_s
        if pod:
            self.pods[pod.uid] = pod
        elif done:
            for uid in [uid for uid, one in self.pods.items() if one.ref.name == name]:
                del self.pods[uid]

    # -- what is done

    def timers(self) -> Iterator[float]:
        """When the waiting pods are to be looked at though nothing happens, monotonic seconds."""
        if self._due_s != float("inf"):
            yield self._due_s

    def settle(self, now: float) -> None:
        """After every event: remove what is not needed any more, and stand for those who need it."""
        if not (self._state.rules.placeholders or self.pods):
            return
        self._remove_by_used_nodes(now)
        queue = (self._state.passed_s, len(self._state.waiting))
        if (queue == self._looked and now < self._due_s) or now < self._again[0]:
            return
        self._looked, self._due_s = queue, float("inf")
        for pod in list(self.pods.values()):
            if not any(self._stands(pod)):
                self._remove(pod)
        if len(self.pods) + len(self._busy) >= self._state.rules.placeholders:
            return
        if now < self._round_s:
            self._due_s = self._round_s
            return
        self._round_s = now + ROUND_S
        self._stand_for_more(now)

    def _remove_by_used_nodes(self, now: float) -> None:
        """Whoever gets cards on a node finds it free of ours."""
        for pod in [one for one in self.pods.values() if one.node] if now >= self._again[0] else ():
            node = self._state.fleet.nodes.get(pod.node) if pod.node else None
            if node and node.bookings:
                self._remove(pod)

    def _remove(self, pod: PodFacts) -> None:
        if not pod.deleting and pod.ref.name not in self._busy:
            self._do(pod.ref.name, RemovePlaceholder(pod.uid, pod.ref))

    def _stand_for_more(self, now: float) -> None:
        """Whoever waited long enough may open a room; the others only join."""
        rooms, covered = self._rooms_there_are()
        uncovered = [
            self._state.records[uid]
            for uid in self._state.waiting
            if uid not in covered and self._needs_a_node(self._state.records[uid])
        ]
        if len(uncovered) > LOOKED_AT:
            self._due_s = now + ROUND_S
        first = nsmallest(LOOKED_AT, uncovered, key=lambda one: one.order)
        after_s = self._state.rules.placeholder_after_s
        most = self._state.rules.placeholders - len(self.pods) - len(self._busy)
        opened: list[Room] = []
        for record in (one for one in first if one.since + after_s <= now):
            if not self._joins(record, (*rooms, *opened)) and len(opened) < most:
                opened += self._opened(record)
        for record in (one for one in first if one.since + after_s > now):
            if not self._joins(record, (*rooms, *opened)):
                self._due_s = min(self._due_s, record.since + after_s)
        for room in opened:
            effect = _placeholder(room)
            self._do(effect.name, effect, effect.stands_for)

    def _joins(self, record: PodRecord, rooms: Iterable[Room]) -> bool:
        if record.ask is None:
            return False
        ask, shape = record.ask, self._state.placer.shape(record.ask)[0]
        return could_be_new(ask, shape.asked) and any(room.take(record, ask, shape) for room in rooms)

    def _opened(self, record: PodRecord) -> list[Room]:
        """A new room with the pod in it; none where no node to come would take it."""
        if record.ask is None:
            return []
        shape = self._state.placer.shape(record.ask)[0]
        if not could_be_new(record.ask, shape.asked):
            return []
        room = self._rooms.open(record, record.ask, shape)
        return [room] if room else []

    def _rooms_there_are(self) -> tuple[list[Room], set[PodUid]]:
        """The rooms of placeholders whose node is still to come, and the pods for which one stands."""
        rooms: list[Room] = []
        covered: set[PodUid] = set()
        made = self._busy.values()
        pending = [pod.placeholder or () for pod in self.pods.values() if pod.node is None]
        for pod in self.pods.values():
            covered.update(pod.placeholder or ())
        for uids in (*made, *pending):
            covered.update(uids)
            opened: list[Room] = []
            for record in (self._state.records[uid] for uid in uids if uid in self._state.records):
                if not self._joins(record, opened):
                    opened = opened or self._opened(record)
            rooms += opened
        return rooms, covered

    def _stands(self, pod: PodFacts) -> Iterator[PodUid]:
        """Those for whom the placeholder is still needed."""
        for uid in pod.placeholder or ():
            record = self._state.records.get(uid)
            if record and (_is_undecided(record) or self._needs_a_node(record)):
                yield uid

    def _needs_a_node(self, record: PodRecord) -> bool:
        why = record.no_room
        decided = why is not None and not _is_undecided(record)
        return _waits(record) and decided and not (why and why.reasons.keys() & NOT_FOR_WANT_OF_NODES)

    def _do(self, name: str, effect: PlaceholderEffect, stands_for: tuple[PodUid, ...] = ()) -> None:
        self._busy[name] = stands_for
        self._state.effects.append(effect)


def _waits(record: PodRecord) -> bool:
    pod = record.facts
    if record.stage is not Stage.WAITING or pod is None or pod.ask is None or record.forged:
        return False
    return pod.gated and not (pod.foreign_gates or pod.deleting or pod.ended)


def _is_undecided(record: PodRecord) -> bool:
    """Nobody has looked for a place yet, as after a start."""
    return _waits(record) and (record.no_room is None or bool(record.no_room.reasons.keys() & NOT_DECIDED))


def _placeholder(room: Room) -> MakePlaceholder:
    asks = [record.ask for record in room.members if record.ask]
    resources: dict[str, int] = {}
    for ask in asks:
        for name, amount in ask.resources.items():
            if name != keys.SLOT:  # of that the kubelet must give none away for nothing
                resources[name] = resources.get(name, 0) + amount
    first, *_ = room.members
    return MakePlaceholder(
        name=f"placeholder-{first.uid}",
        stands_for=tuple(record.uid for record in room.members),
        pods=tuple(record.ref for record in room.members),
        wishes=asks[0].wishes,
        cpu_milli=sum(ask.cpu_milli for ask in asks),
        memory_mib=sum(ask.memory_mib for ask in asks),
        cards=room.cards,
        resources=resources,
    )
