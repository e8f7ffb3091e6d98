"""What was decided: grants per container on one node, and the ledger that records them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sublet.model.claim import ContainerKind
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid, SlotId
from sublet.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CardGrant:
    """A container's part of one card. `memory_mib` is whole MiB, None for the whole of a card of
    unknown memory."""

    card: CardId
    index: int
    memory_mib: int | None
    core_percent: int
    exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Node and cards chosen for a pod; grants of a container by ascending index."""

    node: NodeName
    containers: Mapping[str, tuple[CardGrant, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """Readable, no room now. Every card counts once under the first thing against it, every node
    ruled out before its cards were looked at counts once under its own code."""

    reasons: Mapping[Reason, int]
    message: str = ""


class GrantState(StrEnum):
    COMMITTED = "committed"
    ENDING = "ending"  # still counts, until the node's agent proves that nothing is left of the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerGrant:
    """One container's share of one card as the ledger records it, keyed by pod UID."""

    pod: PodRef
    uid: PodUid
    decision: DecisionId
    container: str
    kind: ContainerKind
    dialect: str
    grant: CardGrant
    state: GrantState = GrantState.COMMITTED
    env: Mapping[str, str] = field(default_factory=dict)
    heir: str = ""
    """For a plain init container: who takes over its slot and cards; the heir is counted, this is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shareable:
    """What shares of a card may have together. Memory in MiB, compute in percent."""

    card: CardId
    memory_mib: int
    core_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLedger:
    """The ledger's entry of one node; `revision` is the bus's, 0 where there is no entry yet."""

    node: NodeName
    term: int
    grants: tuple[LedgerGrant, ...] = ()
    closed: tuple[CardId, ...] = ()
    shareable: tuple[Shareable, ...] = ()
    """Of cards of which more may be promised than they have; for those who show capacity."""
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMeta:
    """Until `complete`, absence in the ledger means unknown, never free."""

    epoch: str
    complete: bool
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUse:
    slot: SlotId
    uid: PodUid | None
    pod: PodRef
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What an agent gave one container: proof of what was acted on."""

    slot: SlotId
    uid: PodUid
    container: str
    decision: DecisionId
    cards: tuple[CardId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    card: CardId
    processes: int
    used_mib: int
    outside_mib: int = 0
    outside_by: tuple[str, ...] = ()
    """Who uses or sees the card without having been given it: pods by UID, processes outside of pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What really runs on a node. It was observed after `ledger_revision` of the node's entry was read,
    so it is evidence for everything that the entry said up to then."""

    node: NodeName
    boot_id: str
    epoch: str
    seq: int
    at_ms: int
    ledger_revision: int
    checkpoint_read: bool
    pod_resources_read: bool
    cgroups_read: bool
    processes_read: bool
    slots: tuple[SlotUse, ...] = ()
    prepared: tuple[Prepared, ...] = ()
    pods_with_cgroups: frozenset[PodUid] = frozenset()
    cards: tuple[CardUse, ...] = ()
    slots_withheld: int = 0
