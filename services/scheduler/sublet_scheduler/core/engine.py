"""The scheduler's engine: one event and the time in, effects out; the only place that changes the state.

Decisions are made in `reviews` (a pod is created), `lifecycle` (a pod was seen) and `waiting`; here
events are told apart, and what must follow any of them is done: waiting pods tried again, the ledger
and the node totals brought to what the state says.
"""

from typing import assert_never

from sublet.contract import keys
from sublet.model.card import Inventory
from sublet.model.health import DESTROYED, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import NodeLedger
from sublet.model.reasons import ReportCode
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.ballast import Ballast
from sublet_scheduler.core.effects import (
    AckRelease,
    AnnounceCard,
    Effect,
    Report,
    StepDown,
    WriteLedger,
)
from sublet_scheduler.core.endings import Endings
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.core.gangs import Gangs
from sublet_scheduler.core.holds import Holds
from sublet_scheduler.core.lifecycle import Lifecycle
from sublet_scheduler.core.matching import unprepared
from sublet_scheduler.core.outside import outsiders_of
from sublet_scheduler.core.placeholders import Placeholders
from sublet_scheduler.core.records import PENDING
from sublet_scheduler.core.releases import Releases
from sublet_scheduler.core.reviews import Reviews
from sublet_scheduler.core.state import Rules, State
from sublet_scheduler.core.stuck import StuckPins
from sublet_scheduler.core.totals import foreign_totals, totals_patch
from sublet_scheduler.core.waiting import Waiting


