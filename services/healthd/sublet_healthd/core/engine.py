"""The judge of the fleet: what agents, ledger and people say in, verdicts out; one card's judge each."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from sublet.contract.kernelline import place, read_line
from sublet.model.card import Card, Heartbeat, Inventory, Vendor
from sublet.model.health import (
    DESTROYED,
    Breaker,
    BreakerState,
    HealthState,
    Mode,
    Signal,
    SignalKind,
    Taken,
    Verdict,
)
from sublet.model.ids import CardId, NodeName, PodRef, PodUid
from sublet.model.placement import LedgerMeta, NodeLedger, Occupancy
from sublet_healthd.core import breaker as limiting
from sublet_healthd.core.breaker import Fleet, Key
from sublet_healthd.core.card import CardState, Use, recalled, remember, restored
from sublet_healthd.core.event import (
    Acted,
    BreakerActed,
    BreakerChanged,
    BreakerRestored,
    CaughtUp,
    Effect,
    Event,
    LedgerLost,
    Restored,
    Told,
    Unnamed,
    VerdictsLost,
)
from sublet_healthd.core.facts import Facts
from sublet_healthd.core.idle import Evidence, use_of, workload_on
from sublet_healthd.core.judge import (
    BLIND_PROBES,
    Common,
    Forgotten,
    Fresh,
    HeldBack,
    JudgeEvent,
    Refreshed,
    Tick,
    Transition,
    Used,
    fault_of,
    judge,
)
from sublet_healthd.core.listing import listed, lost, where
from sublet_healthd.core.nodeview import FAILING, NodeView, is_there, signal_id, stamped
from sublet_healthd.core.policy import LOST, Policy


class Engine:
    """Everything healthd knows, and the only place that changes it. `now_ms` is Unix time."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.cards: dict[Key, CardState] = {}
        self._nodes: dict[NodeName, NodeView] = {}
        self._ledger_complete = False
        self.breaker = Breaker()
        self._homes: dict[CardId, NodeName] = {}
        self.waiting: set[Key] = set()
        """Cards that the breaker keeps in scheduling."""
        self._due: list[tuple[int, Key]] = []
        self._silent: set[Key] | None = None
        """While catching up: the cards that took in a signal and are not judged yet."""

    def handle(self, event: Event, *, now_ms: int) -> list[Effect]:
        """Take one event in and return what the shell must do, in order."""
        match event:
            case Signal():
                return list(self._signal(stamped(event, now_ms), now_ms))
            case CaughtUp(signals=signals):
                return self._caught_up(signals, now_ms)
            case Inventory():
                return list(self._inventory(event, now_ms))
            case Heartbeat():
                return list(self._heartbeat(event, now_ms))
            case Occupancy():
                return list(self._occupancy(event, now_ms))
            case NodeLedger():
                return list(self._ledger(event, now_ms))
            case LedgerMeta(complete=complete):
                self._ledger_complete = complete
                return list(self._all_uses(now_ms))
            case LedgerLost():
                self._ledger_complete = False
                for view in self._nodes.values():
                    view.ledger = None
                    view.closed_at.clear()
                return list(self._all_uses(now_ms))
            case VerdictsLost():
                return [Refreshed(verdict=one.verdict) for one in self.cards.values() if one.verdict]
            case Restored():
                return self._restored(event, now_ms)
            case Told():
                return list(self._told(event, now_ms))
            case Acted():
                return list(self._acted(event, now_ms))
            case BreakerRestored(breaker=breaker):
                self.breaker = breaker
                return []
            case BreakerActed():
                return list(self._breaker_acted(event, now_ms))
            case Tick():
                return list(self._tick(now_ms))
            case _:
                assert_never(event)

    def due_ms(self) -> int | None:
        """When the next `Tick` is due."""
        breaker_ms = self._breaker_due_ms()
        card_ms = self._card_due_ms()
        return min((one for one in (breaker_ms, card_ms) if one is not None), default=None)

    def _breaker_due_ms(self) -> int | None:
        return limiting.due_ms(self.breaker, self.policy.limits, waiting=bool(self.waiting))

    def _card_due_ms(self) -> int | None:
        while self._due:
            due_ms, key = self._due[0]
            if key in self.cards and self.cards[key].due_ms == due_ms:
                return due_ms
            heapq.heappop(self._due)
        return None

    def of_node(self, node: NodeName) -> list[CardState]:
        view = self._nodes.get(node)
        return [self.cards[node, card] for card in sorted(view.cards)] if view else []

    def listed(self, node: NodeName, card: CardId) -> Card | None:
        """The card or partition as its agent describes it."""
        view = self._nodes.get(node)
        return (view.listed.get(card) or view.part(card)) if view else None

    def present(self, node: NodeName) -> list[Card]:
        """The cards that its agent lists and that were not replaced."""
        view = self._nodes.get(node)
        return [card for id_, card in view.listed.items() if id_ not in view.gone] if view else []

    def shares_per_card(self, node: NodeName) -> int:
        view = self._nodes.get(node)
        return view.shares_per_card if view else 0

    def nodes(self) -> list[NodeName]:
        return sorted(self._nodes)

    def epoch(self, node: NodeName) -> str:
        """Which life of the agent speaks for the node."""
        view = self._nodes.get(node)
        return view.beat_epoch if view else ""

    def users(self, node: NodeName, card: CardId) -> list[tuple[PodRef, PodUid]]:
        """The pods that the ledger has on the card or its partitions."""
        view = self._nodes.get(node)
        if view is None or view.ledger is None:
            return []
        units = view.units(card)
        return sorted({(one.pod, one.uid) for one in view.ledger.grants if one.grant.card in units})

    def to_evict(self) -> set[tuple[PodRef, PodUid]]:
        """Pods on cards that are condemned and closed, and that the breaker does not hold back."""
        if self.policy.mode is not Mode.ENFORCE:
            return set()
        return {
            user
            for (node, card), state in self.cards.items()
            if state.verdict
            and state.verdict.state is HealthState.CONDEMNED
            and not state.verdict.schedulable
            for user in self.users(node, card)
        }

    def _tick(self, now_ms: int) -> Iterator[Effect]:
        breaker_ms = self._breaker_due_ms()
        if breaker_ms is not None and breaker_ms <= now_ms:
            yield from self._trial(now_ms)
        while (due_ms := self._card_due_ms()) is not None and due_ms <= now_ms:
            _, key = heapq.heappop(self._due)
            yield from self._uses(key[0], [key[1]], now_ms)
            if key in self.cards:
                yield from self._judge(key, Tick(), now_ms)

    def _signal(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        told = signal.kind is SignalKind.BOOT
        yield from self._boot(signal.node, signal.boot_id, signal.at_ms, now_ms, told=told)
        match signal:
            case Signal(kind=SignalKind.BOOT):
                return
            case Signal(kind=SignalKind.KMSG):
                yield from self._kernel_line(signal, now_ms)
            case Signal(kind=SignalKind.SXID):
                yield from self._everywhere(signal, now_ms)
            case Signal(card=None) if card := self._at_place(signal.node, signal.pci):
                yield from self._about(replace(signal, card=card), now_ms)
            case Signal(card=None, kind=SignalKind.XID):
                yield Unnamed(signal=signal)
            case Signal(card=None):
                yield from self._everywhere(signal, now_ms)
            case _:
                yield from self._about(signal, now_ms)

    def _caught_up(self, signals: tuple[Signal, ...], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        silent: set[Key] = set()
        self._silent = silent
        for signal in signals:
            effects += self._signal(stamped(signal, now_ms), now_ms)
        self._silent = None
        for key in sorted(silent & self.cards.keys()):
            effects += self._judge(key, Tick(), now_ms)
        if self.breaker.state is BreakerState.CLOSED:  # it may have closed when nobody was there to look
            effects += self._look_again(now_ms)
        return effects

    def _about(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        """A signal about one named card; a card seen for the first time may have taken another's place."""
        if signal.card is None:
            return
        if signal.kind is SignalKind.CARD and (signal.node, signal.card) not in self.cards:
            yield from self._replaced(signal, signal.card, now_ms)
            yield from self._moved(signal, signal.card, now_ms)
        instances = self._node(signal.node).concerned(signal.card, signal)
        if signal.gi is None or not instances:
            yield from self._judge(self._known(signal.node, signal.card), signal, now_ms)
        for instance in instances:
            told = replace(signal, card=instance, seq=0)
            yield from self._judge(self._known(signal.node, instance), told, now_ms)

    def _replaced(self, signal: Signal, card: CardId, now_ms: int) -> Iterator[Effect]:
        other = self._at_place(signal.node, signal.pci)
        if other is not None and other != card:
            gone = lost(signal.node, other, signal.at_ms, why="replaced")
            yield from self._judge((signal.node, other), gone, now_ms)

    def _moved(self, signal: Signal, card: CardId, now_ms: int) -> Iterator[Effect]:
        """A card that sat in another node brings what is known of it; another boot is a reset there too."""
        home = self._homes.get(card)
        if home is None or home == signal.node:
            return
        facts = self.cards[home, card].facts
        if facts.serial and signal.serial and facts.serial != signal.serial:
            return
        yield from self._judge((home, card), lost(home, card, signal.at_ms, why="moved"), now_ms)
        known = tuple(one for one in facts.reasons if one.id != LOST.label)
        brought = replace(facts, pci="", reasons=known, gone="", restored=frozenset())
        self._known(signal.node, card)
        self.cards[signal.node, card] = CardState(node=signal.node, card=card, origin=brought)

    def _everywhere(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        """Each card of the node gets it; the number counts for the one who sent it, not for each card."""
        if signal.card is not None:
            self._known(signal.node, signal.card)
        for card in list(self._node(signal.node).cards):
            yield from self._judge((signal.node, card), replace(signal, card=card, seq=0), now_ms)

    def _kernel_line(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        view = self._node(signal.node)
        line, view.named = read_line(signal.raw, at_ms=signal.at_ms, named=view.named)
        if line is not None:
            told = replace(
                signal,
                kind=line.kind,
                code=line.code,
                pci=line.pci,
                gi=line.gi,
                ci=line.ci,
                source="kmsg",
                card=None,
            )
            yield from self._signal(told, now_ms)

    def _inventory(self, seen: Inventory, now_ms: int) -> Iterator[Effect]:
        view = self._node(seen.node)
        yield from self._boot(seen.node, seen.boot_id, seen.at_ms, now_ms)
        at_ms = min(seen.at_ms or now_ms, now_ms)
        view.shares_per_card = seen.shares_per_card
        for verdict in seen.verdicts:
            forgotten = view.forgotten.get(verdict.card)
            if verdict.node == seen.node and (forgotten is None or forgotten.seq < verdict.seq):
                yield from self._recalled(verdict, seen.boot_id, at_ms, now_ms)
        view.settled |= {card.id for card in seen.cards}
        for card in seen.cards:
            before, view.listed[card.id] = view.listed.get(card.id), card
            back = card.id in view.gone
            view.gone.discard(card.id)
            if back or before is None or where(before) != where(card):
                yield from self._about(listed(seen, card, at_ms, back=back), now_ms)
            parts = card.offered if card.vendor is Vendor.NVIDIA and card.partitions else ()
            view.instances[card.id] = card.partitions if parts else ()
            for part in parts:
                yield from self._instance(seen, card.id, part, at_ms, now_ms)
        instances = {CardId(one.uuid) for card in seen.cards for one in view.instances[card.id]}
        there = {card.id for card in seen.cards} | instances
        for gone in [card for card in view.cards if card not in there]:
            state = self.cards[seen.node, gone]
            if gone in view.gone and not (state.parent and is_there(state)):
                continue
            view.gone.add(gone)
            why = DESTROYED if state.parent else ""
            yield from self._judge((seen.node, gone), lost(seen.node, gone, at_ms, why=why), now_ms)

    def _instance(
        self, seen: Inventory, card: CardId, part: Card, at_ms: int, now_ms: int
    ) -> Iterator[Effect]:
        """A MIG instance is judged as a card; from the beginning it has what its card has."""
        key, view = (seen.node, part.id), self._node(seen.node)
        view.parents[part.id] = card
        if (last := view.forgotten.pop(part.id, None)) is not None:
            self._known(*key)
            self.cards[key] = restored(last, now_ms=now_ms)
            view.gone.add(part.id)
        elif key not in self.cards:
            self._known(*key)
            facts = self.cards[seen.node, card].facts
            reasons = tuple(one for one in facts.reasons if one.id != LOST.label)
            origin = replace(facts, serial="", gone="", cures=(), reasons=reasons)
            self.cards[key] = replace(self.cards[key], origin=origin)
        self.cards[key] = replace(self.cards[key], parent=card)
        back = part.id in view.gone
        view.gone.discard(part.id)
        news: JudgeEvent = listed(seen, part, at_ms, back=True) if back else Fresh(probed=True)
        yield from self._judge(key, news, now_ms)

    def _acted(self, event: Acted, now_ms: int) -> Iterator[Effect]:
        """What a person does to a card is done to its partitions."""
        yield from self._judge(self._known(event.node, event.card), event.manual, now_ms)
        for one in self._node(event.node).instances.get(event.card, ()):
            yield from self._judge(self._known(event.node, CardId(one.uuid)), event.manual, now_ms)

    def _recalled(self, verdict: Verdict, boot_id: str, at_ms: int, now_ms: int) -> Iterator[Effect]:
        """An agent heard it from an earlier life of ours: it counts where nothing else is left of that life,
        and where what is left is older. `boot_id` is the agent's, as of `at_ms`."""
        view = self._node(verdict.node)
        key = self._known(verdict.node, verdict.card)
        state = self.cards[key]
        known = state.verdict.seq if state.verdict else 0
        if verdict.card in view.settled and verdict.seq <= known:
            return
        view.settled.add(verdict.card)
        if verdict.boot_id and verdict.boot_id not in view.boots:
            view.boots = {verdict.boot_id: None, **view.boots}
        state_then = recalled(self.policy, state, verdict, now_ms=now_ms)
        self._keep(key, state_then)
        for boot, seen_ms in ((state.origin.boot_id, now_ms), (boot_id, at_ms)):
            if boot and boot != self.cards[key].facts.boot_id:
                told = Signal(node=key[0], card=key[1], kind=SignalKind.BOOT, boot_id=boot, at_ms=seen_ms)
                yield from self._judge(key, told, now_ms)
        yield from self._judge(key, Tick(), now_ms)
        if key in self.cards and self.cards[key].verdict == state_then.verdict and state_then.verdict:
            yield Refreshed(verdict=state_then.verdict)  # the judgement is of before, our store knows another

    def _heartbeat(self, beat: Heartbeat, now_ms: int) -> Iterator[Effect]:
        view = self._node(beat.node)
        yield from self._boot(beat.node, beat.boot_id, beat.at_ms, now_ms)
        view.beat_ms, view.beat_epoch = now_ms, beat.epoch
        for card in list(view.cards):
            yield from self._judge((beat.node, card), Fresh(probed=True), now_ms)
        yield from self._uses(
            beat.node, [card for card in view.cards if self._closing(beat.node, card)], now_ms
        )

    def _occupancy(self, seen: Occupancy, now_ms: int) -> Iterator[Effect]:
        view = self._node(seen.node)
        yield from self._boot(seen.node, seen.boot_id, seen.at_ms, now_ms)
        before, view.occupancy = view.occupancy, seen
        if before is not None and before.epoch != seen.epoch:
            for card in list(view.cards):  # the grace period lies within one agent's life
                yield from self._judge((seen.node, card), Used(use=Use.UNCLEAR), now_ms)
        yield from self._uses(seen.node, view.cards, now_ms)

    def _ledger(self, entry: NodeLedger, now_ms: int) -> Iterator[Effect]:
        view = self._node(entry.node)
        view.ledger = entry
        view.closed_at = {card: view.closed_at.get(card, entry.revision) for card in entry.closed}
        yield from self._uses(entry.node, view.cards, now_ms)

    def _all_uses(self, now_ms: int) -> Iterator[Effect]:
        for node, view in self._nodes.items():
            yield from self._uses(node, view.cards, now_ms)

    def _uses(self, node: NodeName, cards: Iterable[CardId], now_ms: int) -> Iterator[Effect]:
        view = self._node(node)
        fresh_from_ms = now_ms - self.policy.timing.heartbeat_fresh_ms
        for card in [card for card in cards if card not in view.told]:
            seen = Evidence(
                ledger=view.ledger,
                ledger_complete=self._ledger_complete,
                closed_at=view.closed_at.get(card),
                occupancy=view.occupancy,
                fresh=view.occupancy is not None
                and view.beat_epoch == view.occupancy.epoch
                and view.beat_ms > fresh_from_ms,
            )
            units = view.units(card)
            used = Used(use=use_of(units, seen), workload=workload_on(units, view.ledger))
            state = self.cards[node, card]
            if (state.use, state.workload) != (used.use, used.workload):
                yield from self._judge((node, card), used, now_ms)

    def _told(self, event: Told, now_ms: int) -> Iterator[Effect]:
        key = self._known(event.node, event.card)
        self._node(event.node).told.add(event.card)
        yield from self._judge(key, Fresh(probed=False), now_ms)
        use = Use.BUSY if event.pods else Use.IDLE
        yield from self._judge(key, Used(use=use, workload=",".join(sorted(event.pods))), now_ms)

    def _restored(self, event: Restored, now_ms: int) -> list[Effect]:
        verdict = event.verdict
        view = self._node(verdict.node)
        view.cards[verdict.card] = None
        view.settled.add(verdict.card)
        if verdict.boot_id:
            view.boots[verdict.boot_id] = None
        self._homes.setdefault(verdict.card, verdict.node)
        self._keep((verdict.node, verdict.card), restored(verdict, now_ms=now_ms))
        return []

    def _boot(
        self, node: NodeName, boot_id: str, at_ms: int, now_ms: int, *, told: bool = False
    ) -> Iterator[Effect]:
        """Whoever first names a boot tells every card of the node about it; a card whose boot nobody knows
        takes only a message that was `told` as a boot for another one."""
        view = self._node(node)
        if not boot_id or boot_id in view.boots:
            return
        view.boots[boot_id] = None
        at_ms = min(at_ms or now_ms, now_ms)
        boot = Signal(node=node, card=None, kind=SignalKind.BOOT, boot_id=boot_id, at_ms=at_ms)
        for card in list(view.cards):
            if told or self.cards[node, card].facts.boot_id:
                yield from self._judge((node, card), replace(boot, card=card), now_ms)

    def _closing(self, node: NodeName, card: CardId) -> bool:
        return not self.cards[node, card].opened

    def _at_place(self, node: NodeName, pci: str) -> CardId | None:
        """Who sits, or last sat, at that PCI address."""
        wanted = place(pci)
        if not wanted:
            return None
        there = [
            state for state in self.of_node(node) if place(state.facts.pci) == wanted and not state.parent
        ]
        there.sort(key=lambda state: state.facts.reason("probe:lost") is not None)
        return there[0].card if there else None

    def _node(self, node: NodeName) -> NodeView:
        return self._nodes.setdefault(node, NodeView())

    def _known(self, node: NodeName, card: CardId) -> Key:
        if (node, card) not in self.cards:
            view = self._node(node)
            self._homes[card] = node
            view.cards[card] = None
            boot_id = next(reversed(view.boots), "")
            parent = view.parents.get(card)
            self.cards[node, card] = CardState(
                node=node, card=card, parent=parent, origin=Facts(boot_id=boot_id)
            )
        return node, card

    def _judge(self, key: Key, event: JudgeEvent, now_ms: int) -> Iterator[Effect]:
        before = self.cards[key]
        if self._silent is not None and isinstance(event, Signal):
            self._silent.add(key)
            self.cards[key] = remember(self.policy, before, event)
            return
        breaker = self.breaker
        if self._last_to_fail(key, before, event):
            before = replace(before, common=True)
        state, effects = judge(self.policy, before, event, now_ms=now_ms)
        if state.automatic and not before.automatic and not self._may_leave(key, state, now_ms):
            back = replace(before, held_back=self.breaker.state)
            state, effects = judge(self.policy, back, event, now_ms=now_ms)
        elif before.automatic and not state.automatic:
            self.breaker = limiting.returned(self.breaker, key)
        self._keep(key, state)
        causes = (signal_id(event),) if isinstance(event, Signal) else ()
        for effect in effects:
            yield replace(effect, causes=causes) if isinstance(effect, Transition) else effect
        if self.breaker is not breaker:
            yield BreakerChanged(breaker, self.breaker)
        if state.parent and state.marked and state.facts.gone == DESTROYED and state.verdict:
            self._forget(key, state.verdict)
            yield Forgotten(verdict=state.verdict)
            return
        blind = state.common or state.facts.failures >= BLIND_PROBES
        if blind and isinstance(event, Signal) and event.kind is SignalKind.PROBE:
            yield from self._common_cause(key[0], now_ms)

    def _forget(self, key: Key, last: Verdict) -> None:
        view = self._node(key[0])
        view.forgotten[key[1]] = last
        view.cards.pop(key[1], None)
        view.gone.discard(key[1])
        self._homes.pop(key[1], None)
        self.waiting.discard(key)
        del self.cards[key]

    def _last_to_fail(self, key: Key, before: CardState, event: JudgeEvent) -> bool:
        """Whether with this probe every card of the node fails alike."""
        failing = isinstance(event, Signal) and event.kind is SignalKind.PROBE and event.value in FAILING
        if not failing or before.facts.failures != BLIND_PROBES - 1:
            return False
        own = (key[1], before.parent)
        cards = [state for state in self.of_node(key[0]) if not state.parent]
        others = [state for state in cards if state.card not in own and is_there(state)]
        return bool(others) and all(state.facts.failures >= BLIND_PROBES for state in others)

    def _common_cause(self, node: NodeName, now_ms: int) -> Iterator[Effect]:
        """What every card of a node has at once is nothing of the cards."""
        there = [state for state in self.of_node(node) if is_there(state)]
        cards = [state for state in there if not state.parent]
        alike = len(cards) > 1 and all(state.facts.failures >= BLIND_PROBES for state in cards)
        for state in there:
            if state.common != alike:
                yield from self._judge((node, state.card), Common(alike=alike), now_ms)

    def _may_leave(self, key: Key, state: CardState, now_ms: int) -> bool:
        """Ask the breaker about a card that automation would take out; where nothing is done, nobody asks."""
        if self.policy.mode is Mode.OBSERVE or state.facts.gone:
            return True
        whole = self.cards.get((key[0], state.parent)) if state.parent else None
        if whole and whole.automatic:  # one card is one, however it is divided
            return not whole.held_back
        if self.breaker.state is BreakerState.OPEN:
            return False
        model = state.facts.model
        here = [one for one in self.cards.values() if not (one.facts.gone or one.parent)]
        fleet = Fleet(cards=len(here), pool=sum(one.facts.model == model for one in here))
        reason = fault_of(state.verdict.reasons if state.verdict else ())
        wanted = Taken(node=key[0], card=key[1], reason=reason, model=model, at_ms=now_ms)
        self.breaker, allowed = limiting.asked(self.breaker, self.policy.limits, fleet, wanted)
        return allowed

    def _breaker_acted(self, event: BreakerActed, now_ms: int) -> Iterator[Effect]:
        before = self.breaker
        match event.what:
            case "breaker_open":
                why = event.note or "opened by hand"
                self.breaker = limiting.opened(before, why=why, at_ms=now_ms, by=event.by)
            case "breaker_half_open":
                self.breaker = limiting.half_opened(before, at_ms=now_ms, by=event.by)
            case _:
                self.breaker = limiting.closed(at_ms=now_ms, by=event.by)
        yield BreakerChanged(before, self.breaker)
        yield from self._look_again(now_ms)

    def _trial(self, now_ms: int) -> Iterator[Effect]:
        if now_ms >= limiting.trial_ends_ms(self.breaker, self.policy.limits):
            before, self.breaker = self.breaker, limiting.closed(at_ms=now_ms)
            yield BreakerChanged(before, self.breaker)
        yield from self._look_again(now_ms)

    def _look_again(self, now_ms: int) -> Iterator[Effect]:
        """Nothing that happened meanwhile is replayed: only what stands against a card now counts."""
        for key in sorted(self.waiting, key=lambda key: (self.cards[key].parent is not None, key)):
            state = self.cards[key]
            before = self.breaker
            free = self._may_leave(key, state, now_ms)
            if self.breaker is not before:
                yield BreakerChanged(before, self.breaker)
            by = "" if free else self.breaker.state.value
            if state.held_back != by:
                yield from self._judge(key, HeldBack(by=by), now_ms)

    def _keep(self, key: Key, state: CardState) -> None:
        known = self.cards.get(key)
        self.cards[key] = state
        if state.held_back:
            self.waiting.add(key)
        else:
            self.waiting.discard(key)
        if state.due_ms is not None and (known is None or known.due_ms != state.due_ms):
            heapq.heappush(self._due, (state.due_ms, key))
