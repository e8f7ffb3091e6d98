"""Gangs: which pods belong together, whether all are there, and that none is released before all have cards.

A gang holds nothing until all its members can be placed at once, so two halves never wait for each other.
Only after a crash or a loss may a part of one hold cards; it gives them back after a short time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sublet.model.claim import Gang
from sublet.model.ids import PodUid
from sublet.model.reasons import ReportCode
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.releases import Releases
from sublet_scheduler.core.state import State
from sublet_scheduler.core.telling import report

GangId = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class Gathering:
    """What is known of one gang. `since` is when it was seen first or was whole last, monotonic seconds."""

    gang: Gang
    since: float
    members: set[PodUid] = field(default_factory=set)
    others: set[PodUid] = field(default_factory=set)
    """Pods of the group without a claim, which its controller counts too."""
    partial_s: float | None = None
    """Since when some members hold cards and others do not."""
    told: bool = False
    given_up: bool = False
    """Its members are placed one by one."""


class Gangs:
    def __init__(self, state: State, releases: Releases) -> None:
        self._state = state
        self._releases = releases
        self._gatherings: dict[GangId, Gathering] = {}
        self._of: dict[PodUid, GangId] = {}
        self._due: dict[GangId, float] = {}
        """When time alone changes something for a gang."""
        releases.may_release = self.is_whole

    # -- who belongs to it

    def note(self, pod: PodFacts, now: float) -> None:
        gang = pod.ask.gang if pod.ask else pod.gang
        if gang is None:
            return
        gathering = self._gatherings.setdefault((pod.ref.namespace, gang.name), Gathering(gang, now))
        gathering.gang = gang
        self._of[pod.uid] = (pod.ref.namespace, gang.name)
        if pod.ask:
            gathering.members.add(pod.uid)
        elif pod.phase == "Failed":
            gathering.others.discard(pod.uid)
        elif pod.uid not in gathering.others:
            gathering.others.add(pod.uid)
            self._state.dirty = True
        self._state.regrouped.add(pod.uid)

    def forget(self, uid: PodUid) -> None:
        id_ = self._of.pop(uid, None)
        gathering = self._gatherings.get(id_) if id_ else None
        if id_ is None or gathering is None:
            return
        gathering.members.discard(uid)
        gathering.others.discard(uid)
        if not gathering.members and not gathering.others:
            del self._gatherings[id_]
            self._due.pop(id_, None)
        else:
            self._settle(id_, gathering, gathering.since)

    def of(self, record: PodRecord) -> Gathering | None:
        """The gang with which the pod must be placed; None where it may be placed alone."""
        id_ = self._of.get(record.uid)
        gathering = self._gatherings.get(id_) if id_ else None
        return None if gathering is None or gathering.given_up else gathering

    def records(self, gathering: Gathering) -> list[PodRecord]:
        """Its members, in the order of the queue."""
        known = [self._state.records[uid] for uid in gathering.members if uid in self._state.records]
        return sorted((one for one in known if _counts(one)), key=lambda one: one.order)

    def missing(self, gathering: Gathering) -> int:
        """How many of its pods do not exist."""
        return max(0, gathering.gang.size - len(gathering.others) - len(self.records(gathering)))

    # -- all or nothing

    def is_whole(self, record: PodRecord) -> bool:
        """Whether nothing stands against releasing the pod: the ledger shows cards for its whole gang."""
        gathering = self.of(record)
        return gathering is None or self._holding(gathering) + len(gathering.others) >= gathering.gang.size

    def _holding(self, gathering: Gathering) -> int:
        return sum(self._has_cards(one) for one in self.records(gathering))

    def _has_cards(self, record: PodRecord) -> bool:
        if record.stage is Stage.COMMITTING:
            return self._state.in_ledger(record)
        ended = record.facts is not None and record.facts.ended
        return ended or record.stage in (Stage.RELEASING, Stage.RELEASED)

    # -- time

    def settle(self, now: float) -> None:
        """After every event: see to the gangs of which a pod changed."""
        changed, self._state.regrouped = self._state.regrouped, set()
        for id_ in sorted({self._of[uid] for uid in changed if uid in self._of}):
            self._settle(id_, self._gatherings[id_], now)

    def _settle(self, id_: GangId, gathering: Gathering, now: float) -> None:
        rules, records = self._state.rules, self.records(gathering)
        pending = [one for one in records if one.stage in (Stage.COMMITTING, Stage.RELEASING)]
        whole = not records or self.is_whole(records[0])
        if whole:
            gathering.since, gathering.told = now, False
            for record in pending:
                self._releases.proceed(record, now)
        if whole or not pending:
            gathering.partial_s = None
        elif gathering.partial_s is None:
            gathering.partial_s = now
        times = []
        if gathering.partial_s is not None:
            times.append(gathering.partial_s + rules.gang_hold_s)
        if not (whole or gathering.told or gathering.given_up):
            times.append(gathering.since + rules.gang_s)
        self._due.pop(id_, None)
        if times:
            self._due[id_] = min(times)

    def timers(self) -> Iterator[float]:
        yield from self._due.values()

    def tick(self, now: float) -> None:
        for id_ in [id_ for id_, due in self._due.items() if due <= now]:
            gathering = self._gatherings[id_]
            if gathering.partial_s is not None and now - gathering.partial_s >= self._state.rules.gang_hold_s:
                self._give_back(gathering, now)
            if now - gathering.since >= self._state.rules.gang_s and not gathering.told:
                self._tell(gathering, now)
            self._settle(id_, gathering, now)

    def _give_back(self, gathering: Gathering, now: float) -> None:
        """A part of the gang has held cards for too long: they are for somebody who can use them."""
        for record in self.records(gathering):
            if record.stage is Stage.COMMITTING:
                self._state.drop(record, now)
            elif record.stage is Stage.RELEASING and record.facts and record.facts.gated:
                self._state.enter(record, Stage.FENCING, now)
                self._releases.send_waiting(record, "its gang did not become whole; a new place is sought")
        gathering.partial_s = None

    def _tell(self, gathering: Gathering, now: float) -> None:
        gathering.told = True
        waiting = [one for one in self.records(gathering) if one.stage is Stage.WAITING]
        missing = self.missing(gathering)
        if not waiting or not missing:
            return
        name, first = gathering.gang.name, waiting[0]
        text = f"gang {name!r} of {gathering.gang.size} still lacks {missing} pods"
        if gathering.gang.derived:
            gathering.given_up = True
            self._state.dirty = True
            code, text = ReportCode.GANG_GIVEN_UP, f"{text}; its pods are placed one by one"
        else:
            code = ReportCode.GANG_INCOMPLETE
        report(self._state, code, text, ref=first.ref, uid=first.uid)
        if gathering.given_up:
            for record in self.records(gathering):
                self._releases.proceed(record, now)


def _counts(record: PodRecord) -> bool:
    """Whether the pod is a living part of its gang; who succeeded has done its part."""
    pod = record.facts
    return pod is not None and not pod.deleting and (not pod.ended or pod.phase == "Succeeded")
