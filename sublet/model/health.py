"""States of a card, signals about it and verdicts on it (design: a signal's way)."""

from dataclasses import dataclass
from enum import StrEnum

from sublet.model.ids import CardId, NodeName


class HealthState(StrEnum):
    """The state shown is the first that holds, in this order."""

    LOST = "lost"  # the driver does not list the card
    HELD = "held"  # put aside by a person
    QUARANTINED = "quarantined"  # latched reason, idle
    CONDEMNED = "condemned"  # latched reason, still in use
    RECOVERING = "recovering"  # all reasons cleared, probation
    SUSPECT = "suspect"  # signals below a threshold
    UNKNOWN = "unknown"  # no data
    HEALTHY = "healthy"

    @property
    def accepts_shares(self) -> bool:
        """Whether a new share may be placed; `unknown` leaves things as they were, so callers
        who know an older state use that one."""
        return self in (HealthState.HEALTHY, HealthState.SUSPECT, HealthState.UNKNOWN)


class Action(StrEnum):
    """What the vendor advises, weakest first; Sublet names it and leaves it to people."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    RESET_FABRIC = "reset_fabric"
    INSPECT = "inspect"
    REPLACE = "replace"


class Mode(StrEnum):
    """How far healthd may go: say only, give no new shares, or withhold idle cards as well."""

    OBSERVE = "observe"
    GUARD = "guard"
    ENFORCE = "enforce"


class SignalKind(StrEnum):
    CARD = "card"  # seen, with its identity
    XID = "xid"
    SXID = "sxid"
    RECOVERY_ACTION = "recovery_action"
    LEVEL = "level"
    PROBE = "probe"
    RESET = "reset"
    BOOT = "boot"
    KMSG = "kmsg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One raw observation. `at_ms` is Unix time in milliseconds; `card` is None for the whole node."""

    node: NodeName
    card: CardId | None
    kind: SignalKind
    code: int = 0
    name: str = ""
    value: str = ""
    source: str = "file"
    boot_id: str = ""
    epoch: str = ""
    seq: int = 0
    at_ms: int = 0
    count: int = 1
    gi: int | None = None
    ci: int | None = None
    raw: str = ""
    pci: str = ""
    serial: str = ""
    model: str = ""
    driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReason:
    """One member of a card's latched set, such as ``xid:79``; it leaves only by its own clear condition."""

    id: str
    kind: str
    klass: str
    latched: bool
    leave: bool
    """Whether this reason takes the card out of scheduling."""
    clears_on: str
    """reset | reboot | time | level | manual | presence"""
    action: Action
    first_seen_ms: int
    last_seen_ms: int
    count: int = 1
    boot_id: str = ""
    gi: int | None = None
    """The MIG instance that the newest fault named, where it named one."""
    ci: int | None = None


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"  # automation takes nothing out
    HALF_OPEN = "half_open"  # one card at a time, on trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Automation took a card out, for a reason, and when."""

    node: NodeName
    card: CardId
    reason: str
    model: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What keeps automation from taking out too much at once; `why` says what opened it, `by` who did."""

    state: BreakerState = BreakerState.CLOSED
    why: str = ""
    by: str = ""
    since_ms: int = 0
    taken: tuple[Taken, ...] = ()


CARD_ACTS = ("hold", "release", "ack")
BREAKER_ACTS = ("breaker_open", "breaker_half_open", "breaker_close")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualAct:
    """What a person asks of healthd; `node` and `card` are None where it is about the breaker.

    `id` is the same when it is asked again; `until_ms` ends a hold, 0: until released.
    """

    id: str
    node: NodeName | None
    card: CardId | None
    what: str
    by: str
    note: str
    at_ms: int
    until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """What took back a reason for which the card had left: ``reset`` or ``reboot``."""

    reason: str
    how: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A person put the card aside; `until_ms` 0: until released."""

    by: str
    note: str = ""
    until_ms: int = 0


DESTROYED = "destroyed"
"""Rule of a partition that was there and is no more: nothing is wrong with its card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """healthd's judgement of one card or partition, as everybody else acts on it."""

    node: NodeName
    card: CardId
    state: HealthState
    schedulable: bool
    """New shares may be placed (already reflects the mode)."""
    withheld: bool
    """The kubelet shall see this card's number of free slots Unhealthy (already reflects the mode)."""
    reasons: tuple[OpenReason, ...] = ()
    action: Action = Action.NONE
    seq: int = 0
    since_ms: int = 0
    at_ms: int = 0
    policy: str = ""
    rule: str = ""
    not_done: str = ""
    mode: Mode = Mode.ENFORCE
    boot_id: str = ""
    probation_until_ms: int = 0
    flaps: int = 0
    pci: str = ""
    serial: str = ""
    model: str = ""
    events: tuple[str, ...] = ()
    """Ids of public events that are not yet confirmed published."""
    hold: Hold | None = None
    cures: tuple[Cure, ...] = ()
    """Those that still count against a card that falls ill again."""
    breaker: str = ""
    """The state of the breaker where it keeps this card in scheduling against its reasons."""
    condemned_ms: int = 0
    """When faults last took it out; what `flaps` counts within a day of."""
    reset_ms: int = 0
    """The newest observed reset: a fault of before, told again, opens nothing that a reset clears."""
    boot_ms: int = 0
    """When `boot_id` had last been vouched for; alone no reason to write the verdict again."""
    automatic: bool = False
    """Out, or held back, by faults and the probation after them; not by a person's hold."""
    acked_ms: int = 0
    """When a person last acknowledged: a fault of before, told again, opens nothing."""
    term: int = 0
    """Which healthd wrote this, counted up; a writer never overwrites a higher one."""
    parent: CardId | None = None
    """The card that a partition is part of."""
