"""Everything that may happen to the scheduler; the shell makes these, the engine alone judges them."""

from dataclasses import dataclass

from sublet.model.card import Heartbeat, Inventory
from sublet.model.claim import PodAsk
from sublet.model.health import Verdict
from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import NodeLedger, Occupancy
from sublet_scheduler.core.facts import NodeFacts, PodFacts
from sublet_scheduler.core.limits import Quota


@dataclass(frozen=True, slots=True)
class ReviewAsked:
    """An admission review of a claiming pod waits for an answer.

    `known` is the decision id that the object carries already (a reinvocation, or a forgery).
    """

    decision: DecisionId
    ask: PodAsk
    known: DecisionId | None = None
    dry_run: bool = False
    foreign_gates: bool = False


@dataclass(frozen=True, slots=True)
class NodeSeen:
    node: NodeFacts


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: NodeName


@dataclass(frozen=True, slots=True)
class DraServed:
    """The nodes for which a ResourceSlice of a GPU driver exists."""

    nodes: frozenset[NodeName]


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: PodFacts


@dataclass(frozen=True, slots=True)
class PodGone:
    """Deleted, or absent after a new list. `last` is how it looked at the end where the watch told
    (a DELETED event carries the final object), None where only the absence is known."""

    uid: PodUid
    last: PodFacts | None = None


@dataclass(frozen=True, slots=True)
class PodsListed:
    """The first complete list of pods was delivered."""


@dataclass(frozen=True, slots=True)
class NodesListed:
    """The first complete list of nodes was delivered."""


@dataclass(frozen=True, slots=True)
class QuotaSeen:
    """What a namespace may hold, by one of its quotas."""

    namespace: str
    quota: Quota


@dataclass(frozen=True, slots=True)
class QuotaGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class QuotasListed:
    """The first complete list of quotas was delivered."""


@dataclass(frozen=True, slots=True)
class InventorySeen:
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class InventoryGone:
    node: NodeName


@dataclass(frozen=True, slots=True)
class HeartbeatSeen:
    """`age_s` is how old it is by the clocks of both machines; it counts for the first one only, since a
    later one with another number proves that the agent lives, whatever its clock says."""

    beat: Heartbeat
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class OccupancySeen:
    occupancy: Occupancy


@dataclass(frozen=True, slots=True)
class VerdictSeen:
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class VerdictGone:
    node: NodeName
    card: CardId


@dataclass(frozen=True, slots=True)
class LedgerSeen:
    """An entry of the ledger bucket, whoever wrote it."""

    entry: NodeLedger


@dataclass(frozen=True, slots=True)
class LedgerListed:
    """All entries were delivered and this scheduler owns `term` (written to the bucket's meta entry by
    compare-and-set). `complete` is what meta said before: False for a bucket made anew."""

    term: int
    complete: bool


@dataclass(frozen=True, slots=True)
class LedgerLost:
    """The bus is away or the bucket is gone: what the ledger says is unknown until LedgerListed."""


@dataclass(frozen=True, slots=True)
class LedgerWritten:
    """The write of `node`'s entry that the engine asked for was stored under `revision`."""

    node: NodeName
    revision: int


@dataclass(frozen=True, slots=True)
class LedgerWriteFailed:
    """It was not stored, or nobody knows. `entry` is what stands there now, None where even that is
    unknown (the entry then comes as LedgerSeen later)."""

    node: NodeName
    entry: NodeLedger | None = None


@dataclass(frozen=True, slots=True)
class PodPatched:
    """A guarded patch of a pod came to an end. `pod` is the pod as read afterwards (the patched object,
    or by GET after a conflict or an unclear outcome); None: it does not exist any more."""

    uid: PodUid
    done: bool
    pod: PodFacts | None


@dataclass(frozen=True, slots=True)
class PatchUnclear:
    """Neither the patch's outcome nor the pod could be read; try again later."""

    uid: PodUid


@dataclass(frozen=True, slots=True)
class PatchRefused:
    """The API server refuses the patch for good (422, 403): `message` says why."""

    uid: PodUid
    message: str
    pod: PodFacts | None


@dataclass(frozen=True, slots=True)
class PodFound:
    """The API server was asked for a pod. None: there is no pod of that UID any more."""

    uid: PodUid
    pod: PodFacts | None


@dataclass(frozen=True, slots=True)
class EvictionsRefused:
    """These pods stay for now, so that the pod `uid` must look elsewhere: a disruption budget or the API
    server says no."""

    uid: PodUid
    victims: tuple[PodUid, ...]


@dataclass(frozen=True, slots=True)
class NodeReleased:
    """An operator's word that the machine is off: nothing runs on it any more."""

    node: NodeName
    by: str


@dataclass(frozen=True, slots=True)
class TotalsWritten:
    node: NodeName
    done: bool


@dataclass(frozen=True, slots=True)
class BallastWritten:
    """A write of the node's ballast came to an end; `pod` is the pod as read afterwards, None where there
    is none or nobody knows."""

    node: NodeName
    done: bool
    pod: PodFacts | None = None


@dataclass(frozen=True, slots=True)
class PlaceholderWritten:
    """A write of the placeholder of that name came to an end; `pod` is the pod as read afterwards."""

    name: str
    done: bool
    pod: PodFacts | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes; sent when `Engine.due` says so."""


Event = (
    ReviewAsked
    | NodeSeen
    | NodeGone
    | DraServed
    | PodSeen
    | PodGone
    | PodsListed
    | NodesListed
    | QuotaSeen
    | QuotaGone
    | QuotasListed
    | InventorySeen
    | InventoryGone
    | HeartbeatSeen
    | OccupancySeen
    | VerdictSeen
    | VerdictGone
    | LedgerSeen
    | LedgerListed
    | LedgerLost
    | LedgerWritten
    | LedgerWriteFailed
    | PodPatched
    | PatchUnclear
    | PatchRefused
    | PodFound
    | EvictionsRefused
    | NodeReleased
    | TotalsWritten
    | BallastWritten
    | PlaceholderWritten
    | Tick
)
