"""`sublet health hold|release|ack CARD` and `sublet health breaker`: what people ask of healthd.

The request lies on the bus until healthd has done it; the command waits a few seconds for that.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sublet.cli import reaching
from sublet.cli.commands import Commands
from sublet.cli.events import event_document
from sublet.cli.output import add_output, print_json
from sublet.contract import subjects
from sublet.model.errors import BadRequest, NotFound
from sublet.model.health import Breaker, HealthState, ManualAct, Verdict
from sublet.model.ids import CardId, NodeName

if TYPE_CHECKING:
    from sublet.bus.port import Bus
    from sublet.client import PublicEvent

ANSWER_WITHIN_S = 5.0
REFUSED = "manual_refused"
HELP = {
    "hold": "put a card aside: no new shares, withheld when idle",
    "release": "end a hold; faults stay",
    "ack": "say that a card was looked at: what only a person clears is cleared",
}
LIES = "The request lies on the bus until healthd has done it; the command waits a few seconds for that."
BREAKER = {
    "open": "automation takes nothing out until it is closed",
    "half-open": "one card at a time; it closes after ten minutes",
    "close": "as usual again; what was held back is judged anew",
}
TO_BREAKER = {
    "breaker_open": "open the breaker",
    "breaker_half_open": "set the breaker half-open",
    "breaker_close": "close the breaker",
}
_SPAN = re.compile(r"(\d+)([smhd])")
_SPAN_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def register(actions: Commands) -> None:
    for what, text in HELP.items():
        parser = actions.add_parser(what, help=text, description=f"{text[0].upper()}{text[1:]}. {LIES}")
        parser.add_argument("card", metavar="CARD", help="the card's UUID")
        parser.add_argument("--node", help="where two nodes know the card")
        if what == "hold":
            parser.add_argument(
                "--until", metavar="TIME|SPAN", type=_until, help="ISO time with zone, or 30m, 8h, 3d"
            )
        _add_common(parser)
        parser.set_defaults(run=run, what=what)
    parser = actions.add_parser(
        "breaker",
        help="show the breaker; open or close it by hand",
        description="Shows whether automation may take cards out, and since when and why it may not.",
    )
    reaching.add_nats(parser)
    add_output(parser)
    parser.set_defaults(run=show_breaker)
    verbs = parser.add_subparsers(metavar="VERB")
    for verb, text in BREAKER.items():
        one = verbs.add_parser(verb, help=text, description=f"{text[0].upper()}{text[1:]}.")
        _add_common(one)
        one.set_defaults(run=run, what=f"breaker_{verb.replace('-', '_')}", card=None)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--note", default="", help="why; stands in events and in the node's annotation")
    parser.add_argument("--by", default="", help="who asks; default: the user of this shell")
    reaching.add_nats(parser)
    add_output(parser)


def _until(text: str) -> int | datetime:
    """A moment, or how many milliseconds from now."""
    if found := _SPAN.fullmatch(text):
        return int(found[1]) * _SPAN_MS[found[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time nor a span such as 8h") from None
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone")
    return moment


def show_breaker(arguments: argparse.Namespace) -> int:
    breaker = asyncio.run(_read_breaker(arguments))
    if arguments.output == "json":
        print_json(breaker_document(breaker))
    else:
        print("\n".join(breaker_lines(breaker)))
    return 0


async def _read_breaker(arguments: argparse.Namespace) -> Breaker:
    from sublet.cli.cluster import read_breaker

    reaching.quiet_log()
    async with reaching.open_bus(arguments) as bus:
        return await read_breaker(bus)


def breaker_document(breaker: Breaker) -> dict[str, Any]:
    from sublet.wire.judged import rfc3339

    return {
        "state": breaker.state.value,
        "why": breaker.why,
        "by": breaker.by,
        "since": rfc3339(breaker.since_ms) if breaker.since_ms else None,
        "taken": [
            {"node": one.node, "card": one.card, "reason": one.reason, "time": rfc3339(one.at_ms)}
            for one in breaker.taken
        ],
    }


def breaker_lines(breaker: Breaker) -> list[str]:
    """The breaker for people, and what can be asked of it."""
    told = breaker_document(breaker)
    why = f": {breaker.why}" if breaker.why else ""
    since = f" since {told['since']}, by {breaker.by or 'healthd'}" if told["since"] else ""
    return [
        f"{breaker.state.value.replace('_', '-')}{since}{why}",
        *(
            f"  took {one['card']} of {one['node']} for {one['reason']} at {one['time']}"
            for one in told["taken"]
        ),
        *(f"  sublet health breaker {verb}: {text}" for verb, text in BREAKER.items()),
    ]


def run(arguments: argparse.Namespace) -> int:
    act, answer = asyncio.run(_ask(arguments))
    if answer is None:
        what = f"{act.what} card {act.card}" if act.card else TO_BREAKER[act.what]
        print(f"healthd is asked to {what}, and has not answered within {ANSWER_WITHIN_S:g} s")
        return 0
    if answer.data.get("what") == REFUSED:
        raise BadRequest(str(answer.data.get("message")))
    if arguments.output == "json":
        print_json(event_document(answer))
    else:
        print(answer_words(act, answer.data))
    return 0


def answer_words(act: ManualAct, told: Mapping[str, Any]) -> str:
    """What healthd says it did, for people."""
    if act.card is None:
        return f"healthd was asked by {act.by} to {TO_BREAKER[act.what]}; `sublet health breaker` shows it"
    return f"{act.card}: {str(told.get('what')).replace('_', ' ')} by {act.by}"


async def _ask(arguments: argparse.Namespace) -> tuple[ManualAct, PublicEvent | None]:
    from sublet.runtime.clock import unix_ms
    from sublet.wire.health import manual_out

    reaching.quiet_log()
    now_ms = unix_ms()
    async with reaching.open_bus(arguments) as bus:
        act = _act(arguments, now_ms)
        if act.card is not None:
            act = replace(act, node=await _node_of(bus, act.card, arguments.node))
        subject = subjects.subject(subjects.MANUAL, act.node, act.card)
        await bus.publish(subject, manual_out(act), once_id=act.id, within_s=ANSWER_WITHIN_S)
        return act, await _answer(bus, act)


def _act(arguments: argparse.Namespace, now_ms: int) -> ManualAct:
    import secrets

    until = getattr(arguments, "until", None)
    if isinstance(until, datetime):
        until_ms = int(until.timestamp() * 1000)
    else:
        until_ms = now_ms + until if until else 0
    if until_ms and until_ms <= now_ms:
        raise BadRequest(f"--until {arguments.until} is over already")
    return ManualAct(
        id=secrets.token_hex(8),
        node=None,
        card=CardId(arguments.card) if arguments.card else None,
        what=arguments.what,
        by=arguments.by or getpass.getuser(),
        note=arguments.note,
        at_ms=now_ms,
        until_ms=until_ms,
    )


async def _node_of(bus: Bus, card: CardId, node: str | None) -> NodeName:
    from sublet.cli.cluster import read_verdicts

    found = [one for one in await read_verdicts(bus) if one.card == card and node in (None, one.node)]
    there: list[Verdict] = [one for one in found if one.state is not HealthState.LOST] or found
    if not there:
        raise NotFound(f"healthd knows no card {card}", hint="`sublet health` lists the cards")
    if len(there) > 1:
        names = ", ".join(one.node for one in there)
        raise BadRequest(f"card {card} is known on {names}", hint="Name one with --node")
    return there[0].node


async def _answer(bus: Bus, act: ManualAct) -> PublicEvent | None:
    from sublet.client.subscriber import read_events

    asked = datetime.fromtimestamp(act.at_ms / 1000 - 1, UTC)
    pattern = subjects.subject("audit", act.node, act.card)
    try:
        async with (
            asyncio.timeout(ANSWER_WITHIN_S),
            aclosing(read_events(bus, [pattern], since=asked)) as told,
        ):
            async for event in told:
                if event.id == f"manual/{act.id}":
                    return event
    except TimeoutError:
        return None
    return None
