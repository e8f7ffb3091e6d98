"""Repeat offenders: a card that was cured of the same reason again and again needs a person."""

from collections.abc import Iterable
from dataclasses import replace

from sublet.model.health import Action, Cure, OpenReason
from sublet_healthd.core.facts import Facts
from sublet_healthd.core.policy import Policy, Rule

CURES_A_CARD = 32
"""The oldest go first; far more than any threshold needs."""


def offending(policy: Policy, facts: Facts, rule: Rule, reason_id: str, *, at_ms: int) -> Rule:
    """`rule` for a reason that opens at `at_ms`: after too many cures only an acknowledgement clears it."""
    if not rule.leave:
        return rule
    counted = [
        one.how
        for one in facts.cures
        if one.reason == reason_id and at_ms - policy.offender.window_ms < one.at_ms <= at_ms
    ]
    often = policy.offender
    if counted.count("reset") < often.resets and counted.count("reboot") < often.reboots:
        return rule
    order = list(Action)
    action = max(rule.action, Action.INSPECT, key=order.index)
    return replace(rule, action=action, clears_on="manual")


def cured(policy: Policy, facts: Facts, gone: Iterable[OpenReason], how: str, *, at_ms: int) -> Facts:
    """Remember what took back reasons for which the card had left."""
    found = [Cure(reason=one.id, how=how, at_ms=at_ms) for one in gone if one.leave and one.kind != "probe"]
    fresh = [one for one in found if one not in facts.cures]  # what is told again was counted before
    if not fresh:
        return facts
    kept = [one for one in facts.cures if one.at_ms > at_ms - policy.offender.window_ms]
    return replace(facts, cures=tuple((*kept, *fresh)[-CURES_A_CARD:]))
