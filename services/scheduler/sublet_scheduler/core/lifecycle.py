"""A claiming pod between first sight and proven end.

seen (gated) -> committing -> [ledger says so] -> releasing -> [patched] -> released -> ending -> forgotten

Invariant: at every moment released and running pods are in the ledger. Here is what the pod watch and
finished patches say; the ways in (`releases`) and out (`endings`) have modules of their own.
"""

from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import ReportCode
from sublet_scheduler.core.effects import StepDown
from sublet_scheduler.core.endings import Endings
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.gangs import Gangs
from sublet_scheduler.core.node import HostUse
from sublet_scheduler.core.records import PodRecord, Stage, host_use
from sublet_scheduler.core.releases import Releases
from sublet_scheduler.core.state import Reservation, State
from sublet_scheduler.core.telling import announce, report


class Lifecycle:
    def __init__(self, state: State, releases: Releases, endings: Endings, gangs: Gangs) -> None:
        self._state = state
        self._releases = releases
        self._endings = endings
        self._gangs = gangs
        self._distrusted: dict[tuple[NodeName, CardId], set[PodUid]] = {}
        """Cards closed because a pod with a decision that is not ours names them."""

    def seen(self, pod: PodFacts, now: float) -> None:
        self._gangs.note(pod, now)
        if not pod.claimed and pod.uid not in self._state.records:
            self._unclaimed(pod)
            return
        record = self._state.records.get(pod.uid)
        if record is None:
            self._first_sight(pod, now)
            return
        if record.facts is None and record.placement and not pod.ended:
            self._not_gone(record, record.placement, pod, now)
        self._look(record, pod, now)
        self._judge(record, pod, now)

    def _not_gone(self, record: PodRecord, placement: Placement, pod: PodFacts, now: float) -> None:
        """The ledger told of the pod before the API server did, so it was taken for one that is gone."""
        record.facts = pod
        signed = pod.decision.placement if pod.decision and pod.signed and not pod.gated else None
        if signed and signed != placement:
            self._state.hold(record, Stage.RELEASED, now, placement=signed)
            self._state.settle_doubts(record.uid)
        else:
            stage = Stage.RELEASED if signed else Stage.RELEASING
            self._state.hold(record, stage, now, placement=placement, grants=record.grants)
            self._releases.retry(record, now)

    def _look(self, record: PodRecord, pod: PodFacts, now: float) -> None:
        bound_now = pod.node is not None and (record.facts is None or record.facts.node is None)
        ungated_now = record.facts is not None and record.facts.gated and not pod.gated
        record.facts, record.sought = pod, False
        self._note(record, pod)
        if ungated_now and pod.signed and pod.decision and pod.decision.placement and not pod.never_runs:
            self._believe(record, pod.decision.placement, now)
        if bound_now and record.stage in (Stage.RELEASING, Stage.RELEASED) and pod.node != record.node:
            text = f"runs on {pod.node}, its cards are on {record.node}"
            report(self._state, ReportCode.BOUND_ELSEWHERE, text, ref=record.ref, uid=record.uid)

    def _note(self, record: PodRecord, pod: PodFacts) -> None:
        """Somebody else put a pod back to waiting that we are about to release: the ledger is theirs now, and
        what we know of it is old."""
        note = pod.decision.after if pod.gated and pod.signed and pod.decision else ""
        if note and note not in record.notes:
            record.notes.add(note)
            if record.stage in (Stage.COMMITTING, Stage.RELEASING):
                self._state.effects.append(StepDown(self._state.term + 1))

    def _believe(self, record: PodRecord, released: Placement, now: float) -> None:
        """Another scheduler, or one that was killed, released the pod: where it says, it may run."""
        if record.stage in (Stage.RELEASED, Stage.ENDING):
            return
        if record.placement != released:
            self._state.hold(record, Stage.RELEASED, now, placement=released)
        self._releases.released(record, now)

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
            report(self._state, ReportCode.UNCLAIMED_USE, text, ref=pod.ref, uid=pod.uid)

    def _first_sight(self, pod: PodFacts, now: float) -> None:
        decision = pod.decision if pod.proposed or pod.signed else None  # another's words name nothing
        promised = self._state.unreserve(decision.id) if decision and pod.proposed else None
        record = PodRecord(
            uid=pod.uid,
            ref=pod.ref,
            decision=decision.id if decision else DecisionId(pod.uid),
            facts=pod,
            stage=Stage.WAITING,
            since=now,
        )
        self._state.add(record)
        if pod.ask and promised is None:
            self._state.placer.observe(pod.ask)
        self._note(record, pod)
        if pod.never_runs or (pod.ended and (pod.node is None or pod.settled) and not pod.gated):
            self._endings.end(record, pod, now)
            return
        if pod.gated or not self._ungated_at_first_sight(record, pod, now):
            self._keep_promise(record, promised, now)
        self._count_host(record, pod)
        if record.stage is Stage.WAITING:
            self._state.dirty = True

    def _keep_promise(self, record: PodRecord, promised: Reservation | None, now: float) -> None:
        outcome = promised.outcome if promised else None
        if promised and isinstance(outcome, Placement) and self._may_commit(record, promised, outcome, now):
            self._state.hold(record, Stage.COMMITTING, now, placement=outcome)
        elif isinstance(outcome, NoRoom):
            record.no_room = outcome
            record.told, record.told_s = frozenset(outcome.reasons), now

    def _count_host(self, record: PodRecord, pod: PodFacts) -> None:
        """A claiming pod that sits on a node without a placement of ours takes CPU and memory there."""
        if record.stage is Stage.WAITING and pod.node and pod.ask and not pod.ended:
            self._state.fleet.host(pod.node, pod.uid, host_use(pod.ask))

    def _ungated_at_first_sight(self, record: PodRecord, pod: PodFacts, now: float) -> bool:
        """Whether the pod's signed record settles where it is."""
        if pod.signed and pod.decision and pod.decision.placement:
            self._state.hold(record, Stage.RELEASED, now, placement=pod.decision.placement)
            if pod.ended:
                self._endings.end(record, pod, now)
            return True
        if pod.decision_text and not pod.proposed and not (pod.decision and pod.signed):
            self._distrust(record, pod, now)
            return True
        return False

    def _distrust(self, record: PodRecord, pod: PodFacts, now: float) -> None:
        record.forged = True
        text = (
            "runs without our gate and with a decision that we did not sign; the cards it names are "
            "closed for new shares until it is gone"
        )
        report(self._state, ReportCode.FORGED_DECISION, text, ref=pod.ref, uid=pod.uid)
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
        if pod.ended or pod.never_runs:
            self._endings.end(record, pod, now)
            return
        if pod.gated:
            if record.stage is Stage.WAITING and not pod.foreign_gates:
                self._state.dirty = True
            return
        if record.stage is Stage.FENCING or (record.stage is Stage.RELEASING and pod.signed):
            self._releases.released(record, now)
        elif record.stage is Stage.COMMITTING and pod.node and pod.node != record.node:
            # somebody took our gate off and the pod was bound elsewhere: no release of ours names that node
            self._state.drop(record, now)
        elif record.stage is Stage.WAITING and not record.forged:
            self._count_host(record, pod)
            self._state.dirty = True
        if record.stage is Stage.RELEASED:
            stuck = pod.unschedulable and pod.node is None
            self._state.watch(record, (record.stuck_s or now) if stuck else None)

    def gone(self, uid: PodUid, last: PodFacts | None, now: float) -> None:
        self._gangs.forget(uid)
        record = self._state.records.get(uid)
        if record is None:
            self._unclaimed_gone(uid, last)
            return
        record.gone = True
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
            self._state.settle_doubts(uid)
            self._endings.finish(record, now)
        else:
            self._endings.ending(record, now)

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

    def found(self, uid: PodUid, pod: PodFacts | None, now: float) -> None:
        """The API server itself says whether a pod is there of which only the ledger had told."""
        record = self._state.records.get(uid)
        if record is None or record.facts is not None or not record.sought:
            return
        if pod is not None:
            self.seen(pod, now)
            return
        record.sought, record.gone = False, True
        occupancy = self._state.fleet.node(record.node).occupancy if record.node else None
        if occupancy:
            self._endings.evidence(occupancy, now)

    def patched(self, uid: PodUid, pod: PodFacts | None, *, done: bool, now: float) -> None:
        record = self._state.records.get(uid)
        if record is None:
            return
        self._state.patched(record)
        if pod is None:
            # how it ended was not seen: a release whose outcome is unclear may have let it run
            self.gone(uid, None, now)
            return
        self._look(record, pod, now)
        if record.stage is Stage.FENCING and done and pod.gated:
            announce(self._state, "revoked", record)
            self._state.settle_doubts(uid)
            self._state.drop(record, now)
        elif record.stage is Stage.RELEASING and done and not pod.gated:
            self._releases.released(record, now)
        self._judge(record, pod, now)
        self._releases.retry(record, now)

    def patch_refused(self, uid: PodUid, message: str, pod: PodFacts | None, now: float) -> None:
        record = self._state.records.get(uid)
        if record is None:
            return
        text = f"the API server refuses our patch: {message}"
        report(self._state, ReportCode.PATCH_REFUSED, text, ref=record.ref, uid=uid)
        self._releases.patch_again(uid, now)
        record.again_s = now + 10 * self._state.rules.patch_again_s
        if pod is not None:
            record.facts = pod
            self._judge(record, pod, now)

    def _may_commit(self, record: PodRecord, promised: Reservation, placement: Placement, now: float) -> bool:
        """Whether what was promised at creation still holds for the pod that was stored."""
        pod = record.facts
        if pod is None or pod.ask is None or pod.foreign_gates or pod.deleting:
            return False
        if pod.ask.claims != promised.ask.claims or (pod.node and pod.node != placement.node):
            return False
        against = self._state.objection(record.ref, record.uid, pod.ask.owner, placement.node, now)
        return against is None and self._state.is_prepared(placement.node, now)
