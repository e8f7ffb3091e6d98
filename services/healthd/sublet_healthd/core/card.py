"""One card as the judge keeps it: observations in their own order, and what depends on the judge's time."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from sublet.model.health import DESTROYED, HealthState, Signal, SignalKind, Verdict
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core.facts import Facts
from sublet_healthd.core.fold import Observation, fold
from sublet_healthd.core.policy import HOLD, Policy

REMEMBERED = 16
GONE = ("replaced", "moved", DESTROYED)
"""Rules of what is lost without a fault: another card sits in its place, it sits elsewhere, or it was a
partition and its card is divided differently now."""


class Use(StrEnum):
    """What ledger and occupancy together prove about a card."""

    IDLE = "idle"
    BUSY = "busy"
    UNCLEAR = "unclear"  # counts as in use, but is no proof that somebody came


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    event: Observation
    workload: str
    after: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """`origin` and `log` hold the observations: the newest ones stay apart, so that one that arrives late
    is put where it belongs. The rest is what the judge made of them and when."""

    node: NodeName
    card: CardId
    parent: CardId | None = None
    """Of a partition: the card that it is part of."""
    origin: Facts = field(default_factory=Facts)
    log: tuple[Entry, ...] = ()
    forgot: bool = False
    """Observations older than the log are part of `origin`."""
    use: Use = Use.UNCLEAR
    workload: str = ""
    idle_since_ms: int | None = None
    marked: bool = False
    """Idle for the whole grace period while it took no new shares; only a sign of use undoes it."""
    leaving: bool = False
    faulty: bool = False
    automatic: bool = False
    """Takes no new shares, or would not, by faults and the probation after them; not by a person's hold."""
    held_back: str = ""
    """The state of the breaker that keeps it in scheduling all the same, until there is nothing left to take
    it out for."""
    common: bool = False
    """Every card of the node fails alike: it is not this card."""
    condemned_ms: int = 0
    probation_until_ms: int = 0
    flaps: int = 0
    probed: bool = False
    fresh_ms: int = 0
    opened: bool = True
    """Whether it took new shares when there last was data."""
    verdict: Verdict | None = None
    event_id: str = ""
    """Names the newest transition; empty where an earlier life is known to have published it."""
    due_ms: int | None = None
    """When time alone next changes something."""

    @property
    def facts(self) -> Facts:
        """After the newest observation, before what time has done since."""
        return self.log[-1].after if self.log else self.origin


def remember(policy: Policy, state: CardState, event: Observation) -> CardState:
    """Put an observation where it belongs among the others; one that is there already changes nothing."""
    log = list(state.log)
    if any(entry.event == event for entry in log):
        return state
    place = len(log)
    while place and _later(log[place - 1].event, event):
        place -= 1
    if place == 0 and state.forgot:
        if not _still_counts(policy, state.facts, event):
            return state
        place = len(log)
    if place == len(log) and log and _says_the_same(log[-1].event, event):
        place -= 1
        log.pop()
    facts = log[place - 1].after if place else state.origin
    redone = [(event, state.workload), *((entry.event, entry.workload) for entry in log[place:])]
    del log[place:]
    for one, workload in redone:
        facts = fold(policy, facts, one, workload=workload)
        log.append(Entry(event=one, workload=workload, after=facts))
    if len(log) > REMEMBERED:
        return replace(state, origin=log[0].after, log=tuple(log[1:]), forgot=True)
    return replace(state, log=tuple(log))


