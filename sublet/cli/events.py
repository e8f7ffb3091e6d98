"""`sublet events`: the public facts about cards, shares and pods, stored ones and, with -f, new ones."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sublet.cli import reaching
from sublet.cli.commands import Commands
from sublet.cli.output import add_output, print_line
from sublet.contract import subjects
from sublet.model.errors import Unavailable

if TYPE_CHECKING:
    from sublet.client import PublicEvent


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "events", help="what happened to cards, shares and pods", description=__doc__
    )
    parser.add_argument("-f", "--follow", action="store_true", help="only new events, until interrupted")
    parser.add_argument(
        "--kind", action="append", choices=subjects.EVENT_KINDS, help="may be repeated; default: all"
    )
    parser.add_argument("--node", help="only events of this node")
    parser.add_argument("--card", metavar="UUID", help="only events of this card")
    parser.add_argument(
        "--since",
        type=_since,
        metavar="POSITION|TIME",
        help="from after this position (0: all that are stored), or from this time with zone on",
    )
    reaching.add_nats(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def _since(text: str) -> int | datetime:
    try:
        moment = datetime.fromisoformat(text) if not text.isdigit() else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor an ISO time") from None
    if isinstance(moment, datetime) and moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone")
    return moment


def run(arguments: argparse.Namespace) -> int:
    asyncio.run(_run(arguments))
    return 0


async def _run(arguments: argparse.Namespace) -> None:
    from sublet.client import events

    reaching.quiet_log()
    since = 0 if arguments.since is None and not arguments.follow else arguments.since
    stream = events(
        arguments.nats,
        kinds=arguments.kind,
        node=arguments.node,
        card=arguments.card,
        since=since,
        follow=arguments.follow,
    )
    found = False
    try:
        async with aclosing(stream):
            async for event in stream:
                found = True
                if arguments.output == "json":
                    print_line(event_document(event))
                else:
                    print(event_line(event), flush=True)
    except Unavailable as error:
        raise Unavailable(f"the bus does not answer: {error.args[0]}", hint=reaching.NATS_HINT) from error
    if not (found or arguments.follow):
        print(
            "no stored event is like that; `sublet health` lists the cards and their nodes", file=sys.stderr
        )


def event_document(event: PublicEvent) -> dict[str, Any]:
    return {
        "time": event.time.isoformat(),
        "type": event.type,
        "kind": event.kind,
        "node": event.node,
        "card": event.card,
        "subject": event.subject,
        "sequence": event.sequence,
        "position": event.position,
        "id": event.id,
        "data": event.data,
    }


def event_line(event: PublicEvent) -> str:
    """One line for people: when, what, where, and what matters of the body."""
    what = ".".join(event.type.split(".")[2:4])
    where = f"{event.node or '-'} {event.subject}"
    return f"{event.time:%H:%M:%S}  {what:<18}  {where}  {_details(event)}".rstrip()


def _details(event: PublicEvent) -> str:
    data = event.data
    if event.kind == "health":
        reasons = ",".join(reason.get("code", "") for reason in data.get("reasons") or ())
        told = {"reasons": reasons, "action": data.get("action"), "not done": data.get("notDone")}
        change = f"{data.get('from') or '-'} -> {data.get('to')}"
        return " ".join((change, *(f"{key}={value}" for key, value in told.items() if value)))
    if event.kind in ("pod", "share"):
        grants = ",".join(f"{one.get('container')}:{one.get('card')}" for one in data.get("grants") or ())
        reasons = json.dumps(data["reasons"]) if data.get("reasons") else ""
        pod = "/".join((data.get("namespace", ""), data.get("pod", "")))
        return " ".join(part for part in (pod if event.kind == "share" else "", grants, reasons) if part)
    if event.kind == "audit":
        why = " ".join(part for part in (data.get("note"), data.get("message")) if part)
        return f"by {data.get('by') or '-'}" + (f": {why}" if why else "")
    return str(data.get("message") or "")
