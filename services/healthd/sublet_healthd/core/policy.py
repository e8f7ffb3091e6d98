"""The policy as values: what each observation means, how long things take, how far healthd may go."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import yaml

from sublet.model.errors import BadRequest
from sublet.model.health import Action, Mode

CLEARS = ("reset", "reboot", "level", "presence", "manual", "time")
DEGRADED = "degraded"
"""The class of reasons that keep a card in scheduling and under watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """From `count` sightings within the window on, a counted reason becomes a degraded one."""

    count: int
    distinct_workloads: bool = False


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
    vendor: str = ""
    differs: str = ""

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
class Policy:
    """All that a judgement depends on besides the card and the time."""

    name: str
    version: str
    xid: Mapping[int, Rule]
    sxid: Mapping[int, Rule]
    recovery_action: Mapping[str, Rule]
    level: Mapping[str, Rule]
    timing: Timing = field(default_factory=Timing)
    mode: Mode = Mode.ENFORCE

    @property
    def label(self) -> str:
        return f"{self.name}/v{self.version}"

    def xid_rule(self, code: int) -> Rule:
        return self.xid.get(code, UNKNOWN_XID)

    def action_rule(self, value: str) -> Rule:
        return self.recovery_action.get(value, UNKNOWN_ACTION)

    def sxid_rule(self, code: int) -> Rule:
        return self.sxid.get(code, UNKNOWN_SXID)


def shipped_policy() -> Policy:
    """The policy that comes with this package."""
    return parse_policy(files(__package__).joinpath("xid-policy.yaml").read_text(encoding="utf-8"))


def parse_policy(text: str) -> Policy:
    """Read a policy.

    Raises:
        BadRequest: not such a YAML document; the message names the row and what is wrong with it.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadRequest(f"the policy is not YAML: {error}") from None
    if not isinstance(data, dict):
        raise BadRequest("the policy is not a mapping", hint="Begin from the shipped xid-policy.yaml")
    known = {"name", "version", "window_s", "xid", "sxid", "recovery_action", "level"}
    if unknown := sorted(set(data) - known):
        raise BadRequest(f"the policy has unknown keys {', '.join(map(str, unknown))}")
    try:
        return Policy(
            name=str(data["name"]),
            version=str(data["version"]),
            xid=dict(_coded("xid", data.get("xid", []))),
            sxid=dict(_coded("sxid", data.get("sxid", []))),
            recovery_action=dict(_named("recovery_action", "value", data.get("recovery_action", []))),
            level=dict(_named("level", "name", data.get("level", []))),
            timing=Timing(window_ms=int(float(data.get("window_s", 600)) * 1000)),
        )
    except KeyError as error:
        raise BadRequest(f"the policy lacks {error}") from None


def _coded(kind: str, rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[int, Rule]]:
    seen: set[int] = set()
    for row in rows:
        rule = _rule(kind, str(row["codes"]), row)
        for code in _codes(str(row["codes"]), where=f"{kind} {row['codes']}"):
            if code in seen:
                raise BadRequest(f"the policy names {kind} {code} twice")
            seen.add(code)
            yield code, replace(rule, label=f"{kind}:{code}")


def _named(kind: str, key: str, rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Rule]]:
    for row in rows:
        yield str(row[key]), _rule(kind, str(row[key]), row)


def _codes(text: str, *, where: str) -> Iterable[int]:
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise BadRequest(f"policy row {where}: {part!r} is neither a code nor a range such as 39-41")
        yield from range(int(first), int(last or first) + 1)


def _rule(kind: str, codes: str, row: Mapping[str, Any]) -> Rule:
    where = f"policy row {kind} {codes}"
    clears_on = str(row["clears_on"])
    if clears_on not in CLEARS:
        raise BadRequest(f"{where}: clears_on {clears_on!r} is not one of {', '.join(CLEARS)}")
    if row["leave"] and clears_on == "time":
        raise BadRequest(f"{where}: time alone never brings a card back", hint="Choose another clears_on")
    try:
        action = Action(str(row["action"]))
    except ValueError:
        raise BadRequest(f"{where}: action {row['action']!r} is not one of {', '.join(Action)}") from None
    repeat = row.get("repeat")
    return Rule(
        label=f"{kind}:{codes}",
        klass=str(row["class"]),
        action=action,
        leave=bool(row["leave"]),
        clears_on=clears_on,
        name=str(row.get("name", "")),
        repeat=Repeat(**repeat) if repeat else None,
        ignore=bool(row.get("ignore", False)),
        above=float(row.get("above", 0)),
        ends_in_reset=bool(row.get("ends_in_reset", False)),
        vendor=str(row.get("vendor", "")),
        differs=str(row.get("differs", "")),
    )
