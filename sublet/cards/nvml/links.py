"""Which cards of a node are joined, and how well: from what the driver says of each one. Pure."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from sublet.cards.nvml.reading import Reading
from sublet.model.card import Link
from sublet.model.ids import CardId

WITHIN_SWITCH = 20
"""The farthest common ancestor (NVML: several PCIe switches) below a host bridge."""


def links(
    readings: Sequence[Reading], ancestors: Mapping[tuple[CardId, CardId], int]
) -> dict[CardId, dict[CardId, Link]]:
    """For each card its links to the others; a pair of which nothing is known has none."""
    found: dict[CardId, dict[CardId, Link]] = {reading.card.id: {} for reading in readings}
    for one, other in combinations(readings, 2):
        level = ancestors.get((one.card.id, other.card.id), ancestors.get((other.card.id, one.card.id)))
        link = _link(one, other, level)
        if link is not None:
            found[one.card.id][other.card.id] = found[other.card.id][one.card.id] = link
    return found


def _link(one: Reading, other: Reading, level: int | None) -> Link | None:
    if one.on_switch and other.on_switch:
        return Link.NVLINK
    if other.card.pci in one.nvlinks or one.card.pci in other.nvlinks:
        return Link.NVLINK
    if level is None:
        return None
    return Link.SWITCH if level <= WITHIN_SWITCH else Link.HOST
