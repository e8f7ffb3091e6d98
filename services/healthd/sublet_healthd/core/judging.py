"""Judges cards one by one, and asks the breaker before one leaves; what all of a node have is none's own."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sublet.model.health import DESTROYED, Breaker, BreakerState, Mode, Signal, SignalKind, Taken
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core import breaker as limiting
from sublet_healthd.core.breaker import Fleet, Key
from sublet_healthd.core.card import CardState, remember
from sublet_healthd.core.event import BreakerActed, BreakerChanged, Effect
from sublet_healthd.core.idle import Evidence, use_of, workload_on
from sublet_healthd.core.judge import (
    BLIND_PROBES,
    Common,
    Forgotten,
    HeldBack,
    JudgeEvent,
    Transition,
    Used,
    fault_of,
    judge,
)
from sublet_healthd.core.known import Known
from sublet_healthd.core.nodeview import FAILING, is_there, signal_id
from sublet_healthd.core.policy import Policy


class Judging:
    def __init__(self, policy: Policy, known: Known) -> None:
        self.policy = policy
        self.known = known
        self.breaker = Breaker()
        self.ledger_complete = False
        self.silent: set[Key] | None = None
        """While catching up: the cards that took in a signal and are not judged yet."""

    def due_ms(self) -> int | None:
        """When the breaker is to be looked at, Unix ms."""
        return limiting.due_ms(self.breaker, self.policy.limits, waiting=bool(self.known.waiting))

    def judge(self, key: Key, event: JudgeEvent, now_ms: int) -> Iterator[Effect]:
        before = self.known.cards[key]
        if self.silent is not None and isinstance(event, Signal):
            self.silent.add(key)
            self.known.cards[key] = remember(self.policy, before, event)
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
        self.known.keep(key, state)
        causes = (signal_id(event),) if isinstance(event, Signal) else ()
        for effect in effects:
            yield replace(effect, causes=causes) if isinstance(effect, Transition) else effect
        if self.breaker is not breaker:
            yield BreakerChanged(breaker, self.breaker)
        if state.parent and state.marked and state.facts.gone == DESTROYED and state.verdict:
            self.known.forget(key, state.verdict)
            yield Forgotten(verdict=state.verdict)
            return
        blind = state.common or state.facts.failures >= BLIND_PROBES
        if blind and isinstance(event, Signal) and event.kind is SignalKind.PROBE:
            yield from self._common_cause(key[0], now_ms)

    def _last_to_fail(self, key: Key, before: CardState, event: JudgeEvent) -> bool:
        """Whether with this probe every card of the node fails alike."""
        failing = isinstance(event, Signal) and event.kind is SignalKind.PROBE and event.value in FAILING
        if not failing or before.facts.failures != BLIND_PROBES - 1:
            return False
        own = (key[1], before.parent)
        cards = [state for state in self.known.of_node(key[0]) if not state.parent]
        others = [state for state in cards if state.card not in own and is_there(state)]
        return bool(others) and all(state.facts.failures >= BLIND_PROBES for state in others)

    def _common_cause(self, node: NodeName, now_ms: int) -> Iterator[Effect]:
        """What every card of a node has at once is nothing of the cards."""
        there = [state for state in self.known.of_node(node) if is_there(state)]
        cards = [state for state in there if not state.parent]
        alike = len(cards) > 1 and all(state.facts.failures >= BLIND_PROBES for state in cards)
        for state in there:
            if state.common != alike:
                yield from self.judge((node, state.card), Common(alike=alike), now_ms)

    def _may_leave(self, key: Key, state: CardState, now_ms: int) -> bool:
        """Ask the breaker about a card that automation would take out; where nothing is done, nobody asks."""
        if self.policy.mode is Mode.OBSERVE or state.facts.gone:
            return True
        whole = self.known.cards.get((key[0], state.parent)) if state.parent else None
        if whole and whole.automatic:  # one card is one, however it is divided
            return not whole.held_back
        if self.breaker.state is BreakerState.OPEN:
            return False
        model = state.facts.model
        here = [one for one in self.known.cards.values() if not (one.facts.gone or one.parent)]
        fleet = Fleet(cards=len(here), pool=sum(one.facts.model == model for one in here))
        reason = fault_of(state.verdict.reasons if state.verdict else ())
        wanted = Taken(node=key[0], card=key[1], reason=reason, model=model, at_ms=now_ms)
        self.breaker, allowed = limiting.asked(self.breaker, self.policy.limits, fleet, wanted)
        return allowed

    def breaker_acted(self, event: BreakerActed, now_ms: int) -> Iterator[Effect]:
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
        yield from self.look_again(now_ms)

    def trial(self, now_ms: int) -> Iterator[Effect]:
        if now_ms >= limiting.trial_ends_ms(self.breaker, self.policy.limits):
            before, self.breaker = self.breaker, limiting.closed(at_ms=now_ms)
            yield BreakerChanged(before, self.breaker)
        yield from self.look_again(now_ms)

    def look_again(self, now_ms: int) -> Iterator[Effect]:
        """Nothing that happened meanwhile is replayed: only what stands against a card now counts."""
        cards = self.known.cards
        for key in sorted(self.known.waiting, key=lambda key: (cards[key].parent is not None, key)):
            state = cards[key]
            before = self.breaker
            free = self._may_leave(key, state, now_ms)
            if self.breaker is not before:
                yield BreakerChanged(before, self.breaker)
            by = "" if free else self.breaker.state.value
            if state.held_back != by:
                yield from self.judge(key, HeldBack(by=by), now_ms)

    def uses(self, node: NodeName, cards: Iterable[CardId], now_ms: int) -> Iterator[Effect]:
        view = self.known.node(node)
        fresh_from_ms = now_ms - self.policy.timing.heartbeat_fresh_ms
        for card in [card for card in cards if card not in view.told]:
            seen = Evidence(
                ledger=view.ledger,
                ledger_complete=self.ledger_complete,
                closed_at=view.closed_at.get(card),
                occupancy=view.occupancy,
                fresh=view.occupancy is not None
                and view.beat_epoch == view.occupancy.epoch
                and view.beat_ms > fresh_from_ms,
            )
            units = view.units(card)
            used = Used(use=use_of(units, seen), workload=workload_on(units, view.ledger))
            state = self.known.cards[node, card]
            if (state.use, state.workload) != (used.use, used.workload):
                yield from self.judge((node, card), used, now_ms)

    def all_uses(self, now_ms: int) -> Iterator[Effect]:
        for node, view in self.known.views():
            yield from self.uses(node, view.cards, now_ms)
