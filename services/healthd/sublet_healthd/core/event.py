"""What the judge of the fleet is told, and what it answers."""

from dataclasses import dataclass

from sublet.model.card import Heartbeat, Inventory
from sublet.model.health import Breaker, Signal, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import LedgerMeta, NodeLedger, Occupancy
from sublet_healthd.core.fold import Manual
from sublet_healthd.core.judge import Forgotten, Refreshed, Tick, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A verdict of an earlier life; comes before everything else about its card."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class BreakerRestored:
    """The breaker as an earlier life left it."""

    breaker: Breaker


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerActed:
    """A person opened, half-opened or closed the breaker."""

    what: str
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who is on a card, from somebody who speaks for ledger, kubelet and processes together."""

    node: NodeName
    card: CardId
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """A person held, released or acknowledged a card."""

    node: NodeName
    card: CardId
    manual: Manual


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Signals of the recent past, in order; those that were judged before change nothing, the others are
    judged together, so that no state in between is shown again."""

    signals: tuple[Signal, ...]


@dataclass(frozen=True, slots=True)
class LedgerLost:
    """The ledger was created anew: nothing that was read of it counts any more."""


@dataclass(frozen=True, slots=True)
class VerdictsLost:
    """The store of verdicts was created anew and needs all of them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """A fault whose card nobody can name; it blames no card."""

    signal: Signal


@dataclass(frozen=True, slots=True)
class BreakerChanged:
    """The breaker is another one: keep it, and tell where its state is another one too."""

    before: Breaker
    breaker: Breaker


Event = (
    Signal
    | CaughtUp
    | Inventory
    | Heartbeat
    | Occupancy
    | NodeLedger
    | LedgerMeta
    | LedgerLost
    | VerdictsLost
    | Restored
    | Told
    | Acted
    | BreakerRestored
    | BreakerActed
    | Tick
)
CardEffect = Transition | Refreshed | Forgotten
Effect = CardEffect | Unnamed | BreakerChanged
