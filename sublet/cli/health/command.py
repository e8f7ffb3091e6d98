"""`sublet health`: how each card is, why, since when, and what to do about it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from sublet.cli import reaching
from sublet.cli.commands import Commands
from sublet.cli.health import history, manual, policy, replay
from sublet.cli.output import add_output, print_json, print_table
from sublet.model.card import Card
from sublet.model.health import Hold, Verdict
from sublet.model.ids import CardId

COLUMNS = ("NODE", "CARD", "STATE", "REASONS", "SINCE", "ACTION", "VERDICT AGE", "NOTES")
ACTIONS = (history, manual, policy, replay)
SILENT_MS = 30_000
"""Longer without a heartbeat of healthd, and whoever looks at verdicts should know."""


def register(commands: Commands) -> None:
    parser = commands.add_parser("health", help="how cards are, and why", description=__doc__)
    reaching.add_nats(parser)
    add_output(parser)
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(metavar="ACTION")
    for action in ACTIONS:
        action.register(actions)


def run(arguments: argparse.Namespace) -> int:
    from sublet.runtime.clock import unix_ms

    verdicts, partitions, judged_ms = asyncio.run(_read(arguments))
    now_ms = unix_ms()
    ages_ms = {one.card: max(0, now_ms - max(one.at_ms, judged_ms)) for one in verdicts}
    if arguments.output == "json":
        print_json([document(one, partitions.get(one.card), age_ms=ages_ms[one.card]) for one in verdicts])
    else:
        rows = [
            _row(one, partitions.get(one.card), now_ms=now_ms, age_ms=ages_ms[one.card]) for one in verdicts
        ]
        print_table(COLUMNS, rows)
    if verdicts and now_ms - judged_ms > SILENT_MS:
        since = f"for {age(now_ms - judged_ms)}" if judged_ms else "since these verdicts"
        print(f"healthd has not been heard of {since}: cards are shown as they were then", file=sys.stderr)
    return 0


async def _read(arguments: argparse.Namespace) -> tuple[list[Verdict], dict[CardId, Card], int]:
    """The verdicts, the partitions that agents list, and when healthd last said that it judges."""
    from sublet.cli.cluster import read_healthd_heartbeat, read_inventories, read_verdicts

    reaching.quiet_log()
    async with reaching.open_bus(arguments) as bus:
        verdicts = await read_verdicts(bus)
        listed = [card for one in (await read_inventories(bus)).values() for card in one.cards]
        judged_ms = await read_healthd_heartbeat(bus)
    return verdicts, {part.id: part for card in listed for part in card.offered if part.parent}, judged_ms


def document(verdict: Verdict, partition: Card | None = None, *, age_ms: int) -> dict[str, Any]:
    """`partition` describes what was judged where that is no card; since `age_ms` nobody vouches for it."""
    from sublet.wire.judged import rfc3339

    part = {"profile": partition.profile, "parent": partition.parent} if partition else {}
    return part | {
        "node": verdict.node,
        "card": verdict.card,
        "state": verdict.state.value,
        "schedulable": verdict.schedulable,
        "kubelet": "Unhealthy" if verdict.withheld else "Healthy",
        "reasons": [
            {
                "code": reason.id,
                "class": reason.klass,
                "count": reason.count,
                "clearsOn": reason.clears_on,
                "firstSeen": rfc3339(reason.first_seen_ms),
                "lastSeen": rfc3339(reason.last_seen_ms),
            }
            for reason in verdict.reasons
        ],
        "since": rfc3339(verdict.since_ms),
        "action": verdict.action.value,
        "notDone": verdict.not_done,
        "breaker": verdict.breaker,
        "hold": _held(verdict.hold),
        "policy": verdict.policy,
        "rule": verdict.rule,
        "sequence": verdict.seq,
        "verdictAgeSeconds": age_ms // 1000,
    }


def _held(hold: Hold | None) -> dict[str, Any] | None:
    from sublet.wire.judged import rfc3339

    if hold is None:
        return None
    return {"by": hold.by, "note": hold.note, "until": rfc3339(hold.until_ms) if hold.until_ms else None}


def _row(verdict: Verdict, partition: Card | None, *, now_ms: int, age_ms: int) -> tuple[str, ...]:
    notes = [f"{partition.profile} of {partition.parent}"] if partition else []
    notes += [f"held by {verdict.hold.by}: {verdict.hold.note}"] if verdict.hold else []
    notes += [f"breaker {verdict.breaker}"] if verdict.breaker else []
    notes += [f"not done: {verdict.not_done}"] if verdict.not_done else []
    return (
        verdict.node,
        verdict.card,
        verdict.state.value,
        ",".join(reason.id for reason in verdict.reasons) or "-",
        age(now_ms - verdict.since_ms),
        verdict.action.value,
        age(age_ms),
        "; ".join(notes) or "-",
    )


def age(ms: int) -> str:
    """As people say it: the two largest units."""
    seconds = max(0, ms) // 1000
    for unit, size, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size}{unit}{rest}{below}" if rest else f"{seconds // size}{unit}"
    return f"{seconds}s"
