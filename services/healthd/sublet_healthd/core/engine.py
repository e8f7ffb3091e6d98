"""The judge of the fleet: what agents, ledger and people say in, verdicts out; one card's judge each."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from sublet.model.card import Card, Heartbeat, Inventory
from sublet.model.health import Signal, SignalKind, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import LedgerMeta, NodeLedger, Occupancy
from sublet_healthd.core.card import CardState, Use, recalled, remember, restored
from sublet_healthd.core.facts import Facts
from sublet_healthd.core.fold import Manual
from sublet_healthd.core.idle import Evidence, use_of, workload_on
from sublet_healthd.core.judge import Fresh, JudgeEffect, JudgeEvent, Refreshed, Tick, Transition, Used, judge
from sublet_healthd.core.kmsg import Named, place, read_line
from sublet_healthd.core.listing import listed, lost, where
from sublet_healthd.core.policy import Policy

Key = tuple[NodeName, CardId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A verdict of an earlier life; comes before everything else about its card."""

    verdict: Verdict
    holder: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who is on a card, from somebody who speaks for ledger, kubelet and processes together."""

    node: NodeName
    card: CardId
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """A person held, released or acknowledged a card."""

    node: NodeName
    card: CardId
    manual: Manual


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Signals of the recent past, in order; those that were judged before change nothing, the others are
    judged together, so that no state in between is shown again."""

    signals: tuple[Signal, ...]


@dataclass(frozen=True, slots=True)
class LedgerLost:
    """The ledger was created anew: nothing that was read of it counts any more."""


