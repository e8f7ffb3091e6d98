"""Reads a policy from YAML: one whole, or a preset with rows of a cluster's own and others for some models.

A row on top of a preset may leave out what does not differ; ``codes: "*"`` stands for all that no row names.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from math import inf
from typing import Any, TypeVar

import yaml

from sublet.model.errors import BadRequest
from sublet.model.health import Action
from sublet_healthd.core.nvlink import DECODED
from sublet_healthd.core.policy import (
    CLEARS,
    Limits,
    Nvlink4,
    Nvlink5,
    Offender,
    Policy,
    Repeat,
    Rule,
    Rules,
    Timing,
)

T = TypeVar("T")
DEFAULT = "catalogue"
PRESETS = {DEFAULT: "xid-policy.yaml", "device-plugin": "preset-device-plugin.yaml", "eks": "preset-eks.yaml"}
SECTIONS = ("xid", "sxid", "recovery_action", "level")
KEYS = {"preset", "name", "version", "source", "window_s", "offender", "breaker", "products", *SECTIONS}
ROW = {
    "class",
    "action",
    "leave",
    "clears_on",
    "name",
    "repeat",
    "ignore",
    "above",
    "ends_in_reset",
    "decode",
    "cancels",
    "vendor",
    "differs",
    "source",
}
OTHERS = "*"


_CODE = re.compile(r"[0-9]{1,6}")


@cache
def preset(name: str) -> Policy:
    """A policy that comes with this package.

    Raises:
        BadRequest: there is none of that name.
    """
    if name not in PRESETS:
        raise BadRequest(f"there is no policy preset {name!r}", hint=f"Known: {', '.join(PRESETS)}")
    return parse_policy(files(__package__).joinpath(PRESETS[name]).read_text(encoding="utf-8"))


def shipped_policy() -> Policy:
    return preset(DEFAULT)


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
    if unknown := sorted(set(map(str, data)) - KEYS):
        raise BadRequest(f"the policy has unknown keys {', '.join(unknown)}")
    below = preset(str(data["preset"])) if "preset" in data else None
    try:
        name, version = str(data["name"]), str(data["version"])
    except KeyError as error:
        raise BadRequest(f"the policy lacks {error}") from None
    rules = _rules(data, below.rules if below else None)
    timing = below.timing if below else Timing()
    if "window_s" in data:
        timing = replace(timing, window_ms=_ms("window_s", data["window_s"]))
    nvlink5, nvlink4 = _nvlink()
    return Policy(
        name=name,
        version=version,
        rules=rules,
        products=tuple(_product(row, rules) for row in _rows(data, "products")),
        nvlink5=nvlink5,
        nvlink4=nvlink4,
        offender=_numbers(below.offender if below else Offender(), "offender", data.get("offender")),
        limits=_numbers(below.limits if below else Limits(), "breaker", data.get("breaker")),
        timing=timing,
    )


def _product(row: Mapping[str, Any], rules: Rules) -> tuple[str, Rules]:
    if unknown := sorted(set(map(str, row)) - {"model", *SECTIONS}):
        raise BadRequest(f"a product of the policy has unknown keys {', '.join(unknown)}")
    if not row.get("model"):
        raise BadRequest(
            "a product of the policy names no model", hint="model: part of the card's model name"
        )
    return str(row["model"]).lower(), _rules(row, rules)


def _rules(data: Mapping[str, Any], below: Rules | None) -> Rules:
    """The rules of `data`, on top of those `below`; `source` says of a whole section where it comes from."""
    sources = data.get("source") or {}
    if not isinstance(sources, dict):
        raise BadRequest(f"the policy's source {sources!r} does not say of each section where it comes from")
    rows = {
        section: [{"source": sources.get(section, ""), **row} for row in _rows(data, section)]
        for section in SECTIONS
    }
    below = below or Rules(xid={}, sxid={}, recovery_action={}, level={})
    xid, other_xid = _coded("xid", rows["xid"], below.xid, below.other_xid)
    sxid, other_sxid = _coded("sxid", rows["sxid"], below.sxid, below.other_sxid)
    return Rules(
        xid=xid,
        sxid=sxid,
        recovery_action=_named("recovery_action", "value", rows["recovery_action"], below.recovery_action),
        level=_named("level", "name", rows["level"], below.level),
        other_xid=other_xid,
        other_sxid=other_sxid,
    )


def _rows(data: Mapping[str, Any], section: str) -> Iterable[Mapping[str, Any]]:
    rows = data.get(section) or ()
    if not isinstance(rows, list | tuple) or not all(isinstance(row, dict) for row in rows):
        raise BadRequest(
            f"the policy's {section} is {str(rows)[:80]!r}, not a list of rows",
            hint="Each row is a mapping, as in the shipped xid-policy.yaml",
        )
    return rows


def _coded(
    kind: str, rows: Iterable[Mapping[str, Any]], below: Mapping[int, Rule], others: Rule
) -> tuple[dict[int, Rule], Rule]:
    found: dict[int, Rule] = {}
    for row in rows:
        codes = str(row.get("codes", ""))
        if codes == OTHERS:
            others = replace(_rule(kind, codes, row, others), label=f"{kind}:unknown")
            continue
        for code in _codes(codes, where=f"{kind} {codes}"):
            if code in found:
                raise BadRequest(f"the policy names {kind} {code} twice")
            found[code] = replace(_rule(kind, codes, row, below.get(code)), label=f"{kind}:{code}")
    return {**below, **found}, others


def _named(
    kind: str, key: str, rows: Iterable[Mapping[str, Any]], below: Mapping[str, Rule]
) -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for row in rows:
        name = str(row.get(key, ""))
        if not name or name in found:
            raise BadRequest(f"the policy has a row of {kind} without a {key} of its own: {dict(row)}")
        found[name] = _rule(kind, name, row, below.get(name), key)
    return {**below, **found}


def _codes(text: str, *, where: str) -> Iterable[int]:
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        last = last or first
        if not all(_CODE.fullmatch(one) for one in (first, last)) or int(first) > int(last):
            raise BadRequest(f"policy row {where}: {part!r} is neither a code nor a range such as 39-41")
        yield from range(int(first), int(last) + 1)


def _rule(kind: str, codes: str, row: Mapping[str, Any], below: Rule | None, key: str = "codes") -> Rule:
    """`row`, with what it leaves out taken from `below`."""
    where = f"policy row {kind} {codes}"
    if unknown := sorted(set(map(str, row)) - ROW - {key}):
        raise BadRequest(f"{where} has unknown keys {', '.join(unknown)}")
    if below is None and (lacking := sorted({"class", "action", "leave", "clears_on"} - set(row))):
        raise BadRequest(f"{where} lacks {', '.join(lacking)}", hint="Only a row of a preset may be narrowed")
    told: dict[str, Any] = {name: value for name, value in row.items() if name != key}
    if below is not None:
        kept = _columns(below)
        if (told.get("action", below.action), told.get("leave", below.leave)) != (below.action, below.leave):
            kept |= {"differs": "", "decode": False}  # they belong to another judgement
        told = kept | told
    clears_on = str(told["clears_on"])
    if clears_on not in CLEARS:
        raise BadRequest(f"{where}: clears_on {clears_on!r} is not one of {', '.join(CLEARS)}")
    if told["leave"] and clears_on == "time":
        raise BadRequest(f"{where}: time alone never brings a card back", hint="Choose another clears_on")
    try:
        action = Action(str(told["action"]))
    except ValueError:
        raise BadRequest(f"{where}: action {told['action']!r} is not one of {', '.join(Action)}") from None
    return Rule(
        label=f"{kind}:{codes}",
        klass=str(told["class"]),
        action=action,
        leave=bool(told["leave"]),
        clears_on=clears_on,
        name=str(told.get("name", "")),
        repeat=_repeat(told.get("repeat"), where),
        ignore=bool(told.get("ignore", False)),
        above=_above(told.get("above", 0), where),
        ends_in_reset=bool(told.get("ends_in_reset", False)),
        cancels=_cancelled(told.get("cancels"), where),
        decode=_decoded(told, codes, where),
        vendor=str(told.get("vendor", "")),
        differs=str(told.get("differs", "")),
        source=str(told.get("source", "")),
    )


def _decoded(told: Mapping[str, Any], codes: str, where: str) -> bool:
    wanted = bool(told.get("decode", False))
    if wanted and not set(_codes(codes, where=where)) <= DECODED:
        raise BadRequest(
            f"{where}: decode is for XIDs whose lines are decoded", hint="These are 74 and 144 to 150"
        )
    return wanted


def _repeat(told: Any, where: str) -> Repeat | None:
    if told is None or isinstance(told, Repeat):
        return told
    known = {one.name: one for one in fields(Repeat)}
    if not isinstance(told, dict) or "count" not in told or not told.keys() <= known.keys():
        raise BadRequest(f"{where}: repeat {told!r} does not consist of count and any of {', '.join(known)}")
    count = told["count"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise BadRequest(f"{where}: repeat count {count!r} is not a number of times")
    return Repeat(count=count, **{name: bool(value) for name, value in told.items() if name != "count"})


def _cancelled(told: Any, where: str) -> frozenset[int]:
    return told if isinstance(told, frozenset) else frozenset(_codes(str(told), where=where) if told else ())


def _above(told: Any, where: str) -> float:
    if not isinstance(told, int | float) or isinstance(told, bool) or not abs(told) < inf:
        raise BadRequest(f"{where}: above {told!r} is not a number")
    return float(told)


def _columns(rule: Rule) -> dict[str, Any]:
    columns = {
        one.name: getattr(rule, one.name) for one in fields(Rule) if one.name not in ("label", "klass")
    }
    return columns | {"class": rule.klass}


def _numbers(default: T, section: str, given: Mapping[str, Any] | None) -> T:
    """`default` with the numbers that the policy gives; times are written in seconds."""
    values: dict[str, Any] = {}
    known = {one.name: one.name for one in fields(default)}  # type: ignore[arg-type]  # one of our dataclasses
    known |= {name.removesuffix("_ms") + "_s": name for name in known if name.endswith("_ms")}
    if given is not None and not isinstance(given, dict):
        hint = f"Known: {', '.join(known)}"
        raise BadRequest(f"the policy's {section} {given!r} is not a mapping", hint=hint)
    for name, value in (given or {}).items():
        if name not in known or str(name).endswith("_ms"):
            raise BadRequest(f"the policy's {section} has the unknown key {name}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < inf:
            raise BadRequest(f"the policy's {section}: {name}={value!r} is not a number above 0")
        values[known[name]] = _ms(name, value) if name.endswith("_s") else value
    return replace(default, **values)  # type: ignore[type-var]  # as above


def _ms(name: str, value: Any) -> int:
    try:
        return int(float(value) * 1000)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest(f"the policy's {name}={value!r} is not a number of seconds") from None


@cache
def _nvlink() -> tuple[tuple[Nvlink5, ...], tuple[Nvlink4, ...]]:
    data = yaml.safe_load(files(__package__).joinpath("nvlink.yaml").read_text(encoding="utf-8"))
    five = tuple(
        Nvlink5(
            code=row["code"],
            unit=row["unit"],
            before_575=row["before_575"],
            from_575=row["from_575"],
            causes=frozenset(row["causes"]),
            status=frozenset(row["status"]),
            vendor=row["vendor"],
        )
        for row in data["nvlink5"]
    )
    four = tuple(
        Nvlink4(
            register=row["register"],
            bits=frozenset(row["bits"]),
            repeat=row.get("repeat", False),
            rule=Rule(
                label="xid:74",
                klass=row["class"],
                action=Action(row["action"]),
                leave=row["leave"],
                clears_on=row["clears_on"],
                name=row["name"],
            ),
        )
        for row in data["nvlink4"]
    )
    return five, four
