"""What really runs on the node, as others count it, from one observation.

*Outside* of what we gave are processes and containers that hold or see a card which no container of their pod
was prepared with: pods that name cards in variables alone, static pods, processes beside Kubernetes.
"""

from collections.abc import Iterable, Mapping

from sublet.model.card import Card
from sublet.model.ids import CardId, NodeName, PodRef, PodUid, SlotId
from sublet.model.placement import CardUse, Occupancy, Prepared, SlotUse
from sublet_agent.core.exposure import exposed_cards
from sublet_agent.core.observation import Exposure, Holding, Listing, Observation, Process
from sublet_agent.core.record import Record

NOBODY = PodRef("", "")
MOST_NAMED = 16
"""So many outside users of a card are named."""


def occupancy(
    seen: Observation,
    *,
    node: NodeName,
    boot_id: str,
    epoch: str,
    cards: Mapping[CardId, Card],
    holdings: Iterable[Holding],
    records: Mapping[SlotId, Record],
    pods: Mapping[PodUid, PodRef],
    withheld: int,
) -> Occupancy:
    """`holdings` are those of pods that live; `pods` are names known from the ledger, for holders that
    PodResources does not list.

    `seq` is left to the one who publishes.
    """
    return Occupancy(
        node=node,
        boot_id=boot_id,
        epoch=epoch,
        seq=0,
        at_ms=seen.at_ms,
        ledger_revision=seen.revision,
        checkpoint_read=seen.checkpoint is not None,
        pod_resources_read=seen.listings is not None,
        cgroups_read=seen.pods_with_cgroups is not None,
        processes_read=seen.processes_read,
        slots=tuple(_slot_uses(holdings, seen.listings or (), records, pods)),
        prepared=tuple(
            Prepared(
                slot=record.slot,
                uid=record.uid,
                container=container,
                decision=record.decision,
                cards=record.cards,
            )
            for _, record in sorted(records.items())
            for container in sorted(record.containers)
        ),
        pods_with_cgroups=seen.pods_with_cgroups or frozenset(),
        cards=tuple(_card_uses(cards, seen.processes, _alive(seen), records.values())),
        slots_withheld=withheld,
    )


def _slot_uses(
    holdings: Iterable[Holding],
    listings: Iterable[Listing],
    records: Mapping[SlotId, Record],
    pods: Mapping[PodUid, PodRef],
) -> list[SlotUse]:
    listed = {listing.slot: listing.pod for listing in listings}
    names = {record.uid: record.pod for record in records.values()} | dict(pods)
    uses = [
        SlotUse(
            slot=holding.slot,
            uid=holding.uid,
            pod=names.get(holding.uid) or listed.get(holding.slot, NOBODY),
            container=holding.container,
        )
        for holding in holdings
    ]
    known = {(use.slot, use.container) for use in uses}
    uses += [
        SlotUse(slot=listing.slot, uid=None, pod=listing.pod, container=listing.container)
        for listing in listings
        if (listing.slot, listing.container) not in known
    ]
    return sorted(uses, key=lambda use: (use.slot, use.container, use.uid or ""))


def _alive(seen: Observation) -> list[Exposure]:
    """Variables are read less often than the rest: those of pods that have gone count no more."""
    alive = seen.pods_with_cgroups
    return [one for one in seen.exposures if alive is None or one.uid in alive]


def _card_uses(
    cards: Mapping[CardId, Card],
    processes: Iterable[Process],
    exposures: Iterable[Exposure],
    records: Iterable[Record],
) -> list[CardUse]:
    given = {(record.uid, card) for record in records for card in record.cards}
    seers = [(one.uid, card) for one in exposures for card in exposed_cards(one, cards.values())]
    uses = []
    for card in cards:
        mine = [process for process in processes if process.card == card]
        outside = [one for one in mine if one.uid is None or (one.uid, card) not in given]
        named = {_name(one) for one in outside} | {
            f"pod {uid}" for uid, seen in seers if seen == card and (uid, card) not in given
        }
        uses.append(
            CardUse(
                card=card,
                processes=len(mine),
                used_mib=sum(one.used_mib for one in mine),
                outside_mib=sum(one.used_mib for one in outside),
                outside_by=tuple(sorted(named)[:MOST_NAMED]),
            )
        )
    return uses


def _name(process: Process) -> str:
    return f"pod {process.uid}" if process.uid else f"process {process.pid} {process.name}".rstrip()