@dataclass(frozen=True, slots=True)
class VerdictsLost:
    """The store of verdicts was created anew and needs all of them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """A fault whose card nobody can name; it blames no card."""

    signal: Signal


Event = (
    Signal
    | CaughtUp
    | Inventory
    | Heartbeat
    | Occupancy
    | NodeLedger
    | LedgerMeta
    | LedgerLost
    | VerdictsLost
    | Restored
    | Told
    | Acted
    | Tick
)
Effect = Transition | Refreshed | Unnamed


@dataclass(slots=True)
class _Node:
    """What is known of one node as a whole."""

    cards: dict[CardId, None] = field(default_factory=dict)
    listed: dict[CardId, Card] = field(default_factory=dict)
    gone: set[CardId] = field(default_factory=set)
    boots: dict[str, None] = field(default_factory=dict)
    ledger: NodeLedger | None = None
    closed_at: dict[CardId, int] = field(default_factory=dict)
    occupancy: Occupancy | None = None
    beat_ms: int = 0
    beat_epoch: str = ""
    told: set[CardId] = field(default_factory=set)
    named: Named | None = None
    settled: set[CardId] = field(default_factory=set)
    """Cards whose past is known: from a store of ours, or because their agent has said what it knows."""


class Engine:
    """Everything healthd knows, and the only place that changes it. `now_ms` is Unix time."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.cards: dict[Key, CardState] = {}
        self._nodes: dict[NodeName, _Node] = {}
        self._ledger_complete = False
        self._due: list[tuple[int, Key]] = []
        self._silent: set[Key] | None = None
        """While catching up: the cards that took in a signal and are not judged yet."""

    def handle(self, event: Event, *, now_ms: int) -> list[Effect]:
        """Take one event in and return what the shell must do, in order."""
        match event:
            case Signal():
                return list(self._signal(_stamped(event, now_ms), now_ms))
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
            case Acted(node=node, card=card, manual=manual):
                return list(self._judge(self._known(node, card), manual, now_ms))
            case Tick():
                return list(self._tick(now_ms))
            case _:
                assert_never(event)

    def due_ms(self) -> int | None:
        """When the next `Tick` is due."""
        while self._due:
            due_ms, key = self._due[0]
            if self.cards[key].due_ms == due_ms:
                return due_ms
            heapq.heappop(self._due)
        return None

    def of_node(self, node: NodeName) -> list[CardState]:
        view = self._nodes.get(node)
        return [self.cards[node, card] for card in sorted(view.cards)] if view else []

    def listed(self, node: NodeName, card: CardId) -> Card | None:
        """The card as its agent describes it."""
        view = self._nodes.get(node)
        return view.listed.get(card) if view else None

    def nodes(self) -> list[NodeName]:
        return sorted(self._nodes)

    def _tick(self, now_ms: int) -> Iterator[Effect]:
        while (due_ms := self.due_ms()) is not None and due_ms <= now_ms:
            _, key = heapq.heappop(self._due)
            yield from self._uses(key[0], [key[1]], now_ms)
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
            effects += self._signal(_stamped(signal, now_ms), now_ms)
        self._silent = None
        for key in sorted(silent):
            effects += self._judge(key, Tick(), now_ms)
        return effects

    def _about(self, signal: Signal, now_ms: int) -> Iterator[Effect]:
        """A signal about one named card; a card seen for the first time may have taken another's place."""
        if signal.card is None:
            return
        if signal.kind is SignalKind.CARD and signal.pci:
            yield from self._replaced(signal, signal.card, now_ms)
        yield from self._judge(self._known(signal.node, signal.card), signal, now_ms)

    def _replaced(self, signal: Signal, card: CardId, now_ms: int) -> Iterator[Effect]:
        if (signal.node, card) in self.cards:
            return
        other = self._at_place(signal.node, signal.pci)
        if other is not None:
            yield from self._judge((signal.node, other), lost(signal.node, other, signal.at_ms), now_ms)

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
            told = replace(signal, kind=line.kind, code=line.code, pci=line.pci, source="kmsg", card=None)
            yield from self._signal(told, now_ms)

    def _inventory(self, seen: Inventory, now_ms: int) -> Iterator[Effect]:
        view = self._node(seen.node)
        yield from self._boot(seen.node, seen.boot_id, seen.at_ms, now_ms)
        at_ms = min(seen.at_ms or now_ms, now_ms)
        for verdict in seen.verdicts:
            if verdict.node == seen.node:
                yield from self._recalled(verdict, seen.boot_id, at_ms, now_ms)
        view.settled |= {card.id for card in seen.cards}
        for card in seen.cards:
            before, view.listed[card.id] = view.listed.get(card.id), card
            back = card.id in view.gone
            view.gone.discard(card.id)
            if back or before is None or where(before) != where(card):
                yield from self._about(listed(seen, card, at_ms, back=back), now_ms)
        there = {card.id for card in seen.cards}
        for gone in [card for card in view.cards if card not in there and card not in view.gone]:
            view.gone.add(gone)
            yield from self._judge((seen.node, gone), lost(seen.node, gone, at_ms), now_ms)

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
        if self.cards[key].verdict == state_then.verdict and state_then.verdict:
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
            used = Used(use=use_of(card, seen), workload=workload_on(card, view.ledger))
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
        state = restored(verdict, now_ms=now_ms, holder=event.holder, note=event.note)
        self._keep((verdict.node, verdict.card), state)
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
        there = [state for state in self.of_node(node) if place(state.facts.pci) == wanted]
        there.sort(key=lambda state: state.facts.reason("probe:lost") is not None)
        return there[0].card if there else None

    def _node(self, node: NodeName) -> _Node:
        return self._nodes.setdefault(node, _Node())

    def _known(self, node: NodeName, card: CardId) -> Key:
        if (node, card) not in self.cards:
            view = self._node(node)
            view.cards[card] = None
            boot_id = next(reversed(view.boots), "")
            self.cards[node, card] = CardState(node=node, card=card, origin=Facts(boot_id=boot_id))
        return node, card

    def _judge(self, key: Key, event: JudgeEvent, now_ms: int) -> Iterator[JudgeEffect]:
        if self._silent is not None and isinstance(event, Signal):
            self._silent.add(key)
            self.cards[key] = remember(self.policy, self.cards[key], event)
            return
        state, effects = judge(self.policy, self.cards[key], event, now_ms=now_ms)
        self._keep(key, state)
        yield from effects

    def _keep(self, key: Key, state: CardState) -> None:
        known = self.cards.get(key)
        self.cards[key] = state
        if state.due_ms is not None and (known is None or known.due_ms != state.due_ms):
            heapq.heappush(self._due, (state.due_ms, key))


def _stamped(signal: Signal, now_ms: int) -> Signal:
    """An observation cannot be of later: a node's clock that runs ahead must not stretch timers."""
    return replace(signal, at_ms=min(signal.at_ms or now_ms, now_ms))