class Engine:
    """Everything the scheduler knows. `now` is monotonic seconds; the engine reads no clock itself."""

    def __init__(self, rules: Rules) -> None:
        self.state = State(rules)
        self.holds = Holds(self.state)
        self.endings = Endings(self.state)
        self.releases = Releases(self.state, self.endings)
        self.gangs = Gangs(self.state, self.releases)
        self.lifecycle = Lifecycle(self.state, self.releases, self.endings, self.gangs)
        self.waiting = Waiting(self.state, self.releases, self.holds, self.gangs)
        self.reviews = Reviews(self.state, self.waiting, self.holds)
        self.stuck = StuckPins(self.state)
        self.ballast = Ballast(self.state, self.releases)
        self.placeholders = Placeholders(self.state)

    @property
    def rebuilt(self) -> bool:
        """Every entry says what pods and ledger said when this scheduler took over, under its term."""
        return self.state.merged and not self.state.ledgers.owed

    @property
    def passing(self) -> bool:
        """A pass over the queue is under way. Reviews may come between; every other event ends it first, so
        that nobody behind gets what was freed for those who were tried before."""
        return self.waiting.passing

    def due(self, now: float) -> float | None:
        """When the next Tick is needed, monotonic seconds; None while nothing can happen by itself."""
        if self.passing:
            return now
        first = next(iter(self.state.reservations.values()), None)  # all live equally long
        times = [first.until] if first else []
        if self.state.dirty and self.state.merged:
            times.append(max(now, self.state.next_pass()))
        times += [*self.state.avoid.values(), *self.state.unevictable.values()]
        times += [*self.gangs.timers(), *self.waiting.timer()]
        if self.state.merged:
            times += [*self.ballast.timers(), *self.placeholders.timers()]
        if self.state.merged and self.state.ledgers.more_to_check:
            times.append(now)
        for record in self.state.watched():
            times += [*self.releases.timer(record, now), *self.stuck.timer(record)]
        return min(times, default=None)

    def handle(self, event: ev.Event, *, now: float) -> list[Effect]:
        """Take one event in and return what the shell must do, in order."""
        self._take(event, now)
        self._follow_up(now)
        effects, self.state.effects = self.state.effects, []
        return effects

    def _take(self, event: ev.Event, now: float) -> None:
        state = self.state
        if self.passing and not isinstance(event, ev.ReviewAsked | ev.Tick):
            self.waiting.finish(now)
        match event:
            case ev.ReviewAsked():
                if state.pass_due(now) and not self.passing:
                    self.waiting.go_on(now)
                self.reviews.answer(event, now)
            case ev.NodeSeen(node):
                self._node_seen(node)
            case ev.NodeGone(name):
                state.fleet.describe(name, None)
                state.fleet.forget(name)
                self.ballast.left(name)
            case ev.DraServed(nodes):
                for node_state in state.fleet.nodes.values():
                    if node_state.dra != (node_state.name in nodes):
                        state.fleet.share_with(node_state, dra=not node_state.dra)
                        self._helped(node_state.name)
            case ev.PodSeen(pod) if pod.ballast:
                self.ballast.seen(pod, now)
            case ev.PodSeen(pod) if pod.placeholder is not None:
                self.placeholders.seen(pod)
            case ev.PodSeen(pod):
                self.lifecycle.seen(pod, now)
            case ev.PodGone(uid, last):
                if not (self.ballast.gone(uid, now) or self.placeholders.gone(uid)):
                    self.lifecycle.gone(uid, last, now)
            case ev.PodsListed():
                state.pods_listed = True
                self._merge(now)
            case ev.NodesListed():
                state.nodes_listed = True
                self._merge(now)
            case ev.QuotaSeen(namespace, quota):
                state.limits.set(namespace, quota)
                state.dirty = True
            case ev.QuotaGone(namespace, quota_name):
                state.limits.remove(namespace, quota_name)
                state.dirty = True
            case ev.QuotasListed():
                state.quotas_listed = True
                self._merge(now)
            case ev.InventorySeen(inventory):
                self._inventory_seen(inventory, now)
            case ev.InventoryGone(node):
                state.fleet.set_inventory(node, None)
                state.fleet.forget(node)
                self.ballast.left(node)
                state.totals_dirty.add(node)
            case ev.HeartbeatSeen():
                self._heartbeat(event, now)
            case ev.OccupancySeen(occupancy):
                state.fleet.node(occupancy.node).occupancy = occupancy
                if state.fleet.set_outsiders(occupancy.node, outsiders_of(occupancy.cards)):
                    self._helped(occupancy.node)
                self.endings.evidence(occupancy, now)
                self.stuck.move_unstarted(occupancy, now)
            case ev.VerdictSeen(verdict):
                self._verdict(verdict, now)
            case ev.VerdictGone(node, card):
                self._verdict_gone(node, card)
            case ev.LedgerSeen(entry):
                self._ledger_seen(entry, now)
            case ev.LedgerListed(term, complete):
                younger = max((entry.term for entry in state.ledgers.seen.values()), default=0)
                if younger > term:
                    state.effects.append(StepDown(younger))
                    return
                state.term = term
                state.ledger_complete = complete
                state.ledger_listed = True
                self._merge(now)
            case ev.LedgerLost():
                state.ledgers.lose()
                state.ledger_listed = state.merged = False
            case ev.LedgerWritten(node, revision):
                stored = state.ledgers.written(node, revision)
                if stored:
                    self.releases.stored(stored, now)
            case ev.LedgerWriteFailed(node, entry):
                state.ledgers.failed(node, known=entry is not None)
                if entry is not None:
                    self._ledger_seen(entry, now)
            case ev.PodPatched(uid, done, pod):
                self.lifecycle.patched(uid, pod, done=done, now=now)
            case ev.PatchUnclear(uid):
                self.releases.patch_again(uid, now)
            case ev.PatchRefused(uid, message, pod):
                self.lifecycle.patch_refused(uid, message, pod, now)
            case ev.PodFound(uid, pod):
                self.lifecycle.found(uid, pod, now)
            case ev.EvictionsRefused(uid, victims):
                self.holds.refused(uid, victims, now)
            case ev.NodeReleased(node, by):
                self._released(node, by, now)
            case ev.TotalsWritten(node, done):
                state.totals_in_flight.discard(node)
                if not done:
                    state.totals_dirty.add(node)
            case ev.BallastWritten(node, done, pod):
                self.ballast.written(node, pod, done=done, now=now)
            case ev.PlaceholderWritten(name, done, pod):
                self.placeholders.written(name, pod, done=done, now=now)
            case ev.Tick() if self.passing:
                self.waiting.go_on(now)
            case ev.Tick():
                self.reviews.expire(now)
                self.releases.tick(now)
                self.stuck.tick(now)
                self.gangs.tick(now)
                self.holds.tick(now)
                self.waiting.tick(now)
                self.ballast.tick(now)
                if state.pass_due(now):
                    self.waiting.go_on(now)
            case _:
                assert_never(event)

    # -- nodes

    def _node_seen(self, node: NodeFacts) -> None:
        state = self.state.fleet.node(node.name)
        before = state.facts
        if before is None or _could_help(before, node):
            self.state.fleet.describe(node.name, node)
        else:
            state.facts = node
        if keys.RELEASE_REQUESTED not in node.annotations:
            state.release_word = ""
        if before is None or _could_help(before, node):
            self._helped(node.name)
            self._shareable_changed(node.name)
        self.state.totals_dirty.add(node.name)

    def _inventory_seen(self, inventory: Inventory, now: float) -> None:
        node = self.state.fleet.node(inventory.node)
        before = node.inventory
        if before and (before.epoch == inventory.epoch and before.seq > inventory.seq):
            return
        self.state.fleet.set_inventory(inventory.node, inventory)
        for card in (each.id for one in inventory.cards for each in (one, *one.offered)):
            verdict = node.verdicts.get(card)
            if verdict and not verdict.schedulable:
                self._close(inventory.node, card, now)
        self.state.regrant(inventory.node)
        if self.state.merged:
            self.state.ledgers.check(inventory.node)
        self._helped(inventory.node)
        self._shareable_changed(inventory.node)

    def _heartbeat(self, event: ev.HeartbeatSeen, now: float) -> None:
        node = self.state.fleet.node(event.beat.node)
        number = (event.beat.epoch, event.beat.seq)
        if node.beat == number:
            return
        node.beat = number
        was_fresh = node.beat_s is not None and now - node.beat_s <= self.state.rules.fresh_s
        beat_s = now if node.beat_s is not None else now - event.age_s
        self.state.fleet.hear(node.name, beat_s)
        if not was_fresh and now - beat_s <= self.state.rules.fresh_s:
            self._helped(event.beat.node)

    def _shareable_changed(self, node: NodeName) -> None:
        """Tell those who show capacity; a node without an entry gets one anyhow."""
        if self.state.rules.overcommit and node in self.state.ledgers.seen:
            self.state.ledgers.dirty.add(node)

    def _helped(self, node: NodeName) -> None:
        self.state.dirty = True
        self.state.totals_dirty.add(node)

    def _released(self, node: NodeName, by: str, now: float) -> None:
        """One word frees what was ending when it was given, not what ends while it is taken off the Node."""
        state = self.state.fleet.node(node)
        if state.release_word != by:
            state.release_word = by
            freed = self.endings.release_node(node, now)
            text = f"{by} says that {node} is off: {freed} ending pods freed"
            self.state.effects.append(Report(ReportCode.NODE_RELEASED, text, node=node))
        self.state.effects.append(AckRelease(node))

    # -- cards

    def _verdict(self, verdict: Verdict, now: float) -> None:
        node = self.state.fleet.node(verdict.node)
        before = node.verdicts.get(verdict.card)
        if before and before.seq > verdict.seq:
            return
        node.verdicts[verdict.card] = verdict
        done_with = verdict.rule == DESTROYED and verdict.withheld  # nobody can hold or ask for it any more
        if verdict.schedulable or done_with:
            self._open(verdict.node, verdict.card)
        else:
            self._close(verdict.node, verdict.card, now)

    def _verdict_gone(self, node: NodeName, card: CardId) -> None:
        """Absence of a verdict is no judgement: a card stays as it was. Only a partition that is there no
        more leaves the ledger as well."""
        state = self.state.fleet.nodes.get(node)
        if state is None or state.inventory is None or card in self.state.cards(node):
            return
        state.verdicts.pop(card, None)
        self._open(node, card)

    def _close(self, node: NodeName, card: CardId, now: float) -> None:
        if card not in self.state.fleet.node(node).closed:
            self.state.fleet.set_open(node, card, open_=False)
            self.state.ledgers.dirty.add(node)
            self.state.totals_dirty.add(node)
            self.state.effects.append(AnnounceCard("closed", node, card))
            self.releases.card_closed(node, card, now)

    def _open(self, node: NodeName, card: CardId) -> None:
        if card in self.state.fleet.node(node).closed and not self.lifecycle.is_distrusted(node, card):
            self.state.fleet.set_open(node, card, open_=True)
            self.state.ledgers.dirty.add(node)
            self.state.effects.append(AnnounceCard("opened", node, card))
            self._helped(node)

    # -- ledger

    def _ledger_seen(self, entry: NodeLedger, now: float) -> None:
        state = self.state
        if entry.term > state.term and state.ledger_listed:
            state.effects.append(StepDown(entry.term))
            return
        if not state.ledgers.take(entry):
            return
        if state.merged:
            if entry.term != state.term:  # our own writes say nothing new
                self.releases.yield_to(entry, now)
                self.releases.adopt(entry, now, listed=False)
                self._adopt_closed(entry, now)
            self.releases.stored(entry, now)

    def _merge(self, now: float) -> None:
        """Bring pods and ledger together, once all of both are known."""
        state = self.state
        listed = state.pods_listed and state.nodes_listed and state.quotas_listed and state.ledger_listed
        if state.merged or not listed:
            return
        state.merged = True
        for entry in list(state.ledgers.seen.values()):
            self.releases.adopt(entry, now)
            self._adopt_closed(entry, now)
        if state.ledger_complete:
            self.endings.trust_absence(now)
        state.ledgers.take_over(*self._to_take_over())
        for entry in list(state.ledgers.seen.values()):
            self.releases.stored(entry, now)
        state.dirty = True

    def _to_take_over(self) -> tuple[set[NodeName], set[NodeName]]:
        """The nodes that need an entry of ours, and those of them where a pod waits for it."""
        state = self.state
        used = (one for one in state.fleet.nodes.values() if one.inventory or one.bookings or one.closed)
        pending = (one for one in state.records.values() if one.stage in PENDING)
        return {*state.ledgers.seen, *(one.name for one in used)}, {one.node for one in pending if one.node}

    def _adopt_closed(self, entry: NodeLedger, now: float) -> None:
        """A card stays closed until a verdict opens it, also across a restart."""
        verdicts = self.state.fleet.node(entry.node).verdicts
        for card in entry.closed:
            if card not in verdicts or not verdicts[card].schedulable:
                self._close(entry.node, card, now)

    # -- after every event

    def _follow_up(self, now: float) -> None:
        self._flush_totals(now)
        if not self.state.merged:
            return
        self.gangs.settle(now)
        self.ballast.settle(now)
        self.placeholders.settle(now)
        for node in sorted(self.state.ledgers.writable):
            write = self.state.ledgers.next_write(self.state.wanted_entry(node))
            if write:
                self.state.effects.append(WriteLedger(write))
        self.state.effects += map(WriteLedger, self.state.ledgers.fence(self.state.wanted_entry))

    def _flush_totals(self, now: float) -> None:
        state = self.state
        for name in sorted(state.totals_dirty - state.totals_in_flight):
            state.totals_dirty.discard(name)
            node = state.fleet.nodes.get(name)
            if node is None or node.facts is None:
                continue
            foreign = foreign_totals(node, state.rules.options)
            state.fleet.share_with(node, foreign=bool(foreign))
            against = unprepared(node, now=now, fresh_s=state.rules.fresh_s)
            slots = node.facts.allocatable.get(keys.SLOT, 0)
            leaving = node.inventory is None or bool(foreign) or node.dra or not slots
            patch = totals_patch(
                node, state.rules.options, managed=against is None, leaving=against is not None and leaving
            )
            if patch:
                state.totals_in_flight.add(name)
                state.effects.append(patch)


def _could_help(before: NodeFacts, after: NodeFacts) -> bool:
    return (
        before.labels != after.labels
        or before.taints != after.taints
        or before.unschedulable != after.unschedulable
        or before.ready != after.ready
        or before.cpu_milli != after.cpu_milli
        or before.memory_mib != after.memory_mib
        or before.pods != after.pods
        or before.allocatable != after.allocatable
    )
