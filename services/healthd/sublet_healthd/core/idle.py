"""Whether a card is idle: what ledger and occupancy of its node prove together."""

from dataclasses import dataclass

from sublet.model.ids import CardId, PodUid
from sublet.model.placement import NodeLedger, Occupancy
from sublet_healthd.core.card import Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of the users of one node's cards.

    `closed_at` is the ledger revision at which the card was first seen closed, without a gap since.
    `fresh` says that the agent which made `occupancy` still speaks.
    """

    ledger: NodeLedger | None
    ledger_complete: bool
    closed_at: int | None
    occupancy: Occupancy | None
    fresh: bool


Units = frozenset[CardId]
"""What stands for a card: itself and its partitions."""


def use_of(units: Units, seen: Evidence) -> Use:
    """A sign of use counts from wherever it comes; idleness needs every source, later than the closing."""
    if seen.ledger and any(grant.grant.card in units for grant in seen.ledger.grants):
        return Use.BUSY
    if seen.occupancy and _on_card(units, seen.occupancy):
        return Use.BUSY
    proved = (
        seen.ledger is not None
        and seen.ledger_complete
        and seen.closed_at is not None
        and seen.occupancy is not None
        and seen.fresh
        and seen.occupancy.ledger_revision >= seen.closed_at
        and seen.occupancy.checkpoint_read
        and seen.occupancy.pod_resources_read
        and (seen.occupancy.cgroups_read or not _prepared(units, seen.occupancy))
    )
    return Use.IDLE if proved else Use.UNCLEAR


def workload_on(units: Units, ledger: NodeLedger | None) -> str:
    grants = ledger.grants if ledger else ()
    return ",".join(sorted({str(grant.pod) for grant in grants if grant.grant.card in units}))


def _on_card(units: Units, seen: Occupancy) -> bool:
    """A container that was given the card and still has its slot or a cgroup, or a process on the card.

    Unreadable processes count as none.
    """
    holders: set[PodUid | None] = {use.uid for use in seen.slots} | seen.pods_with_cgroups
    unnamed = {use.slot for use in seen.slots if use.uid is None}
    if any(one.uid in holders or one.slot in unnamed for one in seen.prepared if units & set(one.cards)):
        return True
    return seen.processes_read and any(use.card in units and use.processes for use in seen.cards)


def _prepared(units: Units, seen: Occupancy) -> bool:
    return any(units & set(one.cards) for one in seen.prepared)
