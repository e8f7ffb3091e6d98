"""Decodes what NVLink units say in XID 74 and 144 to 150: the row that the line itself names."""

import re
from dataclasses import replace

from sublet.model.health import Action
from sublet_healthd.core.policy import Nvlink5, Policy, Rule

NVLINK4_CODE = 74
NVLINK5_CODES = range(144, 151)
DECODED = frozenset({NVLINK4_CODE, *NVLINK5_CODES})
FROM_575 = 575
_UNIT = re.compile(r"\bLink (\d+) \((0x[0-9a-f]+) (0x[0-9a-f]+)[^)]*\)", re.IGNORECASE)
_REGISTERS = re.compile(r"\blink (\d+) ?\(((?:0x[0-9a-f]+(?:, ?)?){5,7})\)", re.IGNORECASE)
_CAUSE_BIT = 20
_CAUSE_MASK = 0x3F


def link_of(code: int, raw: str) -> int | None:
    """The link that the line names."""
    found = (_REGISTERS if code == NVLINK4_CODE else _UNIT).search(raw)
    return int(found[1]) if found else None


def decoded(policy: Policy, rule: Rule, code: int, raw: str, *, driver: str, seen_before: bool) -> Rule:
    """`rule` where the line says no more; `seen_before`: the same link failed in the last day."""
    if not rule.decode:
        return rule
    if code == NVLINK4_CODE:
        return _registers(policy, rule, raw, seen_before=seen_before)
    if code in NVLINK5_CODES:
        return _unit(policy, rule, code, raw, driver)
    return rule


def _registers(policy: Policy, rule: Rule, raw: str, *, seen_before: bool) -> Rule:
    found = _REGISTERS.search(raw)
    if found is None:
        return rule
    registers = [int(word.strip(), 16) for word in found[2].split(",") if word.strip()]
    named = [
        row.rule if seen_before or not row.repeat else rule
        for row in policy.nvlink4
        if row.register < len(registers) and any(registers[row.register] >> bit & 1 for bit in row.bits)
    ]
    order = list(Action)
    strongest = max(named, key=lambda one: (one.leave, order.index(one.action)), default=rule)
    return replace(strongest, label=rule.label)


def _unit(policy: Policy, rule: Rule, code: int, raw: str, driver: str) -> Rule:
    found, major = _UNIT.search(raw), driver.partition(".")[0]
    if found is None or not major.isdigit():
        return rule
    info, status = int(found[2], 16), int(found[3], 16)
    newer = int(major) >= FROM_575
    row = next(
        (row for row in policy.nvlink5 if row.code == code and _fits(row, info, status, newer=newer)), None
    )
    if row is None:
        return rule
    out = row.vendor == "RESET_GPU"
    return replace(
        rule,
        name=row.unit,
        klass="link",
        action=Action.RESET_GPU if out else Action.NONE,
        leave=out,
        clears_on="reset" if out else "time",
    )


def _fits(row: Nvlink5, info: int, status: int, *, newer: bool) -> bool:
    low = row.from_575 if newer else row.before_575
    return (
        info & ((1 << len(low)) - 1) == int(low, 2)
        and (info >> _CAUSE_BIT) & _CAUSE_MASK in row.causes
        and status in row.status
    )
