"""Compares a policy with the vendor's own word: a row may differ, but not silently."""

from collections.abc import Iterator

from sublet.model.health import Action
from sublet_healthd.core.policy import Policy, Rule, Rules

WORDS = {
    "RESTART_APP": (Action.RESTART_APP, False),
    "IGNORE": (Action.NONE, False),
    "RESET_GPU": (Action.RESET_GPU, True),
    "RESTART_VM": (Action.REBOOT_NODE, True),
    "RESTART_BM": (Action.REBOOT_NODE, True),
    "UPDATE_SWFW": (Action.INSPECT, False),
    "CHECK_MECHANICALS": (Action.INSPECT, True),
    "CHECK_UVM": (Action.INSPECT, False),
    "CONTACT_SUPPORT": (Action.INSPECT, True),
    "": (Action.NONE, False),
}
"""The vendor's immediate action: ours, and whether the card leaves scheduling; empty: it says nothing."""
WORKFLOWS = ("WORKFLOW_", "XID_154")
"""Begin words that name a procedure: a row has to say what it makes of it."""


def lint(policy: Policy) -> list[str]:
    """What is wrong, a line each; empty where every difference is explained."""
    found = list(_rules(policy.rules, ""))
    for model, rules in policy.products:
        found += [one for one in _rules(rules, f" for {model}") if one not in found]
    return found


def _rules(rules: Rules, where: str) -> Iterator[str]:
    for rule in (*(rules.xid[code] for code in sorted(rules.xid)), rules.other_xid):
        if complaint := _complaint(rule):
            yield f"{rule.label}{where}: {complaint}"
    for name, one in (*rules.recovery_action.items(), *rules.level.items()):
        if one.leave and one.action is Action.NONE:
            yield f"{name}{where}: takes the card out and advises nothing"


def _complaint(rule: Rule) -> str:
    if rule.leave and rule.action is Action.NONE:
        return "takes the card out and advises nothing"
    if rule.differs:
        return ""
    if rule.vendor.startswith(WORKFLOWS):
        return f"the vendor says {rule.vendor}; write in `differs` what the row makes of it"
    if rule.vendor not in WORDS:
        return f"vendor={rule.vendor!r} is no word of the vendor's"
    action, leave = WORDS[rule.vendor]
    said = rule.vendor or "nothing"
    if rule.action is not action:
        return f"action {rule.action} where the vendor says {said}, which is {action}; say why in `differs`"
    if rule.leave is not leave:
        return f"leave {rule.leave} where the vendor says {said}; say why in `differs`".lower()
    return ""
