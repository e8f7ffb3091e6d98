"""The policy as values: what each observation means, how long things take, how far healthd may go."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.model.health import Action, Mode

CLEARS = ("reset", "reboot", "level", "presence", "manual", "time")
DEGRADED = "degraded"
"""The class of reasons that keep a card in scheduling and under watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """From `count` sightings within the window on, a counted reason becomes a degraded one."""

    count: int
    distinct_workloads: bool = False
    same_unit: bool = False
    """Where the kernel's line names the part of the card, only faults of the same part count together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the policy. `label` names it in verdicts, such as ``xid:79``."""

    label: str
    klass: str
    action: Action
    leave: bool
    clears_on: str
    name: str = ""
    repeat: Repeat | None = None
    ignore: bool = False
    above: float = 0
    ends_in_reset: bool = False
    decode: bool = False
    """Of XID 74 and 144 to 150: where the line says more, what it says counts and not this row."""
    cancels: frozenset[int] = frozenset()
    """Codes of the same kind whose reasons this one takes back: it says that they are over."""
    vendor: str = ""
    differs: str = ""
    source: str = ""

    @property
    def latched(self) -> bool:
        return self.clears_on != "time"


LOST = Rule(label="probe:lost", klass="bus", action=Action.INSPECT, leave=True, clears_on="presence")
UNKNOWN_ACTION = Rule(
    label="recovery_action:unknown", klass="unknown", action=Action.NONE, leave=False, clears_on="level"
)
HOLD = Rule(label="manual:hold", klass="manual", action=Action.NONE, leave=True, clears_on="manual")
UNKNOWN_XID = Rule(label="xid:unknown", klass="unknown", action=Action.NONE, leave=False, clears_on="time")
UNKNOWN_SXID = Rule(label="sxid:unknown", klass="unknown", action=Action.NONE, leave=False, clears_on="time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Every delay of the judge, in milliseconds."""

    idle_grace_ms: int = 15_000
    probation_ms: int = 60_000
    probation_most_ms: int = 3_600_000
    flap_window_ms: int = 86_400_000
    silence_ms: int = 90_000
    sample_ms: int = 10_000
    window_ms: int = 600_000
    heartbeat_fresh_ms: int = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offender:
    """After so many cures of the same reason within the window, only a person brings the card back."""

    resets: int = 3
    reboots: int = 2
    window_ms: int = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much automation may take out within a window before the breaker opens.

    A limit is the larger of `cards` and its percentage; the cards of one single node are always within it.
    """

    fleet_percent: float = 10
    pool_percent: float = 30
    cards: int = 2
    window_ms: int = 600_000
    nodes: int = 3
    nodes_window_ms: int = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What each observation means, by code, value or name; the others are for codes without a row."""

    xid: Mapping[int, Rule]
    sxid: Mapping[int, Rule]
    recovery_action: Mapping[str, Rule]
    level: Mapping[str, Rule]
    other_xid: Rule = UNKNOWN_XID
    other_sxid: Rule = UNKNOWN_SXID

    def xid_rule(self, code: int) -> Rule:
        return self.xid.get(code, self.other_xid)

    def sxid_rule(self, code: int) -> Rule:
        return self.sxid.get(code, self.other_sxid)

    def action_rule(self, value: str) -> Rule:
        return self.recovery_action.get(value, UNKNOWN_ACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvlink5:
    """What a unit of NVLink5 means when it says so; `before_575` and `from_575` are its low bits."""

    code: int
    unit: str
    before_575: str
    from_575: str
    causes: frozenset[int]
    status: frozenset[int]
    vendor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvlink4:
    """What bits of one of the registers of XID 74 mean; `repeat`: from the second time on the same link."""

    register: int
    bits: frozenset[int]
    rule: Rule
    repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All that a judgement depends on besides the card and the time."""

    name: str
    version: str
    rules: Rules
    products: tuple[tuple[str, Rules], ...] = ()
    """Other rules for models whose name has this part, in lower case; the first that fits counts."""
    nvlink5: tuple[Nvlink5, ...] = ()
    nvlink4: tuple[Nvlink4, ...] = ()
    offender: Offender = field(default_factory=Offender)
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    mode: Mode = Mode.ENFORCE

    @property
    def label(self) -> str:
        return f"{self.name}/v{self.version}"

    def of(self, model: str) -> Rules:
        """The rules for cards of that model."""
        lower = model.lower()
        return next((rules for part, rules in self.products if part in lower), self.rules)
