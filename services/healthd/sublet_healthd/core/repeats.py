"""What faults mean together: the same one again, under different pods, in the same part of a card."""

import re
from collections import Counter
from collections.abc import Iterable

from sublet_healthd.core.facts import Sighting
from sublet_healthd.core.policy import DEGRADED, Repeat, Rule

SIGHTINGS_A_CARD = 16
ALIKE_KEPT = 3
"""So many faults alike are kept where there are too many; more of them say no more."""
_UNIT = re.compile(r"\(GPC (\d+), TPC (\d+)", re.IGNORECASE)


def class_of(rule: Rule, sightings: Iterable[Sighting], code: int) -> str:
    """The class of the reason, now that its fault was seen so often."""
    if rule.repeat is None:
        return rule.klass
    alike = [one for one in sightings if one.code == code]
    groups = _by_unit(alike) if rule.repeat.same_unit else [alike]
    times = max(_times(group, rule.repeat) for group in groups)
    return DEGRADED if times >= rule.repeat.count else rule.klass


def unit_of(raw: str) -> str:
    """The part of the card in which an engine failed, as XID 13 names it; empty where the line names none."""
    found = _UNIT.search(raw)
    return f"GPC {found[1]}, TPC {found[2]}" if found else ""


def newest(sightings: list[Sighting]) -> tuple[Sighting, ...]:
    """No more than are kept; a storm of one kind does not hide what was seen under others before."""
    kept = list(sightings)
    while len(kept) > SIGHTINGS_A_CARD:
        alike = Counter(one.likeness for one in kept)
        surplus = (at for at, one in enumerate(kept) if alike[one.likeness] > ALIKE_KEPT)
        del kept[next(surplus, 0)]
    return tuple(kept)


def _by_unit(alike: list[Sighting]) -> list[list[Sighting]]:
    """Those that name no part count with each that is named."""
    named = {one.unit for one in alike if one.unit}
    return [[one for one in alike if one.unit in ("", unit)] for unit in named] or [alike]


def _times(alike: list[Sighting], repeat: Repeat) -> int:
    return len({one.workload for one in alike}) if repeat.distinct_workloads else len(alike)
