"""`sublet health policy`: what healthd makes of each observation, and where that differs from the vendor."""

import argparse
from collections.abc import Iterator
from typing import Any

from sublet_healthd.core.policy import Policy, Rule
from sublet_healthd.core.policyfile import DEFAULT, PRESETS, parse_policy, preset
from sublet_healthd.core.policylint import lint

from sublet.cli.commands import Commands
from sublet.cli.document import read_text
from sublet.cli.errors import Unreadable
from sublet.cli.output import add_output, print_json, print_table
from sublet.model.errors import BadRequest

COLUMNS = ("REASON", "NAME", "CLASS", "ACTION", "LEAVES", "CLEARS ON", "VENDOR", "DIFFERS")


def add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        metavar="PRESET|FILE",
        default=DEFAULT,
        help=f"{', '.join(PRESETS)}, or a file; default: {DEFAULT}",
    )


def read_policy(source: str) -> Policy:
    """Raises Unreadable where `source` is neither a preset nor a file that holds a policy."""
    if source in PRESETS:
        return preset(source)
    text = read_text(source)
    try:
        return parse_policy(text)
    except BadRequest as error:
        raise Unreadable(str(error), source=source) from None


def register(actions: Commands) -> None:
    parser = actions.add_parser("policy", help="show or check a policy", description=__doc__)
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    shown = verbs.add_parser("show", help="the rows of a policy", description="The rows of a policy.")
    shown.add_argument("reasons", nargs="*", metavar="REASON", help="such as xid:79; default: all")
    shown.add_argument("--model", default="", help="as for cards of this model")
    add_policy(shown)
    add_output(shown)
    shown.set_defaults(run=_show)
    checked = verbs.add_parser(
        "lint",
        help="compare a policy with the vendor's own word",
        description="Ends with 1 where a row differs from the vendor's own word and does not say why.",
    )
    add_policy(checked)
    add_output(checked)
    checked.set_defaults(run=_lint)


def _show(arguments: argparse.Namespace) -> int:
    policy = read_policy(arguments.policy)
    known = list(_rules(policy, arguments.model))
    unknown = sorted(set(arguments.reasons) - {rule.label for rule in known})
    if unknown:
        raise Unreadable(
            f"no row for {', '.join(unknown)}",
            source=arguments.policy,
            hint="Without a reason all rows are shown; a code without a row is judged by xid:unknown or "
            "sxid:unknown",
        )
    rules = [rule for rule in known if not arguments.reasons or rule.label in arguments.reasons]
    if arguments.output == "json":
        print_json({"policy": policy.label, "rules": [_document(rule) for rule in rules]})
    else:
        print_table(COLUMNS, [_row(rule) for rule in rules])
    return 0


def _lint(arguments: argparse.Namespace) -> int:
    policy = read_policy(arguments.policy)
    found = lint(policy)
    if arguments.output == "json":
        print_json({"policy": policy.label, "findings": found})
    else:
        name = f"{arguments.policy} ({policy.label})" if arguments.policy in PRESETS else policy.label
        print("\n".join(found) or f"{name}: every difference is explained")
    return 1 if found else 0


def _rules(policy: Policy, model: str) -> Iterator[Rule]:
    rules = policy.of(model)
    yield from (rules.xid[code] for code in sorted(rules.xid))
    yield rules.other_xid
    yield from (rules.sxid[code] for code in sorted(rules.sxid))
    yield rules.other_sxid
    yield from rules.recovery_action.values()
    yield from rules.level.values()


def _leaves(rule: Rule) -> str:
    if rule.ignore:
        return "ignored"
    if rule.repeat is not None:
        return f"suspect from {rule.repeat.count}"
    return "yes" if rule.leave else "no"


def _row(rule: Rule) -> tuple[str, ...]:
    return (
        rule.label,
        rule.name or "-",
        rule.klass,
        rule.action.value,
        _leaves(rule),
        rule.clears_on,
        rule.vendor or "-",
        rule.differs or "-",
    )


def _document(rule: Rule) -> dict[str, Any]:
    return {
        "reason": rule.label,
        "name": rule.name,
        "class": rule.klass,
        "action": rule.action.value,
        "leave": rule.leave,
        "clearsOn": rule.clears_on,
        "ignored": rule.ignore,
        "decoded": rule.decode,
        "cancels": sorted(rule.cancels),
        "suspectFrom": rule.repeat.count if rule.repeat else None,
        "above": rule.above,
        "vendor": rule.vendor,
        "differs": rule.differs,
        "source": rule.source,
    }
