"""`sublet cards`: cluster, node, card, container: who sits where, how much is promised, and how cards are."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from sublet.cli import reaching
from sublet.cli.commands import Commands
from sublet.cli.inventory import read_inventory_file
from sublet.cli.output import add_output, print_json, print_table
from sublet.contract.inventory import InventoryNode, inventory_document
from sublet.model.card import Card
from sublet.model.ids import CardId

COLUMNS = ("NODE", "CARD", "INDEX", "HEALTH", "MEMORY MiB", "CORE %", "POD", "CONTAINER", "SHARE")
WIDE = ("REASONS", "MODEL")
Reasons = Mapping[CardId, tuple[str, ...]]


def register(commands: Commands) -> None:
    parser = commands.add_parser("cards", help="who sits on which card", description=__doc__)
    parser.add_argument("--inventory", metavar="FILE", help="show this inventory instead of a cluster")
    reaching.add_nats(parser)
    reaching.add_kube(parser)
    add_output(parser, "wide", "inventory")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reasons: Reasons = {}
    if arguments.inventory:
        nodes = read_inventory_file(arguments.inventory)
    else:
        nodes, reasons = asyncio.run(_read(arguments))
    if arguments.output == "inventory":
        print(yaml.safe_dump(inventory_document(nodes), sort_keys=False, allow_unicode=True), end="")
        return 0
    views = card_views(nodes, reasons)
    if arguments.output == "json":
        print_json(views)
    else:
        show(views, wide=arguments.output == "wide")
    return 0


async def _read(arguments: argparse.Namespace) -> tuple[tuple[InventoryNode, ...], Reasons]:
    from sublet.cli.cluster import read_cluster

    reaching.quiet_log()
    async with reaching.open_bus(arguments) as bus:
        if arguments.output != "inventory":
            cluster = await read_cluster(bus)
        else:
            async with reaching.open_kube(arguments) as kube:
                cluster = await read_cluster(bus, kube)
    return cluster.nodes, cluster.reasons


def card_views(nodes: Iterable[InventoryNode], reasons: Reasons) -> list[dict[str, Any]]:
    """The cards by node, then index, as `-o json` shows them."""
    return [
        _view(node, card, reasons.get(card.id, ()))
        for node in sorted(nodes, key=lambda node: node.name)
        for card in sorted(node.cards, key=lambda card: card.index)
    ]


def _view(node: InventoryNode, card: Card, reasons: tuple[str, ...]) -> dict[str, Any]:
    grants = [grant for grant in node.grants if grant.card == card.id]
    return {
        "node": node.name,
        "card": card.id,
        "index": card.index,
        "model": card.model,
        "memoryMiB": card.memory_mib,
        "usedMiB": sum(grant.memory_mib or 0 for grant in grants),
        "usedCorePercent": sum(grant.core_percent for grant in grants),
        "health": card.health.value,
        "reasons": sorted(reasons),
        "containers": [
            {
                "pod": str(grant.pod),
                "container": grant.container,
                "memoryMiB": grant.memory_mib,
                "corePercent": grant.core_percent,
            }
            for grant in sorted(grants, key=lambda grant: (grant.pod, grant.container))
        ],
    }


def show(views: Iterable[Mapping[str, Any]], *, wide: bool) -> None:
    rows = [row for view in views for row in _rows(view, wide=wide)]
    print_table((*COLUMNS, *(WIDE if wide else WIDE[:1])), rows)


def _rows(view: Mapping[str, Any], *, wide: bool) -> list[tuple[str, ...]]:
    total = "?" if view["memoryMiB"] is None else str(view["memoryMiB"])
    head = (
        view["node"],
        view["card"],
        str(view["index"]),
        view["health"],
        f"{view['usedMiB']}/{total}",
        f"{view['usedCorePercent']}/100",
    )
    tail = (",".join(view["reasons"]) or "-", *((view["model"] or "-",) if wide else ()))
    who = [
        (one["pod"], one["container"], _share(one["memoryMiB"], one["corePercent"]))
        for one in view["containers"]
    ] or [("-", "-", "-")]
    return [(*head, *one, *tail) for one in who]


def _share(memory_mib: int | None, core_percent: int) -> str:
    memory = "whole" if memory_mib is None else f"{memory_mib} MiB"
    return f"{memory}, {core_percent} %" if core_percent else memory
