"""`sublet health replay`: what healthd would have judged of a file of observations."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sublet_healthd.core.replay import replay

from sublet.cli.commands import Commands
from sublet.cli.document import read_text
from sublet.cli.errors import Unreadable
from sublet.cli.health.policy import add_policy, read_policy
from sublet.cli.output import add_output, print_line, print_table
from sublet.model.errors import BadRequest
from sublet.model.health import Mode

COLUMNS = ("T", "NODE", "CARD", "FROM", "TO", "KUBELET", "REASONS", "ACTION", "NOT DONE", "RULE")


def register(actions: Commands) -> None:
    parser = actions.add_parser("replay", help="judge a file of observations", description=__doc__)
    parser.add_argument(
        "-f", "--filename", required=True, metavar="FILE", help="JSON lines; - is standard input"
    )
    add_policy(parser)
    parser.add_argument("--mode", choices=tuple(mode.value for mode in Mode), default=Mode.ENFORCE.value)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    policy = replace(read_policy(arguments.policy), mode=Mode(arguments.mode))
    lines = read_text(arguments.filename).splitlines()
    try:
        changes = list(replay(policy, lines))
    except BadRequest as error:
        raise Unreadable(str(error), source=arguments.filename) from None
    if arguments.output == "json":
        for change in changes:
            print_line(change)
    else:
        print_table(COLUMNS, [_row(change) for change in changes])
    return 0


def _row(change: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(change["t"]),
        change["node"],
        change["card"],
        change["from"],
        change["to"],
        change["kubelet"],
        ",".join(change["reasons"]) or "-",
        change["action"],
        change["notDone"] or "-",
        change["rule"] or "-",
    )
