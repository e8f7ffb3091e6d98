"""One observation more: facts and an event in, facts out. Every clear condition is here."""

import re
from dataclasses import dataclass, replace

from sublet.model.health import Action, Hold, OpenReason, Signal, SignalKind
from sublet_healthd.core import level
from sublet_healthd.core.facts import Facts, Sighting
from sublet_healthd.core.nvlink import DECODED, decoded, link_of
from sublet_healthd.core.offender import cured, offending
from sublet_healthd.core.policy import HOLD, LOST, Policy, Rule
from sublet_healthd.core.repeats import class_of, newest, unit_of

SAME_FAULT_MS = 5_000
RECOVERY_ACTION_XID = 154
LINKS_A_CARD = 32
LISTED = "listed"
"""Value of a `card` signal that only says what the card is: agents go on listing a card that is lost."""
_ACTION_TEXT = re.compile(r"recovery action changed from .* to 0x[0-9a-f]+ \(([^)]+)\)", re.IGNORECASE)
_ACTION_WORDS = {
    "none": "none",
    "gpu reset required": "gpu_reset",
    "node reboot required": "node_reboot",
    "drain p2p": "drain_p2p",
    "drain and reset": "drain_and_reset",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """What a person did: `what` is hold, release or ack; `until_ms` ends a hold, 0 does not."""

    what: str
    by: str
    note: str = ""
    at_ms: int
    until_ms: int = 0


Observation = Signal | Manual


def fold(policy: Policy, facts: Facts, event: Observation, *, workload: str) -> Facts:
    """`workload` names who was on the card at that time."""
    facts = advance(policy, facts, to_ms=event.at_ms)
    if isinstance(event, Manual):
        return _manual(facts, event)
    if event.boot_id and event.boot_id != facts.boot_id:
        if facts.boot_id and event.at_ms < facts.boot_ms:
            return facts  # a boot that is over
        facts = _booted(policy, facts, event)
    elif event.boot_id:
        facts = replace(facts, boot_ms=max(facts.boot_ms, event.at_ms))
    return _signal(policy, facts, event, workload)


def advance(policy: Policy, facts: Facts, *, to_ms: int) -> Facts:
    """What time alone does: levels are sampled, counted reasons end, and a hold of which a person has said
    when. It never clears a latched reason of a fault."""
    facts = level.sampled(policy, facts, to_ms=to_ms)
    if facts.hold is not None and facts.hold.until_ms and facts.hold.until_ms <= to_ms:
        facts = _released(facts, at_ms=facts.hold.until_ms)
    late = to_ms - policy.timing.window_ms
    if any(one.clears_on == "time" and one.last_seen_ms <= late for one in facts.reasons):
        return facts.without(lambda one: one.clears_on == "time" and one.last_seen_ms <= late, at_ms=to_ms)
    return facts


def next_change_ms(policy: Policy, facts: Facts) -> int | None:
    """When `advance` would next change something."""
    ends = [one.last_seen_ms + policy.timing.window_ms for one in facts.reasons if one.clears_on == "time"]
    if facts.hold is not None and facts.hold.until_ms:
        ends.append(facts.hold.until_ms)
    sample = level.next_sample_ms(facts)
    return min([*ends, *([] if sample is None else [sample])], default=None)


def _signal(policy: Policy, facts: Facts, signal: Signal, workload: str) -> Facts:
    if signal.driver and signal.driver != facts.driver:
        facts = replace(facts, driver=signal.driver)
    match signal.kind:
        case SignalKind.CARD:
            known = _identified(facts, signal)
            return known if signal.value == LISTED else _present(known, at_ms=signal.at_ms)
        case SignalKind.XID if signal.code == RECOVERY_ACTION_XID and (
            text := _ACTION_TEXT.search(signal.raw)
        ):
            value = _ACTION_WORDS.get(text[1].lower(), text[1].lower().replace(" ", "_"))
            return _recovery_action(policy, facts, value, at_ms=signal.at_ms)
        case SignalKind.XID:
            return _coded(policy, facts, policy.of(facts.model).xid_rule(signal.code), signal, workload)
        case SignalKind.SXID:
            return _coded(policy, facts, policy.of(facts.model).sxid_rule(signal.code), signal, workload)
        case SignalKind.RECOVERY_ACTION:
            return _recovery_action(policy, facts, signal.value, at_ms=signal.at_ms)
        case SignalKind.LEVEL:
            return level.told(policy, facts, signal.name, signal.value, at_ms=signal.at_ms)
        case SignalKind.PROBE:
            return _probe(facts, signal)
        case SignalKind.RESET:
            return _reset(policy, facts, at_ms=signal.at_ms)
        case SignalKind.BOOT | SignalKind.KMSG:
            return facts


def _identified(facts: Facts, signal: Signal) -> Facts:
    """A card that shows another serial number under the same UUID is another card, but for a hold."""
    if facts.serial and signal.serial and facts.serial != signal.serial:
        held = tuple(one for one in facts.reasons if one.id == HOLD.label)
        facts = Facts(
            boot_id=facts.boot_id,
            boot_ms=facts.boot_ms,
            driver=facts.driver,
            reasons=held,
            hold=facts.hold,
            reset_ms=signal.at_ms,
        )
    return replace(
        facts,
        pci=signal.pci or facts.pci,
        serial=signal.serial or facts.serial,
        model=signal.model or facts.model,
    )


def _coded(policy: Policy, facts: Facts, rule: Rule, signal: Signal, workload: str) -> Facts:
    if rule.ignore:
        return facts
    reason_id, at_ms = f"{signal.kind}:{signal.code}", signal.at_ms
    known = facts.reason(reason_id)
    if known and reason_id in facts.restored and at_ms <= known.last_seen_ms:
        return facts  # told before the judge was started anew
    if known is None and (at_ms <= facts.acked_ms or (rule.clears_on == "reset" and at_ms < facts.reset_ms)):
        return facts  # a person has looked at it, or a reset has answered it
    recent = [one for one in facts.sightings if one.at_ms > at_ms - policy.timing.window_ms]
    twin = next((one for one in recent if _same_fault(one, signal)), None)
    unit = unit_of(signal.raw)
    if twin:
        recent[recent.index(twin)] = replace(
            twin, sources=twin.sources | {signal.source}, unit=twin.unit or unit
        )
    else:
        seen = Sighting(
            code=signal.code,
            at_ms=at_ms,
            sources=frozenset({signal.source}),
            workload=workload,
            unit=unit,
        )
        recent.append(seen)
    facts = replace(facts, sightings=newest(recent))
    if signal.kind is SignalKind.XID:
        rule, facts = _decoded(policy, facts, rule, signal)
    rule = offending(policy, facts, rule, reason_id, at_ms=at_ms)
    if not (twin and known and known.count == 1 and signal.raw):  # else it says more of the same one fault
        rule = _never_weaker(rule, known)
    if twin and known and signal.code in DECODED and not signal.raw:
        rule = _as_known(rule, known)  # the same fault in fewer words
    if rule.cancels:
        over = {f"{signal.kind}:{code}" for code in rule.cancels}
        facts = facts.without(lambda one: one.id in over and not one.leave, at_ms=at_ms)
    count = 0 if twin and known else max(signal.count, 1)
    return facts.opened(
        rule,
        reason_id,
        at_ms=at_ms,
        count=count,
        klass=class_of(rule, facts.sightings, signal.code),
        instance=(signal.gi, signal.ci),
    )


def _decoded(policy: Policy, facts: Facts, rule: Rule, signal: Signal) -> tuple[Rule, Facts]:
    link = link_of(signal.code, signal.raw)
    if link is None:
        return rule, facts
    day = [one for one in facts.links if one[1] > signal.at_ms - policy.offender.window_ms]
    before = any(one[0] == link and one[1] < signal.at_ms - SAME_FAULT_MS for one in day)
    found = decoded(policy, rule, signal.code, signal.raw, driver=facts.driver, seen_before=before)
    return found, replace(facts, links=(*day, (link, signal.at_ms))[-LINKS_A_CARD:])


def _never_weaker(rule: Rule, known: OpenReason | None) -> Rule:
    """What takes the card out is not taken back by a later fault of the same code that would not."""
    order = list(Action)
    if known is None or not known.leave:
        return rule
    if rule.leave and order.index(rule.action) > order.index(known.action):
        return rule
    return _as_known(rule, known)


def _as_known(rule: Rule, known: OpenReason) -> Rule:
    return replace(rule, klass=known.klass, action=known.action, leave=known.leave, clears_on=known.clears_on)


def _same_fault(one: Sighting, signal: Signal) -> bool:
    """The same fault told by another way."""
    near = abs(one.at_ms - signal.at_ms) < SAME_FAULT_MS
    return one.code == signal.code and near and signal.source not in one.sources


def _recovery_action(policy: Policy, facts: Facts, value: str, *, at_ms: int) -> Facts:
    """The driver's own word. Back to none after it asked for a reset is the observation of one."""
    rules, reason_id = policy.of(facts.model), f"recovery_action:{value}"
    before = [one for one in facts.reasons if one.kind == "recovery_action"]
    after = facts.without(lambda one: one.kind == "recovery_action" and one.id != reason_id, at_ms=at_ms)
    if value != "none":
        return after.opened(rules.action_rule(value), reason_id, at_ms=at_ms, count=0)
    asked = any(rules.action_rule(one.id.partition(":")[2]).ends_in_reset for one in before)
    done = not any(one.kind == "recovery_action" for one in after.reasons)
    return _reset(policy, after, at_ms=at_ms) if asked and done else after


def _probe(facts: Facts, signal: Signal) -> Facts:
    match signal.value:
        case "ok":
            return _present(facts, at_ms=signal.at_ms)
        case "lost":
            lost = facts.opened(LOST, LOST.label, at_ms=signal.at_ms, count=0)
            return replace(lost, gone=signal.name or facts.gone)
        case _:
            return replace(facts, failures=facts.failures + 1)


def _present(facts: Facts, *, at_ms: int) -> Facts:
    seen = facts.without(lambda one: one.clears_on == "presence", at_ms=at_ms)
    return replace(seen, failures=0, gone=seen.gone if seen.reason(LOST.label) else "")


def _reset(policy: Policy, facts: Facts, *, at_ms: int) -> Facts:
    cleared = _present(facts, at_ms=at_ms).without(
        lambda one: one.clears_on == "reset" and not facts.reads_bad(one), at_ms=at_ms
    )
    cleared = cured(policy, cleared, _gone(facts, cleared), "reset", at_ms=at_ms)
    return replace(cleared, reset_ms=max(facts.reset_ms, at_ms))


def _gone(before: Facts, after: Facts) -> list[OpenReason]:
    left = {one.id for one in after.reasons}
    return [one for one in before.reasons if one.id not in left]


def _booted(policy: Policy, facts: Facts, signal: Signal) -> Facts:
    """Another boot is a reset of the card, a reboot, and the end of what the driver asked for before it.

    What was seen in that boot itself stays, in whatever order boots are told of after a restart of the judge.
    """
    at_ms = signal.at_ms
    now = replace(facts, boot_id=signal.boot_id, boot_ms=at_ms)
    if not facts.boot_id and signal.kind is not SignalKind.BOOT:
        return now
    cleared = now.without(
        lambda one: one.boot_id != signal.boot_id and _ends_with_boot(now, one), at_ms=at_ms
    )
    cleared = cured(policy, cleared, _gone(now, cleared), "reboot", at_ms=at_ms)
    return replace(cleared, failures=0, reset_ms=max(facts.reset_ms, at_ms))


def _ends_with_boot(facts: Facts, reason: OpenReason) -> bool:
    if reason.clears_on == "reset":
        return not facts.reads_bad(reason)
    return reason.clears_on in ("reboot", "presence") or reason.kind == "recovery_action"


def _manual(facts: Facts, event: Manual) -> Facts:
    match event.what:
        case "hold":
            held = facts.opened(HOLD, HOLD.label, at_ms=event.at_ms, count=0)
            return replace(held, hold=Hold(by=event.by, note=event.note, until_ms=event.until_ms))
        case "release":
            return _released(facts, at_ms=event.at_ms)
        case _:
            cleared = facts.without(lambda one: not _stands(facts, one), at_ms=event.at_ms)
            looked_at = {one.id for one in _gone(facts, cleared)}
            cures = tuple(one for one in facts.cures if one.reason not in looked_at)
            return replace(cleared, cures=cures, acked_ms=max(facts.acked_ms, event.at_ms))


def _released(facts: Facts, *, at_ms: int) -> Facts:
    freed = facts.without(lambda one: one.id == HOLD.label, at_ms=at_ms)
    return freed if freed.reason(HOLD.label) else replace(freed, hold=None)


def _stands(facts: Facts, reason: OpenReason) -> bool:
    """A person's word does not undo what can be seen right now, nor a hold."""
    return reason.kind in ("recovery_action", "probe", "manual") or facts.reads_bad(reason)
