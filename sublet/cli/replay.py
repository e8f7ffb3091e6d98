"""`sublet replay`: tells a fresh engine what a scheduler was told, and shows where it decides otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sublet.cli.commands import Commands
from sublet.cli.document import read_text
from sublet.cli.errors import Unreadable
from sublet.cli.output import add_output, print_json, print_table
from sublet.model.errors import BadRequest

if TYPE_CHECKING:
    from sublet_scheduler.core.flight.file import Flight
    from sublet_scheduler.core.flight.replay import Step

SCHEMA = 1
MOST_NAMES = 10
"""So many pods are named where one is not found."""
COLUMNS = ("EVENT", "T", "KIND", "WAS", "NOW")
OF_POD = ("EVENT", "T", "KIND", "DECIDED")


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "replay",
        help="run a scheduler's flight again and show where it differs (offline)",
        description=__doc__,
    )
    parser.add_argument("file", metavar="FILE", help="from the scheduler's /flight; - is standard input")
    parser.add_argument(
        "--pod", metavar="POD", help="show what was decided of this pod as well: its name, or namespace/name"
    )
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 where every decision is the same, 1 where one differs."""
    from sublet_scheduler.core.flight.decisions import text
    from sublet_scheduler.core.flight.file import read_flight
    from sublet_scheduler.core.flight.replay import replay

    text_of_file = read_text(arguments.file)
    try:
        flight = read_flight(text_of_file.splitlines())
        steps = list(replay(flight))
    except BadRequest as error:
        raise Unreadable(error.args[0], source=arguments.file, hint=error.hint) from None
    differences = [step for step in steps if step.differs]
    of_pod = [] if arguments.pod is None else _of(_named(arguments.pod), steps)
    if arguments.pod is not None and not of_pod:
        raise Unreadable(
            f"no such pod in this file: nothing was decided of {_named(arguments.pod)}",
            source=arguments.file,
            hint=_those_there(step.was for step in steps),
        )
    if arguments.output == "json":
        print_json(_document(flight, steps, differences, of_pod))
    else:
        if arguments.pod is not None:
            print_table(OF_POD, [(*_when(step), text(told)) for step, told in of_pod])
        if differences:
            print_table(COLUMNS, [(*_when(one), text(one.was), text(one.decided)) for one in differences])
        decisions = sum(len(step.decided) for step in steps)
        print(f"{len(flight.told)} events, {decisions} decisions, {len(differences)} events differ")
    return 1 if differences else 0


def _named(pod: str) -> str:
    return pod if "/" in pod else f"default/{pod}"


def _those_there(told: Iterable[Sequence[Any]]) -> str:
    names = sorted({one["pod"] for decisions in told for one in decisions if one.get("pod")})
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"It tells of {', '.join(names[:MOST_NAMES])}{more}" if names else "It tells of no pod"


def _of(pod: str, steps: Sequence[Step]) -> list[tuple[Step, list[Any]]]:
    """What the scheduler decided of one pod; a review knows it by the decision that announces it beside."""
    ids = {
        one["decision"] for step in steps for one in step.was if one.get("pod") == pod and "decision" in one
    }
    found = [
        (step, [one for one in step.was if one.get("pod") == pod or one.get("decision") in ids])
        for step in steps
    ]
    return [(step, told) for step, told in found if told]


def _when(step: Step) -> tuple[str, str, str]:
    return (str(step.number), f"{step.now:.3f}", step.event)


def _document(
    flight: Flight,
    steps: Sequence[Step],
    differences: Sequence[Step],
    of_pod: Sequence[tuple[Step, list[Any]]],
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "release": flight.release,
        "events": len(flight.told),
        "decisions": sum(len(step.decided) for step in steps),
        "differences": [
            {"event": one.number, "t": one.now, "kind": one.event, "was": one.was, "now": one.decided}
            for one in differences
        ],
        "pod": [
            {"event": step.number, "t": step.now, "kind": step.event, "decided": told}
            for step, told in of_pod
        ],
    }