def restored(verdict: Verdict, *, now_ms: int) -> CardState:
    """The card as an earlier judge left it. Nobody has told of its use yet."""
    facts = Facts(
        pci=verdict.pci,
        serial=verdict.serial,
        model=verdict.model,
        boot_id=verdict.boot_id,
        boot_ms=verdict.boot_ms,
        reset_ms=verdict.reset_ms,
        reasons=verdict.reasons,
        restored=frozenset(reason.id for reason in verdict.reasons),
        hold=verdict.hold,
        cures=verdict.cures,
        acked_ms=verdict.acked_ms,
        gone=verdict.rule if verdict.rule in GONE else "",
    )
    blind = verdict.state is HealthState.UNKNOWN
    leave = [reason for reason in verdict.reasons if reason.leave]
    return CardState(
        node=verdict.node,
        card=verdict.card,
        parent=verdict.parent,
        origin=facts,
        automatic=verdict.automatic,
        held_back=verdict.breaker,
        marked=verdict.withheld or verdict.state is HealthState.QUARANTINED,
        leaving=bool(leave),
        faulty=any(reason.id != HOLD.label for reason in leave),
        condemned_ms=verdict.condemned_ms,
        probation_until_ms=verdict.probation_until_ms,
        flaps=verdict.flaps,
        probed=True,
        fresh_ms=0 if blind else now_ms,
        opened=verdict.schedulable if blind else verdict.state.accepts_shares,
        verdict=replace(verdict, events=(), term=0),
        event_id=next(iter(verdict.events), ""),
        due_ms=now_ms,
    )


def recalled(policy: Policy, state: CardState, verdict: Verdict, *, now_ms: int) -> CardState:
    """Put what `verdict`, of an earlier life, says of the card before everything that was heard since."""
    before = restored(replace(verdict, events=()), now_ms=now_ms)
    origin = _joined(before.origin, state.origin) if state.forgot else before.origin
    facts, log = origin, []
    for entry in state.log:
        facts = fold(policy, facts, entry.event, workload=entry.workload)
        log.append(replace(entry, after=facts))
    found = replace(
        before,
        parent=state.parent or before.parent,
        origin=origin,
        log=tuple(log),
        forgot=state.forgot,
        use=state.use,
        workload=state.workload,
        idle_since_ms=state.idle_since_ms,
        fresh_ms=max(before.fresh_ms, state.fresh_ms),
    )
    live = state.verdict
    if live is None or live.seq == 0:
        return found
    return replace(
        found,
        marked=state.marked or before.marked,
        probation_until_ms=max(state.probation_until_ms, before.probation_until_ms),
        flaps=max(state.flaps, before.flaps),
        verdict=replace(live, seq=max(live.seq, verdict.seq)),
        event_id=state.event_id,
    )


def _joined(before: Facts, since: Facts) -> Facts:
    """Where the observations of `since` are gone, a reset among them still answers what it answers."""
    stands = [
        one
        for one in before.reasons
        if since.reason(one.id) is None and (one.clears_on != "reset" or one.last_seen_ms > since.reset_ms)
    ]
    joined = tuple(sorted((*since.reasons, *stands), key=lambda one: one.id))
    return replace(
        since,
        boot_id=before.boot_id or since.boot_id,
        boot_ms=0,
        reasons=joined,
        restored=since.restored | {one.id for one in stands},
        hold=since.hold or before.hold,
        acked_ms=max(since.acked_ms, before.acked_ms),
        cures=tuple(sorted({*before.cures, *since.cures}, key=lambda one: one.at_ms)),
    )


def _later(one: Observation, other: Observation) -> bool:
    """By the number that one agent gives its signals where both have one, else by time."""
    if (
        isinstance(one, Signal)
        and isinstance(other, Signal)
        and one.seq
        and other.seq
        and one.epoch == other.epoch
    ):
        return one.seq > other.seq
    return one.at_ms > other.at_ms


def _says_the_same(one: Observation, other: Observation) -> bool:
    """Two answers of a card in a row are one newer answer."""
    return all(
        isinstance(event, Signal) and event.kind is SignalKind.PROBE and event.value == "ok"
        for event in (one, other)
    ) and (getattr(one, "boot_id", "") == getattr(other, "boot_id", ""))


def _still_counts(policy: Policy, facts: Facts, event: Observation) -> bool:
    """Of what comes very late, only a fault that no reset has answered since, or a person's word."""
    if not isinstance(event, Signal):
        return True
    if event.kind is SignalKind.XID:
        rule = policy.of(facts.model).xid_rule(event.code)
    elif event.kind is SignalKind.SXID:
        rule = policy.of(facts.model).sxid_rule(event.code)
    else:
        return False
    answered_ms = max(facts.reset_ms, facts.acked_ms)
    return rule.leave and event.at_ms > answered_ms and not facts.reason(f"{event.kind}:{event.code}")
