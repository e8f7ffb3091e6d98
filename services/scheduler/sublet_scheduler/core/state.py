"""All that the scheduler knows, and the small steps that change it consistently.

The fleet's bookings always mirror the records and the reservations; whoever changes the one goes
through here to change the other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sublet.contract.dialects.interface import Options
from sublet.contract.overcommit import Overcommit
from sublet.model.card import Card
from sublet.model.claim import PodAsk, Policy
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import GrantState, LedgerGrant, NodeLedger, NoRoom, Placement, Shareable
from sublet.model.reasons import Reason
from sublet_scheduler.core.effects import Effect
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.ledgers import Ledgers
from sublet_scheduler.core.limits import Limits
from sublet_scheduler.core.matching import unprepared
from sublet_scheduler.core.node import Booking, counted_grants
from sublet_scheduler.core.outside import OutsideUse
from sublet_scheduler.core.placing import Placer
from sublet_scheduler.core.pools import NodePool
from sublet_scheduler.core.ratio import Ratio
from sublet_scheduler.core.records import (
    HOLDING,
    PodRecord,
    Stage,
    bare_grants,
    booking_of,
    host_use,
    make_grants,
    promised,
)
from sublet_scheduler.core.scoring.workload import Workload
from sublet_scheduler.core.shapes import Policies

_STATES = {False: GrantState.COMMITTED, True: GrantState.ENDING}
NOBODY = -(10**11)
"""Below every rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the cluster sets. Times in seconds."""

    options: Options = field(default_factory=Options)
    policies: Policies = field(default_factory=lambda: Policies(Policy.FRAGMENTATION, Policy.FRAGMENTATION))
    overcommit: Overcommit = field(default_factory=Overcommit)
    workload: tuple[tuple[PodAsk, float], ...] = ()
    """Pods that are expected, and how often each comes."""
    reservation_s: float = 10.0
    fresh_s: float = 15.0
    stuck_pin_s: float = 60.0
    avoid_s: float = 300.0
    """How long a node is kept from the owner of a pod that it could not take."""
    owner_back_off_s: float = 30.0
    owner_back_off_most_s: float = 600.0
    patch_again_s: float = 1.0
    tell_again_s: float = 30.0
    """The least time between two waiting notes on one pod."""
    outside_use: OutsideUse = OutsideUse.MEMORY
    """What is made of cards that others use."""
    preemption: bool = True
    evict_again_s: float = 30.0
    """No pod whose eviction was refused is tried again before."""
    gang_s: float = 600.0
    """After so long a gang that lacks pods is reported, or given up where another controller described it."""
    gang_hold_s: float = 30.0
    """The longest that a part of a gang may hold cards."""
    looks_a_slice: int = 1_500
    """After about so many looks at nodes a pass over the queue lets reviews through: some tens of
    milliseconds."""
    holds: int = 16
    """So many waiting pods at the head of the queue have a place kept for them."""
    hold_s: float = 600.0
    """After so long without anybody leaving, a place is kept on another node."""
    ratios: tuple[Ratio, ...] = ()
    """What is kept for idle cards, by node pool."""
    ballast_wait_s: float = 10.0
    """The longest that a pod is held until the ballast of its node has made room."""
    placeholders: int = 0
    """So many placeholders stand for waiting pods at most."""
    placeholder_after_s: float = 10.0
    """For so long a pod waits before a placeholder stands for it."""
    pools: tuple[NodePool, ...] = ()
    """Nodes that an autoscaler can add though none like them is there."""


@dataclass(slots=True)
class Reservation:
    """A placement, or an honest "not now", whose pod has not been seen yet."""

    ask: PodAsk
    outcome: Placement | NoRoom
    until: float


class State:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.fleet = Fleet(rules.overcommit, rules.outside_use)
        self.limits = Limits()
        workload = Workload(rules.workload)
        self.placer = Placer.over(
            self.fleet, rules.policies, rules.fresh_s, workload=workload, limits=self.limits
        )
        self.records: dict[PodUid, PodRecord] = {}
        self.reservations: dict[DecisionId, Reservation] = {}
        self.unplaced: dict[DecisionId, Reservation] = {}
        """The reservations that hold no place."""
        self.ledgers = Ledgers()
        self.refs: dict[PodRef, dict[PodUid, NodeName]] = {}
        """Pod name -> UID -> node of its grants, to keep a successor away from its predecessor."""
        self.dropped: dict[NodeName, set[PodUid]] = {}
        """Grants that were given up for good reason while the ledger may still show them."""
        self.doubtful: dict[NodeName, dict[PodUid, tuple[LedgerGrant, ...]]] = {}
        """Second grants of pods that an earlier scheduler put somewhere else, too: as long as a release of
        that one may still arrive, they stay in the ledger and count."""
        self.avoid: dict[tuple[str, NodeName], float] = {}
        """(owner UID or pod) and node -> until when that node is kept from it."""
        self.owners: dict[str, tuple[float, float]] = {}
        """Owner UID -> (next time one of its stuck pods may be freed, back-off then)."""
        self.term = 0
        self.pods_listed = False
        self.nodes_listed = False
        self.quotas_listed = False
        self.ledger_listed = False
        self.ledger_complete = False
        """What the ledger does not say is not so; otherwise it is unknown."""
        self.merged = False
        """Pods and ledger were brought together since the ledger was listed last."""
        self.dirty = False
        """Something changed that could help a waiting pod."""
        self.passed_s = float("-inf")
        """When the waiting pods were tried last."""
        self.waiting: set[PodUid] = set()
        self.running: dict[PodUid, int] = {}
        """Released pods and their rank."""
        self.hungry = NOBODY
        """The highest rank that waits and may evict."""
        self.unevictable: dict[PodUid, float] = {}
        """Pods whose eviction was refused -> until when it is not tried again."""
        self.regrouped: set[PodUid] = set()
        """Pods of gangs that changed in this event."""
        self._watched: set[PodUid] = set()
        self.totals_dirty: set[NodeName] = set()
        self.totals_in_flight: set[NodeName] = set()
        self.effects: list[Effect] = []

    # -- reading

    def cards(self, node: NodeName) -> dict[CardId, Card]:
        state = self.fleet.nodes.get(node)
        cards = state.inventory.cards if state and state.inventory else ()
        return {one.id: one for card in cards for one in (card, *card.offered)}

    def labels(self, node: NodeName) -> Mapping[str, str]:
        state = self.fleet.nodes.get(node)
        return state.facts.labels if state and state.facts else {}

    def on_node(self, node: NodeName) -> Iterator[PodRecord]:
        state = self.fleet.nodes.get(node)
        for key in list(state.bookings) if state else ():
            record = self.records.get(PodUid(key))
            if record:
                yield record

    def is_prepared(self, node: NodeName, now: float) -> bool:
        state = self.fleet.nodes.get(node)
        return state is not None and unprepared(state, now=now, fresh_s=self.rules.fresh_s) is None

    def next_pass(self) -> float:
        """When waiting pods may be tried again: many waiting pods are tried less often."""
        return self.passed_s + 0.02 + len(self.waiting) / 50_000

    def pass_due(self, now: float) -> bool:
        return self.dirty and self.merged and now >= self.next_pass()

    def watched(self) -> list[PodRecord]:
        """The records for which time alone may call for something."""
        for uid in list(self._watched):
            record = self.records.get(uid)
            waits = record and record.stage in (Stage.RELEASING, Stage.FENCING) and not record.patching
            stuck = record and record.stage is Stage.RELEASED and record.stuck_s is not None
            if not (waits or stuck):
                self._watched.discard(uid)
        return [self.records[uid] for uid in sorted(self._watched)]

    # -- reservations

    def reserve(self, id_: DecisionId, ask: PodAsk, outcome: Placement | NoRoom, now: float) -> None:
        reservation = self.reservations[id_] = Reservation(ask, outcome, now + self.rules.reservation_s)
        self.placer.observe(ask)
        if isinstance(outcome, Placement):
            self._book(id_, outcome.node, ask, promised(ask, outcome))
        else:
            self.unplaced[id_] = reservation

    def unreserve(self, id_: DecisionId) -> Reservation | None:
        reservation = self.reservations.pop(id_, None)
        self.unplaced.pop(id_, None)
        if reservation and isinstance(reservation.outcome, Placement):
            self._unbook(id_, reservation.outcome.node)
        return reservation

    # -- records

    def add(self, record: PodRecord) -> None:
        self.records[record.uid] = record
        self.waiting.add(record.uid)

    def patched(self, record: PodRecord) -> None:
        """Its patch came back, whatever became of it: from now on another may be due."""
        record.patching = False
        self._watched.add(record.uid)

    def watch(self, record: PodRecord, stuck_s: float | None) -> None:
        """Note since when kube-scheduler cannot place a released pod; None: it is not stuck."""
        record.stuck_s = stuck_s
        if stuck_s is not None:
            self._watched.add(record.uid)

    def hold(
        self,
        record: PodRecord,
        stage: Stage,
        now: float,
        *,
        placement: Placement,
        grants: tuple[LedgerGrant, ...] = (),
    ) -> None:
        """Book `placement` (with the ledger's `grants` where it has them) and enter `stage`."""
        if record.placement:
            self.drop(record, now)
        record.placement = placement
        self.dropped.get(placement.node, set()).discard(record.uid)
        if not grants and record.ask:
            cards = self.cards(placement.node)
            granted = {grant.card for some in placement.containers.values() for grant in some}
            record.guessed_env = not granted <= cards.keys()
            grants = make_grants(
                record.ask,
                placement,
                uid=record.uid,
                ref=record.ref,
                decision=record.decision,
                cards=cards,
                labels=self.labels(placement.node),
                options=self.rules.options,
            )
        if not grants:
            grants = bare_grants(placement, uid=record.uid, ref=record.ref, decision=record.decision)
        record.grants = grants
        record.no_room = None
        booking = booking_of(record.ref, record.ask, grants)
        self._book(record.uid, placement.node, record.ask, booking)
        self.refs.setdefault(record.ref, {})[record.uid] = placement.node
        self.enter(record, stage, now)

    def drop(self, record: PodRecord, now: float) -> None:
        """End what `record` books; it waits again (or is about to be forgotten)."""
        if record.placement:
            self._unbook(record.uid, record.placement.node)
            self.refs.get(record.ref, {}).pop(record.uid, None)
            if not self.refs.get(record.ref):
                self.refs.pop(record.ref, None)
            self.ledgers.dirty.add(record.placement.node)
            if record.stage is not Stage.COMMITTING:  # that one the ledger may only have from another
                self.dropped.setdefault(record.placement.node, set()).add(record.uid)
        record.placement = None
        record.grants = ()
        record.ending_revision = 0
        self.enter(record, Stage.WAITING, now)
        self.dirty = True

    def enter(self, record: PodRecord, stage: Stage, now: float) -> None:
        if record.stage is not stage:
            record.stage = stage
            record.since = now
            self.running.pop(record.uid, None)
            if stage is Stage.RELEASED:
                self.running[record.uid] = record.ask.rank if record.ask else 0
            (self.waiting.add if stage is Stage.WAITING else self.waiting.discard)(record.uid)
            if stage in (Stage.RELEASING, Stage.FENCING):
                self._watched.add(record.uid)
        if record.ask and record.ask.gang:
            self.regrouped.add(record.uid)
        if record.node:
            self.ledgers.dirty.add(record.node)
        self.ledgers.dirty.update(node for node, some in self.doubtful.items() if record.uid in some)

    def forget(self, record: PodRecord, now: float) -> None:
        self.drop(record, now)
        if record.facts and record.facts.node:
            self.fleet.host(record.facts.node, record.uid, None)
        self.records.pop(record.uid, None)
        self.waiting.discard(record.uid)

    def regrant(self, node: NodeName) -> None:
        """Make variables anew that were guessed while the node's cards were unknown."""
        cards = self.cards(node)
        for record in self.on_node(node):
            if record.guessed_env and record.ask and record.placement:
                record.grants = make_grants(
                    record.ask,
                    record.placement,
                    uid=record.uid,
                    ref=record.ref,
                    decision=record.decision,
                    cards=cards,
                    labels=self.labels(node),
                    options=self.rules.options,
                )
                record.guessed_env = False
                self.ledgers.dirty.add(node)

    def wanted_entry(self, node: NodeName) -> NodeLedger:
        """What the ledger shall say of `node`."""
        state = self.fleet.nodes.get(node)
        grants = [
            grant
            for record in sorted(self.on_node(node), key=lambda one: one.uid)
            if record.stage in HOLDING
            for grant in record.ledger_grants()
        ]
        for uid, doubted in sorted(self.doubtful.get(node, {}).items()):
            record = self.records.get(uid)
            over = record is None or record.stage is Stage.ENDING
            grants += [replace(one, state=_STATES[over]) for one in doubted]
        closed = tuple(sorted(state.closed)) if state else ()
        shareable = tuple(
            Shareable(card=one.card.id, memory_mib=one.total_mib, core_percent=one.total_core)
            for one in (state.by_index if state else ())
            if (one.total_mib, one.total_core) != (one.card.memory_mib or 0, 100)
        )
        return NodeLedger(node=node, term=self.term, grants=tuple(grants), closed=closed, shareable=shareable)

    def doubt(self, node: NodeName, uid: PodUid, ref: PodRef, grants: tuple[LedgerGrant, ...]) -> None:
        self.doubtful.setdefault(node, {})[uid] = grants
        self._book(doubtful_key(uid), node, None, booking_of(ref, None, grants))

    def settle_doubts(self, uid: PodUid, *only: NodeName) -> None:
        """No release but one that is known can let the pod run (on the nodes `only`, on all by default)."""
        for node in [node for node, some in self.doubtful.items() if uid in some]:
            if only and node not in only:
                continue
            del self.doubtful[node][uid]
            if not self.doubtful[node]:
                del self.doubtful[node]
            self._unbook(doubtful_key(uid), node)
            self.ledgers.dirty.add(node)

    def in_ledger(self, record: PodRecord) -> bool:
        """Whether the entry on the bus shows every grant of `record` under our own term.

        What an older scheduler wrote it may still take back; ours it cannot overwrite.
        """
        entry = self.ledgers.seen.get(record.node) if record.node else None
        if entry is None or entry.term != self.term or record.node in self.ledgers.unread:
            return False
        shown = {(one.container, one.grant) for one in entry.grants if one.uid == record.uid}
        return {(one.container, one.grant) for one in record.grants} <= shown

    # -- keeping pods apart

    def predecessor(self, ref: PodRef, key: str, node: NodeName) -> bool:
        others = self.refs.get(ref, {})
        return bool(ref.name) and any(at == node for other, at in others.items() if other != key)

    def objection(self, ref: PodRef, key: str, owner: str, node: NodeName, now: float) -> Reason | None:
        """Why this pod must not go to `node` for the moment."""
        return self.avoided(ref, key, owner, now).get(node)

    def avoided(self, ref: PodRef, key: str, owner: str, now: float) -> Mapping[NodeName, Reason]:
        """The nodes to which this pod must not go for the moment."""
        who = owner or key
        avoided = {
            node: Reason.NODE_NOT_PREPARED
            for (whose, node), until in self.avoid.items()
            if whose == who and until > now
        }
        if ref.name:
            for other, node in self.refs.get(ref, {}).items():
                if other != key:
                    avoided[node] = Reason.PREDECESSOR_ENDING
        return avoided

    # -- bookings

    def try_on(self, record: PodRecord, placement: Placement) -> None:
        """Book `placement` for a waiting pod for a moment, to see what fits beside it; then `take_off`."""
        if record.ask:
            self._book(record.uid, placement.node, record.ask, promised(record.ask, placement))

    def take_off(self, record: PodRecord, node: NodeName) -> None:
        self._unbook(record.uid, node)

    def _book(self, key: str, node: NodeName, ask: PodAsk | None, booking: Booking) -> None:
        self.fleet.book(node, key, booking)
        self.limits.hold(booking.ref.namespace, key, counted_grants(booking.held))
        if ask:
            self.fleet.host(node, key, host_use(ask))
        self._recount_totals(node, booking)

    def _unbook(self, key: str, node: NodeName) -> None:
        booking = self.fleet.node(node).bookings.get(key)
        if booking:
            self.limits.free(booking.ref.namespace, key)
            self._recount_totals(node, booking)
        self.fleet.unbook(node, key)
        self.fleet.host(node, key, None)
        self.dirty = True

    def _recount_totals(self, node: NodeName, booking: Booking) -> None:
        """Cards that are offered and open count whatever they hold, as far as it may be promised; others only
        while they are held."""
        state = self.fleet.node(node)
        if (
            state.closed
            or state.over
            or not state.are_all_offered(one.card for one in counted_grants(booking.held))
        ):
            self.totals_dirty.add(node)


def doubtful_key(uid: PodUid) -> str:
    """Names the booking of a pod's second grants."""
    return f"{uid}/doubtful"
