"""`sublet cards`: cluster, node, card, container: who sits where, how much is promised, and how cards are."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from sublet.cli import reaching
from sublet.cli.commands import Commands
from sublet.cli.inventory import read_inventory_file
from sublet.cli.output import add_output, print_json, print_table
from sublet.cli.picture import Cluster
from sublet.contract.inventory import InventoryNode, inventory_document
from sublet.model.card import Card
from sublet.model.reasons import Reason

COLUMNS = ("NODE", "CARD", "INDEX", "HEALTH", "MEMORY MiB", "CORE %", "POD", "CONTAINER", "SHARE")
WIDE = ("REASONS", "MODEL")
PROFILE = "PROFILE"
"""Shown where there are partitions."""
OUTSIDE = "used outside"
"""In place of a pod: somebody to whom the card was not given."""


def register(commands: Commands) -> None:
    parser = commands.add_parser("cards", help="who sits on which card", description=__doc__)
    parser.add_argument("--inventory", metavar="FILE", help="show this inventory instead of a cluster")
    reaching.add_nats(parser)
    reaching.add_kube(parser)
    add_output(parser, "wide", "inventory")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.inventory:
        cluster = Cluster(nodes=read_inventory_file(arguments.inventory), reasons={}, health={})
    else:
        cluster = asyncio.run(_read(arguments))
    if arguments.output == "inventory":
        print(yaml.safe_dump(inventory_document(cluster.nodes), sort_keys=False, allow_unicode=True), end="")
        return 0
    views = card_views(cluster)
    if arguments.output == "json":
        print_json(views)
    else:
        show(views, wide=arguments.output == "wide")
    return 0


async def _read(arguments: argparse.Namespace) -> Cluster:
    from sublet.cli.cluster import read_cluster

    reaching.quiet_log()
    async with reaching.open_bus(arguments) as bus:
        if arguments.output != "inventory":
            return await read_cluster(bus)
        async with reaching.open_kube(arguments) as kube:
            return await read_cluster(bus, kube)


def card_views(cluster: Cluster) -> list[dict[str, Any]]:
    """The cards by node, then index, as `-o json` shows them; partitions in place of theirs."""
    parts = [*((node, 0) for node in cluster.nodes), *((node, 1) for node in cluster.unlisted)]
    return [
        _view(node, unit, slices, cluster)
        for node, _ in sorted(parts, key=lambda one: (one[0].name, one[1]))
        for card in sorted(node.cards, key=lambda card: card.index)
        for unit, slices in _units(card)
    ]


def _units(card: Card) -> list[tuple[Card, int | None]]:
    """What may hold shares, and how many slices of the card it has where it is a partition."""
    if not card.partitions:
        return [(card, None)]
    return [(unit, part.slices) for unit, part in zip(card.offered, card.partitions, strict=True)]


def _view(node: InventoryNode, card: Card, slices: int | None, cluster: Cluster) -> dict[str, Any]:
    grants = [grant for grant in node.grants if grant.card == card.id]
    reasons = {*cluster.reasons.get(card.id, ())}
    if card.is_unpartitioned:
        reasons.add(Reason.NO_PARTITIONS.value)
    part = {"profile": card.profile, "slices": slices, "parent": card.parent} if card.parent else {}
    view: dict[str, Any] = {
        "node": node.name,
        "card": card.id,
        "index": card.index,
        "model": card.model,
        "memoryMiB": card.memory_mib,
        "shareableMiB": None if card.memory_mib is None else card.most_mib,
        "shareableCorePercent": card.shareable_core_percent,
        "usedMiB": sum(grant.memory_mib or 0 for grant in grants),
        "usedCorePercent": sum(grant.core_percent for grant in grants),
        "health": (cluster.health.get(card.id, card.health) if card.parent else card.health).value,
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
    return part | view | _outside(card, cluster)


def _outside(card: Card, cluster: Cluster) -> dict[str, Any]:
    """What others use, to whom the card was not given; nothing where they do not."""
    use = cluster.uses.get(card.id)
    used_mib = max(card.used_outside_mib, use.outside_mib if use else 0)
    by = list(use.outside_by) if use else []
    return {"usedOutsideMiB": used_mib, "usedOutsideBy": by} if used_mib or by else {}


def show(views: Sequence[Mapping[str, Any]], *, wide: bool) -> None:
    divided = any("profile" in view for view in views)
    rows = [row for view in views for row in _rows(view, wide=wide, divided=divided)]
    extra = (PROFILE,) if divided else ()
    print_table((*COLUMNS, *extra, *(WIDE if wide else WIDE[:1])), rows)


def _rows(view: Mapping[str, Any], *, wide: bool, divided: bool) -> list[tuple[str, ...]]:
    head = (
        view["node"],
        view["card"],
        str(view["index"]),
        view["health"],
        f"{view['usedMiB']}/{_capacity(view['memoryMiB'], view['shareableMiB'])}",
        f"{view['usedCorePercent']}/{_capacity(100, view['shareableCorePercent'])}",
    )
    profile = (view.get("profile", "-"),) if divided else ()
    model = (view["model"] or "-",) if wide else ()
    tail = (*profile, ",".join(view["reasons"]) or "-", *model)
    who = [
        (one["pod"], one["container"], _share(one["memoryMiB"], one["corePercent"]))
        for one in view["containers"]
    ]
    if "usedOutsideBy" in view:
        by = ", ".join(view["usedOutsideBy"]) or "-"
        who.append((OUTSIDE, by, f"{view['usedOutsideMiB']} MiB"))
    who = who or [("-", "-", "-")]
    return [(*head, *one, *tail) for one in who]


def _capacity(has: int | None, shareable: int | None) -> str:
    """What there is, and beside it what may be promised of it where that is more."""
    if has is None:
        return "?"
    return str(has) if shareable == has else f"{shareable} of {has}"


def _share(memory_mib: int | None, core_percent: int) -> str:
    memory = "whole" if memory_mib is None else f"{memory_mib} MiB"
    return f"{memory}, {core_percent} %" if core_percent else memory
