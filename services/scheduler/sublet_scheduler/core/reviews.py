"""A pod is being created: promise it a place at once where there is one, and remember the promise.

A pod has no UID here and often no name; the decision id names the promise until the pod is seen. What
was promised to a pod that never appears expires.
"""

from dataclasses import replace
from itertools import takewhile

from sublet.model.claim import PodAsk
from sublet.model.ids import DecisionId
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import EXPLANATIONS, Reason, Refusal, RefusalCode
from sublet_scheduler.core.effects import Announce, Answer
from sublet_scheduler.core.events import ReviewAsked
from sublet_scheduler.core.holds import Holds
from sublet_scheduler.core.state import State
from sublet_scheduler.core.waiting import Waiting, newest


class Reviews:
    def __init__(self, state: State, waiting: Waiting, holds: Holds) -> None:
        self._state = state
        self._waiting = waiting
        self._holds = holds

    def answer(self, asked: ReviewAsked, now: float) -> None:
        state = self._state
        id_ = asked.known or asked.decision
        if asked.known is not None:
            promised = state.reservations.get(asked.known)
            if promised is None:
                state.effects.append(Answer(asked.decision, id_, _forged(asked.known)))
                return
            if _same(promised.ask, asked.ask):
                state.effects.append(Answer(asked.decision, id_, promised.outcome))
                return
            state.unreserve(asked.known)
        outcome = self._decide(asked, id_, now)
        if not asked.dry_run and not isinstance(outcome, Refusal):
            state.reserve(id_, asked.ask, outcome, now)
            placed = outcome if isinstance(outcome, Placement) else None
            reasons = outcome.reasons if isinstance(outcome, NoRoom) else {}
            what = "decided" if placed else "held"
            state.effects.append(Announce(what, asked.ask.pod, None, id_, placed, reasons))
        state.effects.append(Answer(asked.decision, id_, outcome))

    def _decide(self, asked: ReviewAsked, id_: DecisionId, now: float) -> Placement | NoRoom | Refusal:
        state, ask = self._state, asked.ask
        if not state.merged:
            outcome: Placement | NoRoom = _only(Reason.UNDECIDED)
        elif asked.foreign_gates:
            outcome = _only(Reason.FOREIGN_GATE)
        elif ask.gang:
            outcome = _only(Reason.GANG_INCOMPLETE)
        elif (
            (state.dirty or self._waiting.passing) and not ask.node_name and self._waiting.anybody_ahead(ask)
        ):
            outcome = _only(Reason.QUEUED)
        else:
            outcome = self._place(ask, id_, now)
        if isinstance(outcome, NoRoom) and ask.node_name:
            return Refusal(
                code=RefusalCode.NODE_CANNOT_TAKE_IT,
                message=f"spec.nodeName={ask.node_name!r} cannot take the pod: {outcome.message}",
                hint="Leave spec.nodeName out, so that the pod can wait and another node can be chosen",
            )
        return outcome

    def _place(self, ask: PodAsk, id_: DecisionId, now: float) -> Placement | NoRoom:
        """A place or why there is none. Where that would take looks at too many nodes, since no pod asked
        like this before, the pod is left to the queue, which goes through them in slices."""
        state = self._state
        placer, most = state.placer, state.rules.looks_a_slice
        avoid = state.avoided(ask.pod, id_, ask.owner, now)
        kept = self._holds.ahead_of(newest(ask))
        outcome: Placement | NoRoom | None = None
        if placer.may_find(ask, most):
            outcome = placer.find(ask, now=now, avoid=avoid, kept=kept)
            if outcome is None and placer.may_refuse(ask, most, now=now):
                outcome = placer.no_room(ask, now=now, avoid=avoid, kept=kept)
        if outcome is None:
            state.dirty = True
            return _only(Reason.QUEUED)
        if isinstance(outcome, Placement):
            return outcome
        words = placer.told(outcome, ask, now=now, avoid=avoid, kept=kept)
        return replace(outcome, message=words)

    def expire(self, now: float) -> None:
        late = takewhile(lambda one: one[1].until <= now, self._state.reservations.items())
        for id_ in [id_ for id_, _ in late]:  # all live equally long, so the oldest come first
            self._state.unreserve(id_)


def _same(one: PodAsk, other: PodAsk) -> bool:
    return (one.claims, one.wishes, one.cpu_milli, one.memory_mib, one.node_name) == (
        other.claims,
        other.wishes,
        other.cpu_milli,
        other.memory_mib,
        other.node_name,
    )


def _only(reason: Reason) -> NoRoom:
    why = EXPLANATIONS[reason]
    return NoRoom(reasons={reason: 1}, message=f"{why.text}; {why.way_out}")


def _forged(known: DecisionId) -> Refusal:
    return Refusal(
        code=RefusalCode.RESERVED_KEY,
        message=f"the pod carries the decision {known[:64]!r}, which was not made for it",
        hint="Remove our annotations, label and gate from the pod; it gets a decision of its own",
    )
