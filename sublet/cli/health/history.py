"""`sublet health history CARD`: what became of a card, what people did to it, and why."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from sublet.cli import reaching
from sublet.cli.commands import Commands
from sublet.cli.events import event_document
from sublet.cli.output import add_output, print_line, print_table
from sublet.model.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from sublet.client import PublicEvent

COLUMNS = ("TIME", "NODE", "WHAT", "REASONS", "ACTION", "NOT DONE", "RULE")
KINDS = ("health", "audit")


def register(actions: Commands) -> None:
    parser = actions.add_parser("history", help="what became of a card", description=__doc__)
    parser.add_argument("card", metavar="CARD", help="the card's UUID")
    reaching.add_nats(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    told = asyncio.run(_read(arguments))
    if not told:
        raise NotFound(
            f"nothing is stored about card {arguments.card}", hint="`sublet health` lists the cards"
        )
    if arguments.output == "json":
        for event in told:
            print_line(event_document(event))
    else:
        print_table(COLUMNS, [_row(event) for event in told])
    return 0


async def _read(arguments: argparse.Namespace) -> list[PublicEvent]:
    from sublet.client import events

    reaching.quiet_log()
    stream = events(arguments.nats, kinds=KINDS, card=arguments.card, since=0, follow=False)
    try:
        async with aclosing(stream):
            return [event async for event in stream]
    except Unavailable as error:
        raise Unavailable(f"the bus does not answer: {error.args[0]}", hint=reaching.NATS_HINT) from error


def _row(event: PublicEvent) -> tuple[str, ...]:
    data = event.data
    when = f"{event.time:%Y-%m-%d %H:%M:%S}"
    if event.kind == "audit":
        said = " ".join(part for part in (data.get("note"), data.get("message")) if part)
        what = f"{data.get('what')} by {data.get('by')}"
        return (when, event.node or "-", f"{what}: {said}" if said else what, "-", "-", "-", "-")
    return (
        when,
        event.node or "-",
        f"{data.get('from')} -> {data.get('to')}",
        ",".join(reason.get("code", "") for reason in data.get("reasons") or ()) or "-",
        data.get("action") or "-",
        data.get("notDone") or "-",
        (data.get("policy") or {}).get("rule") or "-",
    )
