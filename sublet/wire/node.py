"""What an agent says of its node, as bytes and back."""

import sys
from collections.abc import Mapping

from google.protobuf.message import DecodeError

from sublet.model.card import Card, Heartbeat, Inventory, Link, Partition, Vendor
from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid, SlotId
from sublet.model.placement import CardUse, Occupancy, Prepared, SlotUse
from sublet.v1 import node_pb2 as pb
from sublet.wire.health import verdict_message, verdict_of


def _card_out(card: Card) -> pb.Card:
    message = pb.Card(
        uuid=card.id,
        index=card.index,
        vendor=card.vendor,
        model=card.model,
        links={str(other): str(link) for other, link in card.links.items()},
        mig=card.mig,
        partitions=[
            pb.Partition(
                uuid=one.uuid,
                profile=one.profile,
                memory_mib=one.memory_mib,
                gi=one.gi,
                ci=one.ci,
                slices=one.slices,
            )
            for one in card.partitions
        ],
        used_outside_mib=card.used_outside_mib,
    )
    for name in ("memory_mib", "numa", "pci", "serial", "minor"):
        value = getattr(card, name)
        if value is not None:
            setattr(message, name, value)
    return message


def _card_in(message: pb.Card, ids: Mapping[str, CardId]) -> Card:
    """`ids` has one object for each card of the node: a large fleet would hold each name many times."""
    return Card(
        id=ids[message.uuid],
        index=message.index,
        vendor=Vendor(message.vendor),
        model=sys.intern(message.model),
        memory_mib=message.memory_mib if message.HasField("memory_mib") else None,
        numa=message.numa if message.HasField("numa") else None,
        pci=message.pci if message.HasField("pci") else None,
        serial=message.serial if message.HasField("serial") else None,
        minor=message.minor if message.HasField("minor") else None,
        links={ids.get(other, CardId(other)): Link(link) for other, link in message.links.items()},
        mig=message.mig,
        partitions=tuple(
            Partition(
                uuid=one.uuid,
                profile=one.profile,
                memory_mib=one.memory_mib,
                gi=one.gi if one.HasField("gi") else None,
                ci=one.ci if one.HasField("ci") else None,
                slices=one.slices if one.HasField("slices") else None,
            )
            for one in message.partitions
        ),
        used_outside_mib=message.used_outside_mib,
    )


def inventory_out(inventory: Inventory) -> bytes:
    return pb.Inventory(
        node=inventory.node,
        boot_id=inventory.boot_id,
        epoch=inventory.epoch,
        seq=inventory.seq,
        at_ms=inventory.at_ms,
        cards=[_card_out(card) for card in inventory.cards],
        shares_per_card=inventory.shares_per_card,
        slots=inventory.slots,
        registered=inventory.registered,
        injection=inventory.injection,
        driver=inventory.driver,
        problems=inventory.problems,
        verdicts=[verdict_message(one) for one in inventory.verdicts],
    ).SerializeToString()


def inventory_in(body: bytes) -> Inventory:
    """Raises BadRequest where `body` is not an inventory."""
    try:
        message = pb.Inventory.FromString(body)
        ids = {card.uuid: CardId(card.uuid) for card in message.cards}
        return Inventory(
            node=NodeName(message.node),
            boot_id=message.boot_id,
            epoch=message.epoch,
            seq=message.seq,
            at_ms=message.at_ms,
            cards=tuple(_card_in(card, ids) for card in message.cards),
            shares_per_card=message.shares_per_card,
            slots=message.slots,
            registered=message.registered,
            injection=message.injection,
            driver=message.driver,
            problems=tuple(message.problems),
            verdicts=tuple(verdict_of(one) for one in message.verdicts),
        )
    except (DecodeError, ValueError) as error:
        raise BadRequest(f"not an inventory: {error}") from error


def heartbeat_out(beat: Heartbeat) -> bytes:
    return pb.Heartbeat(
        node=beat.node, boot_id=beat.boot_id, epoch=beat.epoch, seq=beat.seq, at_ms=beat.at_ms
    ).SerializeToString()


def heartbeat_in(body: bytes) -> Heartbeat:
    """Raises BadRequest where `body` is not a heartbeat."""
    try:
        message = pb.Heartbeat.FromString(body)
    except DecodeError as error:
        raise BadRequest(f"not a heartbeat: {error}") from error
    return Heartbeat(
        node=NodeName(message.node),
        boot_id=message.boot_id,
        epoch=message.epoch,
        seq=message.seq,
        at_ms=message.at_ms,
    )


def occupancy_out(seen: Occupancy) -> bytes:
    return pb.Occupancy(
        node=seen.node,
        boot_id=seen.boot_id,
        epoch=seen.epoch,
        seq=seen.seq,
        at_ms=seen.at_ms,
        ledger_revision=seen.ledger_revision,
        checkpoint_read=seen.checkpoint_read,
        pod_resources_read=seen.pod_resources_read,
        cgroups_read=seen.cgroups_read,
        processes_read=seen.processes_read,
        slots=[
            pb.SlotUse(
                slot=use.slot,
                pod_uid=use.uid or "",
                namespace=use.pod.namespace,
                pod=use.pod.name,
                container=use.container,
            )
            for use in seen.slots
        ],
        prepared=[
            pb.Prepared(
                slot=one.slot,
                pod_uid=one.uid,
                container=one.container,
                decision=one.decision,
                cards=one.cards,
            )
            for one in seen.prepared
        ],
        pods_with_cgroups=sorted(seen.pods_with_cgroups),
        cards=[
            pb.CardUse(
                card=use.card,
                processes=use.processes,
                used_mib=use.used_mib,
                outside_mib=use.outside_mib,
                outside_by=use.outside_by,
            )
            for use in seen.cards
        ],
        slots_withheld=seen.slots_withheld,
    ).SerializeToString()


def occupancy_in(body: bytes) -> Occupancy:
    """Raises BadRequest where `body` is not an occupancy record."""
    try:
        message = pb.Occupancy.FromString(body)
    except DecodeError as error:
        raise BadRequest(f"not an occupancy record: {error}") from error
    return Occupancy(
        node=NodeName(message.node),
        boot_id=message.boot_id,
        epoch=message.epoch,
        seq=message.seq,
        at_ms=message.at_ms,
        ledger_revision=message.ledger_revision,
        checkpoint_read=message.checkpoint_read,
        pod_resources_read=message.pod_resources_read,
        cgroups_read=message.cgroups_read,
        processes_read=message.processes_read,
        slots=tuple(
            SlotUse(
                slot=SlotId(use.slot),
                uid=PodUid(use.pod_uid) if use.pod_uid else None,
                pod=PodRef(use.namespace, use.pod),
                container=use.container,
            )
            for use in message.slots
        ),
        prepared=tuple(
            Prepared(
                slot=SlotId(one.slot),
                uid=PodUid(one.pod_uid),
                container=one.container,
                decision=DecisionId(one.decision),
                cards=tuple(CardId(card) for card in one.cards),
            )
            for one in message.prepared
        ),
        pods_with_cgroups=frozenset(PodUid(uid) for uid in message.pods_with_cgroups),
        cards=tuple(
            CardUse(
                card=CardId(use.card),
                processes=use.processes,
                used_mib=use.used_mib,
                outside_mib=use.outside_mib,
                outside_by=tuple(use.outside_by),
            )
            for use in message.cards
        ),
        slots_withheld=message.slots_withheld,
    )
