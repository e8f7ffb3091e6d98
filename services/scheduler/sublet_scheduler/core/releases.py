"""From a booked place to a released pod: the ledger first, then one guarded patch; and the way back.

A committed grant of a gated pod is dropped only after a guarded patch of ours made every older release
patch fail (fencing).
"""

from collections.abc import Callable, Iterator

from sublet.model.ids import CardId, NodeName, PodUid
from sublet.model.placement import LedgerGrant, NodeLedger, Placement
from sublet_scheduler.core.effects import FindPod, MarkWaiting, ReleasePod
from sublet_scheduler.core.endings import Endings
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.records import PENDING, PodRecord, Stage, placement_of
from sublet_scheduler.core.state import State
from sublet_scheduler.core.telling import announce

_MOVED = "its card was closed before it started; a new place is sought"


class Releases:
    def __init__(self, state: State, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        self.may_release: Callable[[PodRecord], bool] = lambda _: True
        """Whether the pod may run as soon as the ledger shows its cards; gangs wait for each other."""
        self.waits_until: Callable[[PodRecord], float] = lambda _: float("-inf")
        """Until when the pod is not released, at the longest: the ballast of its node makes room for it."""

    # -- the ledger

    def yield_to(self, entry: NodeLedger, now: float) -> None:
        """An older scheduler wrote `entry` before ours was there: its word stands. What we meant to put on
        the node and did not release yet is decided anew; no release of ours precedes an entry of ours."""
        granted = {grant.uid for grant in entry.grants}
        for record in self._state.on_node(entry.node):
            if record.stage in PENDING and record.uid not in granted:
                self._state.drop(record, now)
                self._state.dropped.get(entry.node, set()).discard(record.uid)
            elif record.stage is Stage.ENDING and record.uid not in granted and self._only_theirs(record):
                self._endings.free(record, now)
        for id_, reservation in list(self._state.reservations.items()):
            outcome = reservation.outcome
            if isinstance(outcome, Placement) and outcome.node == entry.node:
                self._state.unreserve(id_)

    def _only_theirs(self, record: PodRecord) -> bool:
        """Whether its grant was the older scheduler's word alone: that one had proof of the end."""
        return record.facts is None or self._state.ledger_complete

    def adopt(self, entry: NodeLedger, now: float, *, listed: bool = True) -> None:
        """Take over grants in the ledger that no record here accounts for.

        `listed`: nobody else has written it since we gave grants up.
        """
        groups: dict[PodUid, list[LedgerGrant]] = {}
        for grant in entry.grants:
            groups.setdefault(grant.uid, []).append(grant)
        for uid in self._state.dropped.get(entry.node, ()) if listed else ():
            groups.pop(uid, None)
        for uid, grants in groups.items():
            record = self._state.records.get(uid)
            if record and record.node == entry.node and _same_grants(record.grants, grants):
                record.grants, record.guessed_env = tuple(grants), False
                if record.stage is Stage.COMMITTING:
                    self._state.enter(record, Stage.RELEASING, now)
            elif entry.term == self._state.term:
                pass  # ours, and given up before it was stored
            elif record is None:
                self._adopt_ghost(entry.node, uid, tuple(grants), now)
            elif record.stage in (Stage.WAITING, Stage.COMMITTING) and record.facts:
                self._adopt_for(record, record.facts, entry.node, tuple(grants), now)
            elif record.node != entry.node and self._may_be_released_by_others(record):
                self._state.doubt(entry.node, uid, record.ref, tuple(grants))

    def _may_be_released_by_others(self, record: PodRecord) -> bool:
        """It is behind our gate and no patch of ours has made an older release fail, as far as we know."""
        unseen = record.stage is Stage.ENDING and record.facts is None
        return unseen or record.stage in (Stage.RELEASING, Stage.FENCING)

    def _adopt_for(
        self, record: PodRecord, pod: PodFacts, node: NodeName, grants: tuple[LedgerGrant, ...], now: float
    ) -> None:
        """An earlier leader committed a pod that is still there: send the same release again."""
        if pod.never_runs or (pod.ended and pod.settled):
            return
        if pod.gated or pod.node == node:
            self._hold(record, Stage.RELEASING, node, grants, now)
            self._fence_if_closed(record, node, now)
        if pod.ended:
            self._endings.ending(record, now)

    def _adopt_ghost(self, node: NodeName, uid: PodUid, grants: tuple[LedgerGrant, ...], now: float) -> None:
        """The watch, which may lag, shows no such pod. If it is gone, how it ended was not seen: it counts
        until the agent proves more."""
        first = grants[0]
        record = PodRecord(
            uid=uid, ref=first.pod, decision=first.decision, facts=None, stage=Stage.WAITING, since=now
        )
        self._state.add(record)
        self._hold(record, Stage.RELEASED, node, grants, now)
        self._endings.ending(record, now)
        record.sought = True
        self._state.effects.append(FindPod(uid, record.ref))

    def _hold(
        self, record: PodRecord, stage: Stage, node: NodeName, grants: tuple[LedgerGrant, ...], now: float
    ) -> None:
        self._state.hold(record, stage, now, placement=placement_of(node, grants), grants=grants)

    def stored(self, entry: NodeLedger, now: float) -> None:
        """The bus shows `entry`: what waited for it goes on."""
        self._state.dropped.get(entry.node, set()).intersection_update(grant.uid for grant in entry.grants)
        for record in self._state.on_node(entry.node):
            self.proceed(record, now)
            if record.stage is Stage.ENDING and not record.ending_revision:
                shown = [one for one in entry.grants if one.uid == record.uid]
                if shown and all(one.state == "ending" for one in shown):
                    record.ending_revision = entry.revision

    def proceed(self, record: PodRecord, now: float) -> None:
        """From the ledger to the release, where nothing stands against it."""
        if record.stage is Stage.COMMITTING and self._state.in_ledger(record):
            if not self.may_release(record):
                self._state.regrouped.add(record.uid)
                return
            announce(self._state, "committed", record)
            self._state.enter(record, Stage.RELEASING, now)
        if record.stage is Stage.RELEASING:
            self._send_release(record, now)

    # -- patches

    def _send_release(self, record: PodRecord, now: float) -> None:
        if record.patching or record.again_s > now or not self._is_releasable(record):
            return
        if self.waits_until(record) > now:
            return
        if record.facts and record.placement:
            record.patching = True
            self._state.effects.append(
                ReleasePod(record.uid, record.ref, record.facts.version, record.decision, record.placement)
            )

    def _is_releasable(self, record: PodRecord) -> bool:
        """Otherwise another event says when it is: of the pod, of its gang, or of the ledger."""
        return record.facts is not None and self.may_release(record) and self._state.in_ledger(record)

    def send_waiting(self, record: PodRecord, message: str) -> None:
        if record.facts is not None and not record.patching:
            record.patching = True
            record.notes.add(record.facts.version)
            self._state.effects.append(
                MarkWaiting(record.uid, record.ref, record.facts.version, record.decision, message)
            )

    def retry(self, record: PodRecord, now: float) -> None:
        if record.stage is Stage.FENCING:
            self.send_waiting(record, _MOVED)
        elif record.stage is Stage.RELEASING:
            self._send_release(record, now)

    def tick(self, now: float) -> None:
        for record in self._state.watched():
            if not record.patching and record.again_s <= now:
                self.retry(record, now)

    def timer(self, record: PodRecord, now: float) -> Iterator[float]:
        """When a patch is to be tried again, monotonic seconds."""
        held = record.stage is Stage.RELEASING and not self._is_releasable(record)
        if record.stage is not Stage.RELEASED and not record.patching and not held:
            until_s = self.waits_until(record) if record.stage is Stage.RELEASING else now
            yield max(record.again_s, now, until_s)

    def patch_again(self, uid: PodUid, now: float) -> None:
        record = self._state.records.get(uid)
        if record:
            self._state.patched(record)
            record.again_s = now + self._state.rules.patch_again_s

    def released(self, record: PodRecord, now: float) -> None:
        self._state.enter(record, Stage.RELEASED, now)
        self._state.settle_doubts(record.uid)
        self._state.watch(record, None)
        announce(self._state, "released", record)
        if self._state.running[record.uid] < self._state.hungry:
            self._state.dirty = True  # now it can be evicted

    # -- cards that close

    def card_closed(self, node: NodeName, card: CardId, now: float) -> None:
        """Pods that were promised the card but cannot have started on it get another place."""
        parts = {
            one.card.id
            for one in self._state.fleet.node(node).by_index
            if card in (one.card.id, one.card.parent)
        }
        closed = {card, *parts}
        for record in self._state.on_node(node):
            if closed.isdisjoint(one.grant.card for one in record.grants):
                continue
            if record.stage is Stage.COMMITTING:
                self._state.drop(record, now)
            else:
                self._fence_if_closed(record, node, now)
        for id_, reservation in list(self._state.reservations.items()):
            outcome = reservation.outcome
            if isinstance(outcome, Placement) and outcome.node == node and _uses(outcome, closed):
                self._state.unreserve(id_)

    def _fence_if_closed(self, record: PodRecord, node: NodeName, now: float) -> None:
        closed = self._state.fleet.node(node).is_closed
        on_closed = any(closed(one.grant.card) for one in record.grants)
        if on_closed and record.stage is Stage.RELEASING and record.facts and record.facts.gated:
            self._state.enter(record, Stage.FENCING, now)
            self.send_waiting(record, _MOVED)


def _same_grants(mine: tuple[LedgerGrant, ...], theirs: list[LedgerGrant]) -> bool:
    return {(one.container, one.grant) for one in mine} == {(one.container, one.grant) for one in theirs}


def _uses(placement: Placement, cards: set[CardId]) -> bool:
    return any(grant.card in cards for grants in placement.containers.values() for grant in grants)
