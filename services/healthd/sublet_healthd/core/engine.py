"""The judge of the fleet: what agents, ledger and people say in, verdicts out; one card's judge each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from sublet.contract.kernelline import read_line
from sublet.model.card import Card, Heartbeat, Inventory, Vendor
from sublet.model.health import (
    DESTROYED,
    Breaker,
    BreakerState,
    HealthState,
    Mode,
    Signal,
    SignalKind,
    Verdict,
)
from sublet.model.ids import CardId, NodeName, PodRef, PodUid
from sublet.model.placement import LedgerMeta, NodeLedger, Occupancy
from sublet_healthd.core.breaker import Key
from sublet_healthd.core.card import CardState, Use, recalled, restored
from sublet_healthd.core.event import (
    Acted,
    BreakerActed,
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
from sublet_healthd.core.judge import (
    Fresh,
    JudgeEvent,
    Refreshed,
    Tick,
    Used,
)
from sublet_healthd.core.judging import Judging
from sublet_healthd.core.known import Known
from sublet_healthd.core.listing import listed, lost, where
from sublet_healthd.core.nodeview import is_there, stamped
from sublet_healthd.core.policy import LOST, Policy


class Engine:
    """Everything healthd knows, and the only place that changes it. `now_ms` is Unix time."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.known = Known()
        self._judging = Judging(policy, self.known)

    @property
    def cards(self) -> Mapping[Key, CardState]:
        return self.known.cards

    @property
    def breaker(self) -> Breaker:
        return self._judging.breaker

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
                self._judging.ledger_complete = complete
                return list(self._judging.all_uses(now_ms))
            case LedgerLost():
                self._judging.ledger_complete = False
                for _, view in self.known.views():
                    view.ledger = None
                    view.closed_at.clear()
                return list(self._judging.all_uses(now_ms))
            case VerdictsLost():
                return [Refreshed(verdict=one.verdict) for one in self.cards.values() if one.verdict]
            case Restored():
                return self._restored(event, now_ms)
            case Told():
                return list(self._told(event, now_ms))
            case Acted():
                return list(self._acted(event, now_ms))
            case BreakerRestored(breaker=breaker):
                self._judging.breaker = breaker
                return []
            case BreakerActed():
                return list(self._judging.breaker_acted(event, now_ms))
            case Tick():
                return list(self._tick(now_ms))
            case _:
                assert_never(event)

    def due_ms(self) -> int | None:
        """When the next `Tick` is due."""
        breaker_ms = self._judging.due_ms()
        card_ms = self.known.due_ms()
        return min((one for one in (breaker_ms, card_ms) if one is not None), default=None)

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
            for user in self.known.users(node, card)
        }

    def _tick(self, now_ms: int) -> Iterator[Effect]:
        breaker_ms = self._judging.due_ms()
        if breaker_ms is not None and breaker_ms <= now_ms:
            yield from self._judging.trial(now_ms)
        while key := self.known.take_due(now_ms):
            yield from self._judging.uses(key[0], [key[1]], now_ms)
            if key in self.cards:
                yield from self._judging.judge(key, Tick(), now_ms)

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
            case Signal(card=None) if card := self.known.at_place(signal.node, signal.pci):
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
        self._judging.silent = silent
        for signal in signals:
            effects += self._signal(stamped(signal, now_ms), now_ms)
        self._judging.silent = None
        for key in sorted(silent & self.cards.keys()):
            effects += self._judging.judge(key, Tick(), now_ms)
        if self.breaker.state is BreakerState.CLOSED:  # it may have closed when nobody was there to look
            effects += self._judging.look_again(now_ms)
        return effects

    def _about(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        """A signal about one named card; a card seen for the first time may have taken another's place."""
        if signal.card is None:
            return
        if signal.kind is SignalKind.CARD and (signal.node, signal.card) not in self.cards:
            yield from self._replaced(signal, signal.card, now_ms)
            yield from self._moved(signal, signal.card, now_ms)
        instances = self.known.node(signal.node).concerned(signal.card, signal)
        if signal.gi is None or not instances:
            yield from self._judging.judge(self.known.meet(signal.node, signal.card), signal, now_ms)
        for instance in instances:
            told = replace(signal, card=instance, seq=0)
            yield from self._judging.judge(self.known.meet(signal.node, instance), told, now_ms)

    def _replaced(self, signal: Signal, card: CardId, now_ms: int) -> Iterator[Effect]:
        other = self.known.at_place(signal.node, signal.pci)
        if other is not None and other != card:
            gone = lost(signal.node, other, signal.at_ms, why="replaced")
            yield from self._judging.judge((signal.node, other), gone, now_ms)

    def _moved(self, signal: Signal, card: CardId, now_ms: int) -> Iterator[Effect]:
        """A card that sat in another node brings what is known of it; another boot is a reset there too."""
        home = self.known.homes.get(card)
        if home is None or home == signal.node:
            return
        facts = self.cards[home, card].facts
        if facts.serial and signal.serial and facts.serial != signal.serial:
            return
        yield from self._judging.judge((home, card), lost(home, card, signal.at_ms, why="moved"), now_ms)
        known = tuple(one for one in facts.reasons if one.id != LOST.label)
        brought = replace(facts, pci="", reasons=known, gone="", restored=frozenset())
        self.known.meet(signal.node, card)
        self.known.cards[signal.node, card] = CardState(node=signal.node, card=card, origin=brought)

    def _everywhere(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        """Each card of the node gets it; the number counts for the one who sent it, not for each card."""
        if signal.card is not None:
            self.known.meet(signal.node, signal.card)
        for card in list(self.known.node(signal.node).cards):
            yield from self._judging.judge((signal.node, card), replace(signal, card=card, seq=0), now_ms)

    def _kernel_line(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        view = self.known.node(signal.node)
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
        view = self.known.node(seen.node)
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
            yield from self._judging.judge((seen.node, gone), lost(seen.node, gone, at_ms, why=why), now_ms)

    def _instance(
        self, seen: Inventory, card: CardId, part: Card, at_ms: int, now_ms: int
    ) -> Iterator[Effect]:
        """A MIG instance is judged as a card; from the beginning it has what its card has."""
        key, view = (seen.node, part.id), self.known.node(seen.node)
        view.parents[part.id] = card
        if (last := view.forgotten.pop(part.id, None)) is not None:
            self.known.meet(*key)
            self.known.cards[key] = restored(last, now_ms=now_ms)
            view.gone.add(part.id)
        elif key not in self.cards:
            self.known.meet(*key)
            whole = self.cards[seen.node, card]
            facts = whole.facts
            reasons = tuple(one for one in facts.reasons if one.id != LOST.label)
            origin = replace(facts, serial="", gone="", cures=(), reasons=reasons)
            self.known.cards[key] = replace(self.cards[key], origin=origin, probed=whole.probed)
        self.known.cards[key] = replace(self.cards[key], parent=card)
        back = part.id in view.gone
        view.gone.discard(part.id)
        news: JudgeEvent = listed(seen, part, at_ms, back=True) if back else Fresh(probed=False)
        yield from self._judging.judge(key, news, now_ms)

    def _acted(self, event: Acted, now_ms: int) -> Iterator[Effect]:
        """What a person does to a card is done to its partitions."""
        yield from self._judging.judge(self.known.meet(event.node, event.card), event.manual, now_ms)
        for one in self.known.node(event.node).instances.get(event.card, ()):
            key = self.known.meet(event.node, CardId(one.uuid))
            yield from self._judging.judge(key, event.manual, now_ms)

    def _recalled(self, verdict: Verdict, boot_id: str, at_ms: int, now_ms: int) -> Iterator[Effect]:
        """An agent heard it from an earlier life of ours: it counts where nothing else is left of that life,
        and where what is left is older. `boot_id` is the agent's, as of `at_ms`."""
        view = self.known.node(verdict.node)
        key = self.known.meet(verdict.node, verdict.card)
        state = self.cards[key]
        known = state.verdict.seq if state.verdict else 0
        if verdict.card in view.settled and verdict.seq <= known:
            return
        view.settled.add(verdict.card)
        if verdict.boot_id and verdict.boot_id not in view.boots:
            view.boots = {verdict.boot_id: None, **view.boots}
        state_then = recalled(self.policy, state, verdict, now_ms=now_ms)
        self.known.keep(key, state_then)
        for boot, seen_ms in ((state.origin.boot_id, now_ms), (boot_id, at_ms)):
            if boot and boot != self.cards[key].facts.boot_id:
                told = Signal(node=key[0], card=key[1], kind=SignalKind.BOOT, boot_id=boot, at_ms=seen_ms)
                yield from self._judging.judge(key, told, now_ms)
        yield from self._judging.judge(key, Tick(), now_ms)
        if key in self.cards and self.cards[key].verdict == state_then.verdict and state_then.verdict:
            yield Refreshed(verdict=state_then.verdict)  # the judgement is of before, our store knows another

    def _heartbeat(self, beat: Heartbeat, now_ms: int) -> Iterator[Effect]:
        view = self.known.node(beat.node)
        yield from self._boot(beat.node, beat.boot_id, beat.at_ms, now_ms)
        view.beat_ms, view.beat_epoch = now_ms, beat.epoch
        for card in list(view.cards):
            yield from self._judging.judge((beat.node, card), Fresh(probed=True), now_ms)
        yield from self._judging.uses(
            beat.node, [card for card in view.cards if self._closing(beat.node, card)], now_ms
        )

    def _occupancy(self, seen: Occupancy, now_ms: int) -> Iterator[Effect]:
        view = self.known.node(seen.node)
        yield from self._boot(seen.node, seen.boot_id, seen.at_ms, now_ms)
        before, view.occupancy = view.occupancy, seen
        if before is not None and before.epoch != seen.epoch:
            for card in list(view.cards):  # the grace period lies within one agent's life
                yield from self._judging.judge((seen.node, card), Used(use=Use.UNCLEAR), now_ms)
        yield from self._judging.uses(seen.node, view.cards, now_ms)

    def _ledger(self, entry: NodeLedger, now_ms: int) -> Iterator[Effect]:
        view = self.known.node(entry.node)
        view.ledger = entry
        view.closed_at = {card: view.closed_at.get(card, entry.revision) for card in entry.closed}
        yield from self._judging.uses(entry.node, view.cards, now_ms)

    def _told(self, event: Told, now_ms: int) -> Iterator[Effect]:
        key = self.known.meet(event.node, event.card)
        self.known.node(event.node).told.add(event.card)
        yield from self._judging.judge(key, Fresh(probed=False), now_ms)
        use = Use.BUSY if event.pods else Use.IDLE
        yield from self._judging.judge(key, Used(use=use, workload=",".join(sorted(event.pods))), now_ms)

    def _restored(self, event: Restored, now_ms: int) -> list[Effect]:
        verdict = event.verdict
        view = self.known.node(verdict.node)
        view.cards[verdict.card] = None
        view.settled.add(verdict.card)
        if verdict.boot_id:
            view.boots[verdict.boot_id] = None
        self.known.homes.setdefault(verdict.card, verdict.node)
        self.known.keep((verdict.node, verdict.card), restored(verdict, now_ms=now_ms))
        return []

    def _boot(
        self, node: NodeName, boot_id: str, at_ms: int, now_ms: int, *, told: bool = False
    ) -> Iterator[Effect]:
        """Whoever first names a boot tells every card of the node about it; a card whose boot nobody knows
        takes only a message that was `told` as a boot for another one."""
        view = self.known.node(node)
        if not boot_id or boot_id in view.boots:
            return
        view.boots[boot_id] = None
        at_ms = min(at_ms or now_ms, now_ms)
        boot = Signal(node=node, card=None, kind=SignalKind.BOOT, boot_id=boot_id, at_ms=at_ms)
        for card in list(view.cards):
            if told or self.cards[node, card].facts.boot_id:
                yield from self._judging.judge((node, card), replace(boot, card=card), now_ms)

    def _closing(self, node: NodeName, card: CardId) -> bool:
        return not self.cards[node, card].opened
