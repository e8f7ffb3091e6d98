"""A claiming pod between first sight and proven end.

seen (gated) -> committing -> [ledger says so] -> releasing -> [patched] -> released -> ending -> forgotten

Invariant: at every moment released and running pods are in the ledger. A committed grant of a gated pod
is dropped only after the pod is gone, or after a guarded patch of ours made every older release patch
fail (fencing).
"""

from collections.abc import Iterator

from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import LedgerGrant, NodeLedger, NoRoom, Occupancy, Placement
from sublet.model.reasons import EXPLANATIONS, Reason
from sublet_scheduler.core.effects import Announce, FreeStuckPin, MarkWaiting, ReleasePod, Report
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.fleet import HostUse
from sublet_scheduler.core.records import PodRecord, Stage, placement_of
from sublet_scheduler.core.state import State


class Lifecycle:
    def __init__(self, state: State) -> None:
        self._state = state
        self._distrusted: dict[tuple[NodeName, CardId], set[PodUid]] = {}
        """Cards closed because a pod with a decision that is not ours names them."""

    # -- the pod watch

    def seen(self, pod: PodFacts, now: float) -> None:
        if not pod.claimed and pod.uid not in self._state.records:
            self._unclaimed(pod)
            return
        record = self._state.records.get(pod.uid)
        if record is None:
            self._first_sight(pod, now)
            return
        record.facts = pod
        self._judge(record, pod, now)

    def _unclaimed(self, pod: PodFacts) -> None:
        if pod.node is None:
            return
        use = HostUse(cpu_milli=pod.cpu_milli, memory_mib=pod.memory_mib, resources=pod.resources)
        known = pod.uid in self._state.fleet.node(pod.node).hosts
        self._state.fleet.host(pod.node, pod.uid, None if pod.ended else use)
        if pod.ended and known:
            self._state.dirty = True
        if pod.resources and not known and not pod.ended:
            names = ", ".join(sorted(pod.resources))
            text = f"uses {names} without a claim: it counts against its node, but holds no card"
            self._report("UnclaimedUse", text, pod.uid)

    def _first_sight(self, pod: PodFacts, now: float) -> None:
        reservation = None
        decision = pod.decision.id if pod.decision else None
        if decision is not None and pod.decision and pod.decision.uid is None:
            reservation = self._state.unreserve(decision)
        record = PodRecord(
            uid=pod.uid,
            ref=pod.ref,
            decision=decision or DecisionId(pod.uid),
            facts=pod,
            stage=Stage.WAITING,
            since=now,
        )
        self._state.add(record)
        if pod.ended and (pod.node is None or pod.settled) and not pod.gated:
            self._end(record, pod, now)
            return
        if pod.gated or not self._ungated_at_first_sight(record, pod, now):
            promised = reservation.outcome if reservation else None
            if isinstance(promised, Placement) and self._may_commit(record, promised, now):
                self._state.hold(record, Stage.COMMITTING, now, placement=promised)
            elif isinstance(promised, NoRoom):
                record.no_room = promised
                record.told, record.told_s = frozenset(promised.reasons), now
        self._state.dirty = True

    def _ungated_at_first_sight(self, record: PodRecord, pod: PodFacts, now: float) -> bool:
        """Whether the pod's signed record settles where it is."""
        if pod.signed and pod.decision and pod.decision.placement:
            self._state.hold(record, Stage.RELEASED, now, placement=pod.decision.placement)
            if pod.ended:
                self._end(record, pod, now)
            return True
        if pod.decision_text and not pod.proposed and not (pod.decision and pod.signed):
            self._distrust(record, pod, now)
            return True
        return False

    def _distrust(self, record: PodRecord, pod: PodFacts, now: float) -> None:
        record.forged = True
        self._report(
            "ForgedDecision",
            "runs without our gate and with a decision that we did not sign; the cards it names are "
            "closed for new shares until it is gone",
            pod.uid,
        )
        if pod.node is None:
            return
        for card in pod.cards:
            self._distrusted.setdefault((pod.node, card), set()).add(pod.uid)
            self._state.fleet.set_open(pod.node, card, open_=False)
            self._state.ledgers.dirty.add(pod.node)
        self._state.enter(record, Stage.WAITING, now)

    def is_distrusted(self, node: NodeName, card: CardId) -> bool:
        return bool(self._distrusted.get((node, card)))

    def _judge(self, record: PodRecord, pod: PodFacts, now: float) -> None:
        """A pod that is known already looks different now."""
        if pod.ended:
            self._end(record, pod, now)
            return
        if pod.gated:
            if record.stage is Stage.WAITING and not pod.foreign_gates:
                self._state.dirty = True
            return
        if record.stage is Stage.FENCING or (record.stage is Stage.RELEASING and pod.signed):
            self._released(record, now)
        elif record.stage is Stage.COMMITTING and pod.node and pod.node != record.node:
            # somebody took our gate off and the pod was bound elsewhere: no release of ours names that node
            self._state.drop(record, now)
        elif record.stage is Stage.WAITING and not record.forged:
            self._state.dirty = True
        if record.stage is Stage.RELEASED:
            stuck = pod.unschedulable and pod.node is None
            self._state.watch(record, (record.stuck_s or now) if stuck else None)

    def gone(self, uid: PodUid, last: PodFacts | None, now: float) -> None:
        record = self._state.records.get(uid)
        if record is None:
            self._unclaimed_gone(uid, last)
            return
        if last is not None:
            record.facts = last
        facts = record.facts
        never_bound = (
            facts is not None
            and facts.node is None
            and (last is not None or record.stage in (Stage.WAITING, Stage.COMMITTING))
        )
        settled = last is not None and last.ended and last.settled
        self._trust_again(uid)
        if record.stage is Stage.WAITING or never_bound or settled:
            self._finish(record, now)
        else:
            self._ending(record, now)

    def _unclaimed_gone(self, uid: PodUid, last: PodFacts | None) -> None:
        nodes = [last.node] if last and last.node else list(self._state.fleet.nodes)
        for node in nodes:
            if node in self._state.fleet.nodes and uid in self._state.fleet.nodes[node].hosts:
                self._state.fleet.host(node, uid, None)
                self._state.dirty = True
                return

    def _trust_again(self, uid: PodUid) -> None:
        for (node, card), pods in list(self._distrusted.items()):
            pods.discard(uid)
            if not pods:
                del self._distrusted[node, card]
                verdict = self._state.fleet.node(node).verdicts.get(card)
                if verdict is None or verdict.schedulable:
                    self._state.fleet.set_open(node, card, open_=True)
                    self._state.ledgers.dirty.add(node)
                    self._state.dirty = True

    # -- the end

    def _end(self, record: PodRecord, pod: PodFacts, now: float) -> None:
        """The pod is Succeeded or Failed; its object may stay for long."""
        if pod.node:
            self._state.fleet.host(pod.node, record.uid, None)
        if record.stage is Stage.ENDING and not (pod.settled or pod.node is None):
            return
        if record.stage is Stage.WAITING:
            return
        if pod.node is None or pod.settled:
            self._announce("ended", record)
            self._state.drop(record, now)
        else:
            self._ending(record, now)

    def _ending(self, record: PodRecord, now: float) -> None:
        if record.stage is Stage.ENDING:
            return
        node = self._state.fleet.node(record.node) if record.node else None
        record.ending_boot = node.inventory.boot_id if node and node.inventory else ""
        record.ending_revision = 0
        self._state.enter(record, Stage.ENDING, now)
        if record.node:
            self._state.fleet.host(record.node, record.uid, None)
        self._announce("ending", record)

    def _finish(self, record: PodRecord, now: float) -> None:
        if record.placement:
            self._announce("ended", record)
        self._state.forget(record, now)

    def evidence(self, occupancy: Occupancy, now: float) -> None:
        """An agent's record proves which ending pods have left nothing behind."""
        for record in self._state.on_node(occupancy.node):
            if record.stage is not Stage.ENDING:
                continue
            rebooted = bool(record.ending_boot) and occupancy.boot_id != record.ending_boot
            later = 0 < record.ending_revision <= occupancy.ledger_revision
            absent = occupancy.cgroups_read and record.uid not in occupancy.pods_with_cgroups
            if rebooted or (later and absent):
                self._free(record, now)
        self._move_unstarted(occupancy, now)

    def _free(self, record: PodRecord, now: float) -> None:
        if record.facts is not None and record.facts.ended:
            self._announce("ended", record)
            self._state.drop(record, now)  # the object is still there: remember it without grants
        else:
            self._finish(record, now)

    def release_node(self, node: NodeName, now: float) -> int:
        ending = [one for one in self._state.on_node(node) if one.stage is Stage.ENDING]
        for record in ending:
            self._free(record, now)
        return len(ending)

    # -- the ledger

    def adopt(self, entry: NodeLedger, now: float) -> None:
        """Take over grants in the ledger that no record here accounts for."""
        groups: dict[PodUid, list[LedgerGrant]] = {}
        for grant in entry.grants:
            groups.setdefault(grant.uid, []).append(grant)
        for uid, grants in groups.items():
            record = self._state.records.get(uid)
            if record is None:
                self._adopt_ghost(entry.node, uid, tuple(grants), now)
            elif record.node == entry.node and _same_grants(record.grants, grants):
                record.grants, record.guessed_env = tuple(grants), False
            elif record.stage in (Stage.WAITING, Stage.COMMITTING) and record.facts:
                self._adopt_for(record, record.facts, entry.node, tuple(grants), now)

    def _adopt_for(
        self, record: PodRecord, pod: PodFacts, node: NodeName, grants: tuple[LedgerGrant, ...], now: float
    ) -> None:
        """An earlier leader committed a pod that is still there: send the same release again."""
        if pod.ended and pod.settled:
            return
        if pod.gated or pod.node == node:
            self._hold(record, Stage.RELEASING, node, grants, now)
        if pod.ended:
            self._ending(record, now)

    def _adopt_ghost(self, node: NodeName, uid: PodUid, grants: tuple[LedgerGrant, ...], now: float) -> None:
        """Its pod object is gone, and how it ended was not seen: it counts until the agent proves more."""
        first = grants[0]
        record = PodRecord(
            uid=uid, ref=first.pod, decision=first.decision, facts=None, stage=Stage.WAITING, since=now
        )
        self._state.add(record)
        self._hold(record, Stage.RELEASED, node, grants, now)
        self._ending(record, now)

    def _hold(
        self, record: PodRecord, stage: Stage, node: NodeName, grants: tuple[LedgerGrant, ...], now: float
    ) -> None:
        self._state.hold(record, stage, now, placement=placement_of(node, grants), grants=grants)

    def trust_absence(self, now: float) -> None:
        """A terminal pod without a grant in a complete ledger was proven gone before."""
        for uid in [uid for uid, one in self._state.records.items() if one.stage is Stage.ENDING]:
            record = self._state.records[uid]
            entry = self._state.ledgers.seen.get(record.node) if record.node else None
            if (
                record.facts
                and record.facts.ended
                and not (entry and any(g.uid == uid for g in entry.grants))
            ):
                self._state.drop(record, now)

    def stored(self, entry: NodeLedger, now: float) -> None:
        """The bus shows `entry`: what waited for it goes on."""
        for record in self._state.on_node(entry.node):
            if record.stage is Stage.COMMITTING and self._state.in_ledger(record):
                self._announce("committed", record)
                self._state.enter(record, Stage.RELEASING, now)
            if record.stage is Stage.RELEASING:
                self._send_release(record, now)
            if record.stage is Stage.ENDING and not record.ending_revision:
                shown = [one for one in entry.grants if one.uid == record.uid]
                if shown and all(one.state == "ending" for one in shown):
                    record.ending_revision = entry.revision

    # -- patches

    def _send_release(self, record: PodRecord, now: float) -> None:
        ready = record.facts is not None and not record.patching and record.again_s <= now
        if ready and record.facts and record.placement and self._state.in_ledger(record):
            record.patching = True
            self._state.effects.append(
                ReleasePod(record.uid, record.ref, record.facts.version, record.decision, record.placement)
            )

    def _send_waiting(self, record: PodRecord, message: str) -> None:
        if record.facts is not None and not record.patching:
            record.patching = True
            self._state.effects.append(
                MarkWaiting(record.uid, record.ref, record.facts.version, record.decision, message)
            )

    def patched(self, uid: PodUid, pod: PodFacts | None, *, done: bool, now: float) -> None:
        record = self._state.records.get(uid)
        if record is None:
            return
        record.patching = False
        if pod is None:
            # how it ended was not seen: a release whose outcome is unclear may have let it run
            self.gone(uid, None, now)
            return
        record.facts = pod
        if record.stage is Stage.FENCING and done and pod.gated:
            self._announce("revoked", record)
            self._state.drop(record, now)
        elif record.stage is Stage.RELEASING and done:
            self._released(record, now)
        self._judge(record, pod, now)
        self._retry(record, now)

    def _retry(self, record: PodRecord, now: float) -> None:
        if record.stage is Stage.FENCING:
            self._send_waiting(record, "its card was closed before it started; a new place is sought")
        elif record.stage is Stage.RELEASING:
            self._send_release(record, now)

    def patch_again(self, uid: PodUid, now: float) -> None:
        record = self._state.records.get(uid)
        if record:
            record.patching = False
            record.again_s = now + self._state.rules.patch_again_s

    def patch_refused(self, uid: PodUid, message: str, pod: PodFacts | None, now: float) -> None:
        record = self._state.records.get(uid)
        if record is None:
            return
        self._report("PatchRefused", f"the API server refuses our patch: {message}", uid)
        self.patch_again(uid, now)
        record.again_s = now + 10 * self._state.rules.patch_again_s
        if pod is not None:
            record.facts = pod
            self._judge(record, pod, now)

    def _released(self, record: PodRecord, now: float) -> None:
        pod = record.facts
        if pod and pod.node and record.node and pod.node != record.node:
            self._report("BoundElsewhere", f"runs on {pod.node}, its cards are on {record.node}", record.uid)
        self._state.enter(record, Stage.RELEASED, now)
        self._state.watch(record, None)
        self._announce("released", record)

    # -- cards that close

    def card_closed(self, node: NodeName, card: CardId, now: float) -> None:
        """Pods that were promised the card but cannot have started on it get another place."""
        for record in self._state.on_node(node):
            if not any(one.grant.card == card for one in record.grants):
                continue
            if record.stage is Stage.COMMITTING:
                self._state.drop(record, now)
            elif record.stage is Stage.RELEASING and record.facts and record.facts.gated:
                self._state.enter(record, Stage.FENCING, now)
                self._send_waiting(record, "its card was closed before it started; a new place is sought")
        for id_, reservation in list(self._state.reservations.items()):
            outcome = reservation.outcome
            if isinstance(outcome, Placement) and outcome.node == node and _uses(outcome, card):
                self._state.unreserve(id_)

    def _move_unstarted(self, occupancy: Occupancy, now: float) -> None:
        closed = self._state.fleet.node(occupancy.node).closed
        entry = self._state.ledgers.seen.get(occupancy.node)
        if not closed or entry is None or occupancy.ledger_revision < entry.revision:
            return
        started = {one.uid for one in occupancy.prepared}
        for record in self._state.on_node(occupancy.node):
            bound = record.stage is Stage.RELEASED and record.facts and record.facts.node
            on_closed = any(one.grant.card in closed for one in record.grants)
            waited = now - record.since >= self._state.rules.stuck_pin_s
            if bound and on_closed and waited and record.uid not in started:
                self._free_pin(record, "its card was closed before it started", now)

    # -- waiting and stuck pods

    def try_waiting(self, now: float) -> None:
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
                record.no_room = NoRoom(reasons={Reason.FOREIGN_GATE: 1}, message=_say(Reason.FOREIGN_GATE))
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
            self._announce("decided", record)
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
            self._send_waiting(record, why.message)

    def _may_commit(self, record: PodRecord, promised: Placement, now: float) -> bool:
        pod = record.facts
        if pod is None or pod.ask is None or pod.foreign_gates or pod.deleting:
            return False
        if pod.node and pod.node != promised.node:
            return False
        against = self._state.objection(record.ref, record.uid, pod.ask.owner, promised.node, now)
        return against is None and self._state.is_prepared(promised.node, now)

    def tick(self, now: float) -> None:
        state = self._state
        for key, until in list(state.avoid.items()):
            if until <= now:
                del state.avoid[key]
                state.dirty = True
        for record in state.watched():
            if not record.patching and record.again_s <= now:
                self._retry(record, now)
            stuck = record.stuck_s if record.stage is Stage.RELEASED else None
            if stuck is not None and now - stuck >= state.rules.stuck_pin_s:
                self._free_pin(record, "kube-scheduler cannot place it on the node of its cards", now)
        if state.pass_due(now):
            self.try_waiting(now)

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

    def timers(self, now: float) -> Iterator[float]:
        """When something may have to be done without any event, monotonic seconds."""
        state = self._state
        yield from state.avoid.values()
        for record in state.watched():
            if record.stage is Stage.RELEASED and record.stuck_s is not None:
                yield record.stuck_s + state.rules.stuck_pin_s
            elif record.stage is not Stage.RELEASED and not record.patching:
                yield max(record.again_s, now)

    # -- saying so

    def _announce(self, what: str, record: PodRecord) -> None:
        self._state.effects.append(Announce(what, record.ref, record.uid, record.decision, record.placement))

    def _report(self, code: str, message: str, uid: PodUid) -> None:
        record = self._state.records.get(uid)
        ref = record.ref if record else None
        self._state.effects.append(Report(code, message, ref=ref, uid=uid))


def _same_grants(mine: tuple[LedgerGrant, ...], theirs: list[LedgerGrant]) -> bool:
    return {(one.container, one.grant) for one in mine} == {(one.container, one.grant) for one in theirs}


def _uses(placement: Placement, card: CardId) -> bool:
    return any(grant.card == card for grants in placement.containers.values() for grant in grants)


def _say(reason: Reason) -> str:
    return f"{EXPLANATIONS[reason].text}; {EXPLANATIONS[reason].way_out}"
