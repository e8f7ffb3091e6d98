"""Polled states of a card: sampled from their last line on, bad when 3 of 5 samples are."""

from dataclasses import replace

from sublet_healthd.core.facts import SAMPLES, Facts, LevelWatch
from sublet_healthd.core.offender import offending
from sublet_healthd.core.policy import Policy, Rule


def read_level(value: str) -> float | None:
    """A level's value as a number; true is 1, and what cannot be read is None."""
    try:
        return {"true": 1.0, "false": 0.0}.get(value.lower()) if value.isalpha() else float(value)
    except ValueError:
        return None


def told(policy: Policy, facts: Facts, name: str, value: str, *, at_ms: int) -> Facts:
    """Take in a line; a level nobody wrote a rule for, or without a readable value, changes nothing."""
    rule, number = policy.of(facts.model).level.get(name), read_level(value)
    if rule is None or number is None or rule.ignore:
        return facts
    bad = number > rule.above
    watch = facts.levels.get(name)
    if watch is not None and watch.bad == bad:
        return facts
    if watch is None:
        known = facts.reason(f"level:{name}") is not None
        watch = LevelWatch(bad=bad, window=(True,) * SAMPLES if known else (), next_ms=at_ms)
    return _sample(policy, facts, name, rule, replace(watch, bad=bad), at_ms=at_ms)


def sampled(policy: Policy, facts: Facts, *, to_ms: int) -> Facts:
    """Take every sample that is due by `to_ms`."""
    rules = policy.of(facts.model).level
    for name in sorted(facts.levels):
        rule = rules.get(name)
        while rule is not None:
            watch = facts.levels[name]
            if watch.settled or watch.next_ms > to_ms:
                break
            facts = _sample(policy, facts, name, rule, watch, at_ms=watch.next_ms)
    return facts


def next_sample_ms(facts: Facts) -> int | None:
    return min((watch.next_ms for watch in facts.levels.values() if not watch.settled), default=None)


def _sample(policy: Policy, facts: Facts, name: str, rule: Rule, watch: LevelWatch, *, at_ms: int) -> Facts:
    watch = watch.sampled(watch.bad, next_ms=at_ms + policy.timing.sample_ms)
    facts = replace(facts, levels={**facts.levels, name: watch})
    reason_id = f"level:{name}"
    known = facts.reason(reason_id)
    if watch.open:
        if known:
            return facts
        return facts.opened(offending(policy, facts, rule, reason_id, at_ms=at_ms), reason_id, at_ms=at_ms)
    if known and (
        rule.clears_on == "level" or (rule.clears_on == "reset" and facts.reset_ms >= known.first_seen_ms)
    ):
        return facts.without(lambda one: one.id == reason_id, at_ms=at_ms)
    return facts
