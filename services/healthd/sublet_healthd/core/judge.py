"""The judge of one card: policy, card, event and time in; card and effects out.

The shown state follows from open reasons, hold, presence, occupancy, timers and freshness, which are kept
apart; it is the first that holds in the order of `HealthState`.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from sublet.model.health import Action, HealthState, Mode, OpenReason, Signal, SignalKind, Verdict
from sublet_healthd.core.card import CardState, Use, remember
from sublet_healthd.core.facts import Facts
from sublet_healthd.core.fold import Manual, advance, next_change_ms
from sublet_healthd.core.policy import DEGRADED, HOLD, LOST, Policy

BLIND_PROBES = 3
COMMON_CAUSE = "common_cause"
"""Rule of a card that is unknown because every card of its node fails alike."""
SAYS_NOTHING_OF_THE_CARD = frozenset({SignalKind.BOOT, SignalKind.KMSG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What ledger and occupancy say now; `workload` names who is on the card."""

    use: Use
    workload: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """Somebody is watching; `probed` when that somebody can tell how the card is."""

    probed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Whether every card of the node fails alike, so that it is not this card."""

    alike: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """The breaker lets automation take the card out where `by` is empty, otherwise it does not."""

    by: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


JudgeEvent = Signal | Manual | Used | Fresh | Common | HeldBack | Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The state or the set of reasons has changed: the public should know, once for each `event_id`."""

    event_id: str
    previous: HealthState
    verdict: Verdict
    causes: tuple[str, ...] = ()
    """Ids of the signals that led here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The same judgement with newer details."""

    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A partition that was destroyed, and that nobody can hold any more: nothing is kept of it."""

    verdict: Verdict
    """The last one."""


JudgeEffect = Transition | Refreshed


def judge(
    policy: Policy, state: CardState, event: JudgeEvent, *, now_ms: int
) -> tuple[CardState, tuple[JudgeEffect, ...]]:
    match event:
        case Signal():
            state = remember(policy, state, event)
            if event.kind not in SAYS_NOTHING_OF_THE_CARD:
                probed = state.probed or event.kind is SignalKind.PROBE
                state = replace(state, fresh_ms=now_ms, probed=probed)
        case Manual():
            state = remember(policy, state, event)
        case Used(use=use, workload=workload):
            state = replace(state, use=use, workload=workload)
        case Fresh(probed=probed):
            state = replace(state, fresh_ms=now_ms, probed=state.probed or probed)
            if _only_goes_on(state, now_ms):
                return state, ()
        case Common(alike=alike):
            state = replace(state, common=alike)
        case HeldBack(by=by):
            state = replace(state, held_back=by)
            if not by:  # it took shares until now: the grace period begins
                state = replace(state, marked=False, idle_since_ms=None)
        case Tick():
            pass
        case _:
            assert_never(event)
    return _settle(policy, state, now_ms)


def _only_goes_on(state: CardState, now_ms: int) -> bool:
    """Whether news of being watched can change nothing now: the next timer is ahead and looks again."""
    seen = state.verdict is not None and state.verdict.state is not HealthState.UNKNOWN
    return seen and state.due_ms is not None and state.due_ms > now_ms


def _settle(policy: Policy, state: CardState, now_ms: int) -> tuple[CardState, tuple[JudgeEffect, ...]]:
    facts = advance(policy, state.facts, to_ms=now_ms)
    state = _timers(policy, state, facts, now_ms)
    silent = state.probed and now_ms >= state.fresh_ms + policy.timing.silence_ms
    shown = _shown(state, facts, blind=silent or facts.failures >= BLIND_PROBES)
    takes_shares = state.opened if shown is HealthState.UNKNOWN else shown.accepts_shares
    state = replace(_marked(policy, state, takes_shares, now_ms), opened=takes_shares)
    if shown is HealthState.CONDEMNED and state.marked:
        shown = HealthState.QUARANTINED
    verdict = _verdict(policy, state, facts, shown, now_ms)
    effects = _compare(state.verdict, verdict)
    due_ms = _due(policy, state, facts, silent=silent)
    state = replace(state, due_ms=due_ms)
    for effect in effects:
        state = replace(state, verdict=effect.verdict)
        if isinstance(effect, Transition):
            state = replace(state, event_id=effect.event_id)
    return state, effects


def _timers(policy: Policy, state: CardState, facts: Facts, now_ms: int) -> CardState:
    timing = policy.timing
    leaving = any(reason.leave for reason in facts.reasons)
    faulty = any(reason.leave and reason.id != HOLD.label for reason in facts.reasons)
    flaps, condemned_ms, until_ms = state.flaps, state.condemned_ms, state.probation_until_ms
    if faulty and not state.faulty:
        again = condemned_ms and now_ms - condemned_ms < timing.flap_window_ms
        flaps, condemned_ms = (flaps + 1 if again else 0), now_ms
    if leaving:
        until_ms = 0
    elif state.leaving:
        until_ms = now_ms + min(timing.probation_ms * 2**flaps, timing.probation_most_ms)
    elif until_ms <= now_ms:
        until_ms = 0
    automatic = faulty or (state.automatic and until_ms > 0)
    return replace(
        state,
        leaving=leaving,
        faulty=faulty,
        automatic=automatic,
        held_back=state.held_back if automatic else "",
        flaps=flaps,
        condemned_ms=condemned_ms,
        probation_until_ms=until_ms,
    )


def _shown(state: CardState, facts: Facts, *, blind: bool) -> HealthState:
    if facts.reason(LOST.label):
        return HealthState.LOST
    if facts.reason(HOLD.label):
        return HealthState.HELD
    if state.leaving:
        return HealthState.CONDEMNED
    if state.probation_until_ms:
        return HealthState.RECOVERING
    if any(reason.klass == DEGRADED for reason in facts.reasons):
        return HealthState.SUSPECT
    return HealthState.UNKNOWN if blind else HealthState.HEALTHY


def _marked(policy: Policy, state: CardState, takes_shares: bool, now_ms: int) -> CardState:
    """Count the grace period of an idle card that takes no new shares."""
    if takes_shares or state.use is Use.BUSY:
        return replace(state, idle_since_ms=None, marked=False)
    if state.use is Use.UNCLEAR:
        return replace(state, idle_since_ms=None)
    since_ms = now_ms if state.idle_since_ms is None else state.idle_since_ms
    marked = state.marked or now_ms >= since_ms + policy.timing.idle_grace_ms
    return replace(state, idle_since_ms=since_ms, marked=marked)


def _verdict(policy: Policy, state: CardState, facts: Facts, shown: HealthState, now_ms: int) -> Verdict:
    closing = not state.opened
    held_back = "" if shown is HealthState.HELD else state.held_back  # a person's word needs no breaker
    may_close = policy.mode is not Mode.OBSERVE and not held_back
    may_withhold = policy.mode is Mode.ENFORCE and not held_back
    not_done = [
        *(["close"] if closing and not may_close else []),
        *(["withhold"] if state.marked and not may_withhold else []),
    ]
    return Verdict(
        node=state.node,
        card=state.card,
        state=shown,
        schedulable=not closing or not may_close,
        withheld=state.marked and may_withhold,
        reasons=facts.reasons,
        action=_strongest(facts.reasons),
        at_ms=now_ms,
        policy=policy.label,
        rule=_rule(state, facts, shown),
        not_done=",".join(not_done),
        mode=policy.mode,
        boot_id=facts.boot_id,
        boot_ms=facts.boot_ms,
        reset_ms=facts.reset_ms,
        probation_until_ms=state.probation_until_ms,
        automatic=state.automatic,
        flaps=state.flaps,
        condemned_ms=state.condemned_ms,
        pci=facts.pci,
        serial=facts.serial,
        model=facts.model,
        hold=facts.hold,
        cures=facts.cures,
        acked_ms=facts.acked_ms,
        breaker=state.held_back,
        parent=state.parent,
    )


def _strongest(reasons: tuple[OpenReason, ...]) -> Action:
    order = list(Action)
    return max((reason.action for reason in reasons), key=order.index, default=Action.NONE)


def _rule(state: CardState, facts: Facts, shown: HealthState) -> str:
    """What decided: the row of the policy, or the rule of the judge."""
    match shown:
        case HealthState.LOST:
            return facts.gone or LOST.label
        case HealthState.HELD:
            return HOLD.label
        case HealthState.RECOVERING:
            return "probation"
        case HealthState.UNKNOWN:
            return COMMON_CAUSE if state.common else "silence"
        case HealthState.QUARANTINED | HealthState.CONDEMNED:
            deciding = tuple(reason for reason in facts.reasons if reason.leave)
        case HealthState.SUSPECT:
            deciding = tuple(reason for reason in facts.reasons if reason.klass == DEGRADED)
        case HealthState.HEALTHY:
            deciding = facts.reasons
    strongest = _strongest(deciding)
    return next((reason.id for reason in deciding if reason.action is strongest), "")


def fault_of(reasons: tuple[OpenReason, ...]) -> str:
    """What automation takes a card out for: the reason with the strongest action."""
    faults = tuple(one for one in reasons if one.leave and one.id != HOLD.label)
    strongest = _strongest(faults)
    return next((one.id for one in faults if one.action is strongest), "")


def _compare(before: Verdict | None, now: Verdict) -> tuple[JudgeEffect, ...]:
    if before is None:
        if now.state is HealthState.HEALTHY and not now.reasons:
            return (Refreshed(verdict=replace(now, since_ms=now.at_ms)),)
        return (_transition(HealthState.HEALTHY, replace(now, seq=1, since_ms=now.at_ms)),)
    since_ms = before.since_ms if before.state is now.state else now.at_ms
    now = replace(now, seq=before.seq, since_ms=since_ms)
    if before.state is not now.state or _ids(before) != _ids(now):
        return (_transition(before.state, replace(now, seq=before.seq + 1)),)
    if replace(before, at_ms=now.at_ms, boot_ms=now.boot_ms, events=()) != now:
        return (Refreshed(verdict=now),)
    return ()


def _transition(previous: HealthState, verdict: Verdict) -> Transition:
    """The id carries what the verdict has no place for: the state before."""
    event_id = f"{verdict.node}/{verdict.card}/{verdict.seq}/{previous}/{verdict.at_ms}"
    return Transition(event_id=event_id, previous=previous, verdict=verdict)


def state_before(event_id: str) -> HealthState:
    """Raises ValueError where `event_id` names no transition."""
    return HealthState(event_id.split("/")[-2])


def _ids(verdict: Verdict) -> list[str]:
    return [reason.id for reason in verdict.reasons]


def _due(policy: Policy, state: CardState, facts: Facts, *, silent: bool) -> int | None:
    timing = policy.timing
    times = [
        next_change_ms(policy, facts),
        state.idle_since_ms + timing.idle_grace_ms
        if state.idle_since_ms is not None and not state.marked
        else None,
        state.probation_until_ms or None,
        state.fresh_ms + timing.silence_ms if state.probed and not silent else None,
    ]
    return min((time for time in times if time is not None), default=None)
