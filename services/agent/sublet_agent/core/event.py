"""What the engine is told, and what it wants done: the whole language between core and shell."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.model.card import Card, Inventory
from sublet.model.health import Verdict
from sublet.model.ids import CardId, SlotId
from sublet.model.placement import LedgerMeta, NodeLedger, Occupancy
from sublet_agent.core.edits import Edits, Node
from sublet_agent.core.identity import Identity
from sublet_agent.core.observation import Observation
from sublet_agent.core.record import Record


@dataclass(frozen=True, slots=True)
class Ask:
    """Names one waiting PreStartContainer call."""

    number: int


# events


@dataclass(frozen=True, slots=True, kw_only=True)
class CardsSeen:
    cards: tuple[Card, ...]
    nodes: Mapping[CardId, tuple[Node, ...]] = field(default_factory=dict)
    driver: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerdictSeen:
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class VerdictGone:
    card: CardId


@dataclass(frozen=True, slots=True)
class LedgerSeen:
    """The node's entry as the watch has it; an entry that does not exist comes with revision 0."""

    entry: NodeLedger


@dataclass(frozen=True, slots=True)
class LedgerForgotten:
    """The ledger's bucket was created anew: nothing is known of the entry."""


@dataclass(frozen=True, slots=True)
class MetaSeen:
    meta: LedgerMeta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRead:
    """The answer to `ReadLedger`; stands only while `generation` is still current."""

    generation: int
    meta: LedgerMeta | None
    entry: NodeLedger


@dataclass(frozen=True, slots=True)
class Observed:
    observation: Observation


@dataclass(frozen=True, slots=True)
class SlotsTaken:
    """The kubelet called Allocate; checkpoint and PodResources show it a moment later."""

    slots: tuple[SlotId, ...]


@dataclass(frozen=True, slots=True)
class StartAsked:
    ask: Ask
    who: Identity


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `Started` asked for is on disk; only from now on it is a record."""

    record: Record


@dataclass(frozen=True, slots=True)
class SlotsUnkept:
    """What `KeepSlotCount` asked for could not be written, so that the slots were not shown."""


@dataclass(frozen=True, slots=True)
class VerdictsUnkept:
    """What `KeepVerdicts` asked for could not be written."""


@dataclass(frozen=True, slots=True)
class RegistrationChanged:
    registered: bool


@dataclass(frozen=True, slots=True)
class BusReached:
    """A connection to the bus was made, perhaps to one that has lost everything."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes."""


Event = (
    CardsSeen
    | VerdictSeen
    | VerdictGone
    | LedgerSeen
    | LedgerForgotten
    | MetaSeen
    | LedgerRead
    | Observed
    | SlotsTaken
    | StartAsked
    | Prepared
    | SlotsUnkept
    | VerdictsUnkept
    | RegistrationChanged
    | BusReached
    | Tick
)


# effects, to be carried out in order


@dataclass(frozen=True, slots=True)
class KeepSlotCount:
    """Write it to disk, with a spec file for every slot, before any slot is shown; where that fails, show
    nothing new and tell `SlotsUnkept`."""

    count: int


@dataclass(frozen=True, slots=True)
class ShowSlots:
    count: int
    withheld: frozenset[SlotId]


@dataclass(frozen=True, slots=True)
class Started:
    """Write the slot's spec and the record, tell `Prepared`, then answer the call."""

    ask: Ask
    record: Record
    again: bool


@dataclass(frozen=True, slots=True)
class Refused:
    ask: Ask
    reason: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Write the slot's spec as it was prepared."""

    slot: SlotId
    edits: Edits


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the slot's record and make its spec say nothing again."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class KeepVerdicts:
    """Write them to disk, in place of those that are there; where that fails, tell `VerdictsUnkept`."""

    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Observe the node now."""


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """Read entry and meta directly, past the watch."""

    generation: int


@dataclass(frozen=True, slots=True)
class PublishInventory:
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class PublishOccupancy:
    occupancy: Occupancy


@dataclass(frozen=True, slots=True)
class Announce:
    """Signal the node's boot and who these cards are; the card source itself says so of new ones only."""

    cards: tuple[Card, ...]


Effect = (
    KeepSlotCount
    | ShowSlots
    | Started
    | Refused
    | Restore
    | Forget
    | KeepVerdicts
    | Look
    | ReadLedger
    | PublishInventory
    | PublishOccupancy
    | Announce
)
