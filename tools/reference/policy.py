"""The health policy that comes with healthd."""

import dataclasses
from collections.abc import Mapping
from itertools import pairwise

from sublet_healthd.core.policy import Limits, Offender, Rule, Timing
from sublet_healthd.core.policyfile import PRESETS, shipped_policy

from sublet.model.health import Action, HealthState, Mode
from tools.reference.page import code, codes, page, table

STATES = {
    HealthState.LOST: ("no", "withheld when idle", "the driver does not list the card"),
    HealthState.HELD: ("no", "withheld when idle", "put aside by a person"),
    HealthState.QUARANTINED: ("no", "withheld", "a latched reason, and idle"),
    HealthState.CONDEMNED: ("no", "as healthy", "a latched reason, and still in use"),
    HealthState.RECOVERING: (
        "no",
        "withheld; as healthy while a pod is on it",
        "all reasons cleared, probation",
    ),
    HealthState.SUSPECT: ("yes", "as healthy", "signals below a threshold"),
    HealthState.UNKNOWN: ("as before", "as before", "no data; a latched reason outranks it"),
    HealthState.HEALTHY: ("yes", "as healthy", ""),
}
MODES = {
    Mode.ENFORCE: "no new shares, and idle cards are withheld from the kubelet",
    Mode.GUARD: "no new shares; the kubelet is told nothing",
    Mode.OBSERVE: "verdicts are published, nothing is done",
}
COLUMNS = (
    "codes",
    "name",
    "class",
    "action",
    "leaves scheduling",
    "clears on",
    "NVIDIA's own word",
    "why it differs",
)


def render() -> str:
    policy = shipped_policy()
    return page(
        "Health: states, modes, policy",
        "## States",
        "The state shown is the first that holds.",
        table(
            ("state", "new shares", "kubelet sees", "means"),
            ((code(one), *STATES[one]) for one in HealthState),
        ),
        "## Modes",
        "Set with `SUBLET_MODE`.",
        table(("mode", "does"), ((code(one), MODES[one]) for one in Mode)),
        "## Actions",
        f"Sublet names what the vendor advises and leaves it to people; weakest first: {codes(Action)}.",
        f"## Policy {policy.label}",
        f"The preset `catalogue`. `SUBLET_POLICY` names another of {codes(PRESETS)} or a file "
        "([how](../howto/health-policy.md)), and `sublet health replay --policy FILE` tries it on recorded "
        "observations. A code that is not listed is a warning and nothing more.",
        "### XID",
        _coded(policy.rules.xid),
        "### SXID (NVSwitch)",
        _coded(policy.rules.sxid),
        "### Recovery action, as the driver reports it",
        _named("value", policy.rules.recovery_action),
        "### Levels, polled; debounced 3 of 5 samples",
        _named("name", policy.rules.level, above=True),
        "### Breaker and repeat offenders",
        table(
            ("limit", "value"), (*_numbers("breaker", policy.limits), *_numbers("offender", policy.offender))
        ),
        "### Delays",
        table(("delay", "s"), _delays(policy.timing)),
    )


def _coded(rules: Mapping[int, Rule]) -> str:
    alike: dict[Rule, list[int]] = {}
    for number, rule in sorted(rules.items()):
        alike.setdefault(dataclasses.replace(rule, label=""), []).append(number)
    rows = (
        (_ranges(numbers), rule.name, *_judged(rule), code(rule.vendor), rule.differs)
        for rule, numbers in alike.items()
    )
    return table(COLUMNS, rows)


def _judged(rule: Rule) -> tuple[str, ...]:
    leaves = "yes" if rule.leave else "no"
    if rule.ignore:
        leaves = "no; only noted"
    elif rule.repeat:
        by = " from different pods" if rule.repeat.distinct_workloads else ""
        by += " in the same part of the card" if rule.repeat.same_unit else ""
        leaves = f"no; suspect from {rule.repeat.count} times{by} on"
    elif rule.decode:
        leaves += "; where the kernel's line says more, that counts"
    return (rule.klass, code(rule.action), leaves, rule.clears_on)


def _named(key: str, rules: Mapping[str, Rule], *, above: bool = False) -> str:
    columns = (key, *(["bad above"] if above else []), *COLUMNS[2:6])
    return table(
        columns,
        (
            (code(name), *([f"{rule.above:g}"] if above else []), *_judged(rule))
            for name, rule in rules.items()
        ),
    )


def _ranges(numbers: list[int]) -> str:
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after != before + 1)]
    ends = [*(before for before, after in pairwise(numbers) if after != before + 1), numbers[-1]]
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _numbers(section: str, of: Limits | Offender) -> list[tuple[str, str]]:
    """As the policy writes them: times in seconds."""
    return [
        (
            code(f"{section}.{name.replace('_ms', '_s')}"),
            f"{value / 1000 if name.endswith('_ms') else value:g}",
        )
        for name, value in dataclasses.asdict(of).items()
    ]


def _delays(timing: Timing) -> list[tuple[str, str]]:
    fields = dataclasses.asdict(timing)
    return [(code(name.removesuffix("_ms")), f"{value / 1000:g}") for name, value in fields.items()]
