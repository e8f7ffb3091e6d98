"""The inventory document (docs/reference: inventory): nodes and cards as a file describes them.

Read by the offline commands and by the agent's `file` source; written by `sublet cards -o inventory`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sublet.contract.fields import Fields
from sublet.contract.overcommit import MOST
from sublet.contract.pci import pci_address
from sublet.contract.profile import profile_key
from sublet.model.card import Card, Link, Partition, Taint, Vendor
from sublet.model.errors import BadRequest
from sublet.model.health import HealthState
from sublet.model.ids import CardId, NodeName, PodRef

CPU_MILLI = 64_000
MEMORY_MIB = 262_144
PODS = 110
SHARES_PER_CARD = 16


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryGrant:
    """A share that is taken already. An exclusive one has the whole card: its memory, 100 % of compute."""

    pod: PodRef
    container: str
    card: CardId
    memory_mib: int | None
    core_percent: int
    exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryNode:
    name: NodeName
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    cpu_milli: int = CPU_MILLI
    memory_mib: int = MEMORY_MIB
    pods: int = PODS
    shares_per_card: int = SHARES_PER_CARD
    cards: tuple[Card, ...] = ()
    """By ascending index."""
    grants: tuple[InventoryGrant, ...] = ()


def read_inventory(document: object) -> tuple[InventoryNode, ...]:
    """Turn a loaded document into nodes, in the document's order.

    Raises:
        BadRequest: an unknown key, a value of a wrong type, a name that appears twice; the message quotes
            the value and says where it stood.
    """
    top = Fields(document, "")
    nodes = top.items("nodes", _node, named_by="name")
    top.finish()
    _refuse_twice("node", (node.name for node in nodes))
    _refuse_twice("uuid", (uuid for node in nodes for uuid in _uuids(node)))
    return nodes


def _uuids(node: InventoryNode) -> list[str]:
    return [card.id for card in node.cards] + [one.uuid for card in node.cards for one in card.partitions]


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadRequest(f"{what} {name!r} appears twice in the inventory")
        seen.add(name)


def _node(fields: Fields, _position: int) -> InventoryNode:
    cards = fields.items("cards", _card, named_by="uuid")
    where = fields.at("cards")
    _refuse_twice(f"{where}: index", (str(card.index) for card in cards))
    by_id = {each.id: each for card in cards for each in (card, *card.offered)}
    node = InventoryNode(
        name=NodeName(fields.name("name")),
        labels=fields.texts("labels"),
        annotations=fields.texts("annotations"),
        taints=fields.items("taints", _taint),
        unschedulable=fields.yes("unschedulable"),
        cpu_milli=fields.whole("cpuMilli", CPU_MILLI),
        memory_mib=fields.whole("memoryMiB", MEMORY_MIB),
        pods=fields.whole("pods", PODS),
        shares_per_card=fields.whole("sharesPerCard", SHARES_PER_CARD, least=1),
        cards=tuple(sorted(_linked_both_ways(cards, where), key=lambda card: card.index)),
        grants=fields.items("grants", lambda grant, _: _grant(grant, by_id)),
    )
    fields.finish()
    return node


def _taint(fields: Fields, _position: int) -> Taint:
    taint = Taint(
        key=fields.name("key"),
        value=fields.text("value"),
        effect=fields.word("effect", TaintEffect.NO_SCHEDULE).value,
    )
    fields.text("timeAdded")
    fields.finish()
    return taint


def _card(fields: Fields, position: int) -> Card:
    pci = fields.optional_text("pci")
    card = Card(
        id=CardId(fields.name("uuid")),
        index=fields.whole("index", position),
        vendor=fields.word("vendor", Vendor.NVIDIA),
        model=fields.text("model"),
        memory_mib=fields.whole_or_null("memoryMiB", least=1),
        numa=fields.optional_whole("numa"),
        pci=pci and (pci_address(pci) or pci),
        serial=fields.optional_text("serial"),
        minor=fields.optional_whole("minor"),
        links={CardId(name): link for name, link in fields.words("links", Link.HOST).items()},
        mig=fields.yes("mig"),
        partitions=fields.items("partitions", _partition, named_by="uuid"),
        used_outside_mib=fields.whole("usedOutsideMiB", 0),
        health=fields.word("health", HealthState.HEALTHY),
        shareable_mib=fields.optional_whole("shareableMiB"),
        shareable_core_percent=fields.whole("shareableCorePercent", 100, least=100, most=100 * MOST),
    )
    fields.finish()
    _check_shareable(card, fields.at("shareableMiB"))
    if card.id in card.links:
        raise BadRequest(f"{fields.at('links')}: {card.id!r} is linked to itself")
    return card


def _check_shareable(card: Card, where: str) -> None:
    most = card.shareable_mib
    if most is not None and not (card.memory_mib or 0) <= most <= MOST * (card.memory_mib or 0):
        raise BadRequest(f"{where}: {most} is not from {card.memory_mib} MiB to {MOST} times as much")


def _partition(fields: Fields, _position: int) -> Partition:
    memory_mib = fields.whole_or_null("memoryMiB", least=1)
    if memory_mib is None:
        raise BadRequest(f"{fields.at('memoryMiB')}: None is not a whole number of at least 1")
    partition = Partition(
        uuid=fields.name("uuid"),
        profile=profile_key(fields.name("profile")),
        memory_mib=memory_mib,
        gi=fields.optional_whole("gi"),
        ci=fields.optional_whole("ci"),
        slices=fields.optional_whole("slices"),
    )
    fields.finish()
    return partition


def _grant(fields: Fields, cards: Mapping[CardId, Card]) -> InventoryGrant:
    pod = fields.name("pod")
    namespace, slash, name = pod.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise BadRequest(f"{fields.at('pod')}: {pod!r} is not of the form namespace/name")
    card = cards.get(CardId(fields.name("card")))
    if card is None:
        raise BadRequest(f"{fields.at('card')}: {fields.name('card')!r} is not a card of this node")
    exclusive = fields.yes("exclusive")
    memory_mib = fields.optional_whole("memoryMiB")
    if memory_mib is None:
        memory_mib = card.memory_mib if exclusive else 0
    grant = InventoryGrant(
        pod=PodRef(namespace, name),
        container=fields.text("container"),
        card=card.id,
        memory_mib=memory_mib,
        core_percent=fields.whole("corePercent", 100 if exclusive else 0, most=100),
        exclusive=exclusive,
    )
    fields.finish()
    return grant


def _linked_both_ways(cards: tuple[Card, ...], where: str) -> list[Card]:
    """Add the direction that was not written down; a link to a card that is not there stays as it is."""
    links: dict[CardId, dict[CardId, Link]] = {card.id: dict(card.links) for card in cards}
    for card in cards:
        for other, link in card.links.items():
            back = links.get(other, {}).setdefault(card.id, link)
            if back is not link:
                raise BadRequest(f"{where}: {card.id!r} and {other!r} are linked by {link} and by {back}")
    return [replace(card, links=links[card.id]) for card in cards]


def inventory_document(nodes: Iterable[InventoryNode]) -> dict[str, object]:
    """The document of `nodes`, ready for YAML or JSON; what has its default is left out."""
    return {"nodes": [_node_out(node) for node in nodes]}


def _node_out(node: InventoryNode) -> dict[str, object]:
    optional = {
        "labels": (dict(node.labels), {}),
        "annotations": (dict(node.annotations), {}),
        "taints": ([_taint_out(taint) for taint in node.taints], []),
        "unschedulable": (node.unschedulable, False),
        "cpuMilli": (node.cpu_milli, CPU_MILLI),
        "memoryMiB": (node.memory_mib, MEMORY_MIB),
        "pods": (node.pods, PODS),
        "sharesPerCard": (node.shares_per_card, SHARES_PER_CARD),
        "cards": ([_card_out(card) for card in node.cards], []),
        "grants": ([_grant_out(grant) for grant in node.grants], []),
    }
    return {"name": str(node.name)} | _unless_default(optional)


def _unless_default(values: Mapping[str, tuple[object, object]]) -> dict[str, object]:
    return {key: value for key, (value, default) in values.items() if value != default}


def _taint_out(taint: Taint) -> dict[str, object]:
    return {"key": taint.key} | _unless_default({"value": (taint.value, "")}) | {"effect": taint.effect}


def _card_out(card: Card) -> dict[str, object]:
    optional: dict[str, tuple[object, object]] = {
        "vendor": (card.vendor.value, Vendor.NVIDIA.value),
        "model": (card.model, ""),
        "numa": (card.numa, None),
        "pci": (card.pci, None),
        "serial": (card.serial, None),
        "minor": (card.minor, None),
        "health": (card.health.value, HealthState.HEALTHY.value),
        "links": ({str(other): link.value for other, link in sorted(card.links.items())}, {}),
        "mig": (card.mig, False),
        "partitions": ([_partition_out(one) for one in card.partitions], []),
        "usedOutsideMiB": (card.used_outside_mib, 0),
        "shareableMiB": (card.shareable_mib, None),
        "shareableCorePercent": (card.shareable_core_percent, 100),
    }
    required = {"uuid": str(card.id), "index": card.index, "memoryMiB": card.memory_mib}
    return required | _unless_default(optional)


def _partition_out(one: Partition) -> dict[str, object]:
    numbers = {"gi": (one.gi, None), "ci": (one.ci, None), "slices": (one.slices, None)}
    required = {"uuid": one.uuid, "profile": one.profile, "memoryMiB": one.memory_mib}
    return required | _unless_default(numbers)


def _grant_out(grant: InventoryGrant) -> dict[str, object]:
    return {
        "pod": str(grant.pod),
        "container": grant.container,
        "card": str(grant.card),
        "memoryMiB": grant.memory_mib,
        "corePercent": grant.core_percent,
    } | _unless_default({"exclusive": (grant.exclusive, False)})
