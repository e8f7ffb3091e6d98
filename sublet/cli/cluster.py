"""Reads a live cluster into the words of an inventory: what agents, healthd and scheduler say on the bus."""

from collections.abc import Mapping
from dataclasses import replace

from sublet.bus.port import BucketMissing, Bus, Entry
from sublet.cli.picture import Cluster
from sublet.cli.reaching import NATS_HINT
from sublet.contract import quantity, subjects
from sublet.contract.inventory import InventoryGrant, InventoryNode
from sublet.kube.kind import NODES
from sublet.kube.port import Json, Kube
from sublet.model.card import Card, Inventory, Taint
from sublet.model.errors import Unavailable
from sublet.model.health import Breaker, HealthState, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardUse, LedgerGrant, NodeLedger, Shareable
from sublet.wire.health import breaker_in, healthd_heartbeat_in, verdict_in
from sublet.wire.ledger import node_ledger_in
from sublet.wire.node import inventory_in, occupancy_in

READ_WITHIN_S = 5.0


async def read_cluster(bus: Bus, kube: Kube | None = None) -> Cluster:
    """All nodes that agents report; with `kube` also those without, and what the Node objects say.

    Raises:
        Unavailable: the bus or the API server does not answer.
    """
    inventories = await read_inventories(bus)
    uses = {
        use.card: use
        for key, entry in (await _entries(bus, subjects.INVENTORY_BUCKET)).items()
        if subjects.parse_node_key(key)[0] == subjects.OCCUPANCY
        for use in occupancy_in(entry.value).cards
    }
    verdicts = {
        subjects.parse_verdict_key(key)[1]: verdict_in(entry.value)
        for key, entry in (await _entries(bus, subjects.VERDICTS_BUCKET)).items()
    }
    ledgers = {
        node: node_ledger_in(entry.value, revision=entry.revision)
        for key, entry in (await _entries(bus, subjects.LEDGER_BUCKET)).items()
        if (node := subjects.parse_ledger_key(key)) is not None
    }
    known = {name: InventoryNode(name=name) for name in inventories}
    if kube is not None:
        known |= {node.name: node for node in (_node(obj) for obj in await kube.list(NODES))}
    return Cluster(
        nodes=tuple(
            _filled(known[name], inventories.get(name), ledgers.get(name), verdicts, uses)
            for name in sorted(known)
        ),
        reasons={card: tuple(reason.id for reason in one.reasons) for card, one in verdicts.items()},
        health={card: one.state for card, one in verdicts.items()},
        uses=uses,
        unlisted=tuple(
            _unlisted(name, inventories[name], ledgers[name], verdicts)
            for name in sorted(inventories.keys() & ledgers.keys())
        ),
    )


async def read_inventories(bus: Bus) -> dict[NodeName, Inventory]:
    """What each agent says of its node; raises Unavailable where the bus does not answer."""
    found = [
        inventory_in(entry.value)
        for key, entry in (await _entries(bus, subjects.INVENTORY_BUCKET)).items()
        if subjects.parse_node_key(key)[0] == subjects.INVENTORY
    ]
    return {one.node: one for one in found}


async def read_verdicts(bus: Bus) -> list[Verdict]:
    """All verdicts by node, then card; raises Unavailable where the bus does not answer."""
    entries = await _entries(bus, subjects.VERDICTS_BUCKET)
    return sorted((verdict_in(one.value) for one in entries.values()), key=lambda one: (one.node, one.card))


async def read_healthd_heartbeat(bus: Bus) -> int:
    """When healthd last said that it judges, 0 where it never did. Raises Unavailable."""
    entry = (await _entries(bus, subjects.HEALTHD_BUCKET)).get(subjects.HEALTHD_HEARTBEAT_KEY)
    return healthd_heartbeat_in(entry.value) if entry else 0


async def read_breaker(bus: Bus) -> Breaker:
    """As healthd keeps it; one that never opened was never written. Raises Unavailable."""
    entry = (await _entries(bus, subjects.HEALTHD_BUCKET)).get(subjects.BREAKER_KEY)
    return breaker_in(entry.value) if entry else Breaker()


async def _entries(bus: Bus, bucket: str) -> dict[str, Entry]:
    try:
        return await bus.entries(bucket, within_s=READ_WITHIN_S)
    except BucketMissing as error:
        raise Unavailable(str(error), hint="Is Sublet running on this bus?") from error
    except Unavailable as error:
        raise Unavailable(f"the bus does not answer: {error.args[0]}", hint=NATS_HINT) from error


def _filled(
    node: InventoryNode,
    inventory: Inventory | None,
    ledger: NodeLedger | None,
    verdicts: Mapping[CardId, Verdict],
    uses: Mapping[CardId, CardUse],
) -> InventoryNode:
    if inventory is None:
        return node
    shareable = {one.card: one for one in (ledger.shareable if ledger else ())}
    seen = (
        _used(_shareable(_judged(card, verdicts), shareable.get(card.id)), uses) for card in inventory.cards
    )
    cards = tuple(sorted(seen, key=lambda card: card.index))
    known = _listed(inventory)
    grants = tuple(_grant(one) for one in _counted(ledger) if one.grant.card in known)
    return replace(node, cards=cards, grants=grants, shares_per_card=inventory.shares_per_card)


def _unlisted(
    node: NodeName, inventory: Inventory, ledger: NodeLedger, verdicts: Mapping[CardId, Verdict]
) -> InventoryNode:
    known = _listed(inventory)
    strays = [one for one in _counted(ledger) if one.grant.card not in known]
    cards = {
        one.grant.card: _judged(
            Card(id=one.grant.card, index=one.grant.index, health=HealthState.LOST), verdicts
        )
        for one in strays
    }
    return InventoryNode(name=node, cards=tuple(cards.values()), grants=tuple(map(_grant, strays)))


def _listed(inventory: Inventory) -> set[CardId]:
    return {each.id for card in inventory.cards for each in (card, *card.offered)}


def _counted(ledger: NodeLedger | None) -> list[LedgerGrant]:
    return [one for one in (ledger.grants if ledger else ()) if not one.heir]


def _grant(one: LedgerGrant) -> InventoryGrant:
    return InventoryGrant(
        pod=one.pod,
        container=one.container,
        card=one.grant.card,
        memory_mib=one.grant.memory_mib,
        core_percent=one.grant.core_percent,
        exclusive=one.grant.exclusive,
    )


def _judged(card: Card, verdicts: Mapping[CardId, Verdict]) -> Card:
    return replace(card, health=verdicts[card.id].state) if card.id in verdicts else card


def _shareable(card: Card, said: Shareable | None) -> Card:
    if said is None:
        return card
    return replace(card, shareable_mib=said.memory_mib, shareable_core_percent=said.core_percent)


def _used(card: Card, uses: Mapping[CardId, CardUse]) -> Card:
    outside_mib = uses[card.id].outside_mib if card.id in uses else 0
    return replace(card, used_outside_mib=max(card.used_outside_mib, outside_mib))


def _node(obj: Json) -> InventoryNode:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    allocatable = (obj.get("status") or {}).get("allocatable") or {}
    return InventoryNode(
        name=NodeName(meta["name"]),
        labels=meta.get("labels") or {},
        taints=tuple(
            Taint(key=one["key"], value=one.get("value") or "", effect=one["effect"])
            for one in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        cpu_milli=quantity.cpu_milli(allocatable),
        memory_mib=int(quantity.quantity(allocatable.get("memory", 0)) / 2**20),
        pods=int(quantity.quantity(allocatable.get("pods", 110))),
    )
