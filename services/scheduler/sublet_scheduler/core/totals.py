"""What a managed node shows to kube-scheduler: plain extended resources that agree with our decisions."""

from collections.abc import Mapping
from types import MappingProxyType

from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import Options
from sublet.contract.dialects.memoryunits import unit_name
from sublet_scheduler.core.effects import WriteTotals
from sublet_scheduler.core.node import NodeState

WRITTEN = f"{keys.PREFIX}totals"
"""Node annotation: the names of the totals that are ours, so that we never take away another's."""
_NONE: Mapping[str, str] = MappingProxyType({})


def wanted_totals(node: NodeState, options: Options) -> Mapping[str, int]:
    cards = node.counted_cards
    totals: dict[str, int] = {}
    options = options.on(_labels(node))
    for dialect in dialects.enabled(options):
        totals |= dialect.totals(cards, shares_per_card=node.shares_per_card, options=options)
    return totals


def wanted_unit(node: NodeState, options: Options) -> str:
    """What the node shall say of the unit of ``aliyun.com/gpu-mem``; nothing while nobody reads it."""
    if not dialects.serves(keys.ALIYUN_GPU_MEM, options):
        return ""
    return unit_name(options.on(_labels(node)).gpu_mem_unit_mib)


def _labels(node: NodeState) -> Mapping[str, str]:
    return node.facts.labels if node.facts else _NONE


def ours(node: NodeState) -> frozenset[str]:
    """The totals on the node that we wrote."""
    text = node.facts.annotations.get(WRITTEN, "") if node.facts else ""
    return frozenset(part for part in text.split(",") if part)


def foreign_totals(node: NodeState, options: Options) -> frozenset[str]:
    """Served resources which the node shows though we did not write them: another plugin's."""
    if node.facts is None:
        return frozenset()
    shown = {name for name, amount in node.facts.capacity.items() if amount > 0}
    return frozenset(name for name in shown if dialects.serves(name, options)) - ours(node)


def totals_patch(node: NodeState, options: Options, *, managed: bool, leaving: bool) -> WriteTotals | None:
    """What must be written to the Node, if anything."""
    facts = node.facts
    if facts is None:
        return None
    if managed:
        wanted = wanted_totals(node, options)
        stale = tuple(sorted(ours(node) - wanted.keys()))
        label = str(len(node.inventory.cards) if node.inventory else 0)
        unit = wanted_unit(node, options)
        right = all(facts.capacity.get(k) == v and facts.allocatable.get(k) == v for k, v in wanted.items())
        if (
            right
            and not stale
            and facts.labels.get(keys.CARDS_LABEL) == label
            and ours(node) == wanted.keys()
            and facts.annotations.get(keys.GPU_MEM_UNIT, "") == unit
        ):
            return None
        return WriteTotals(node.name, totals=wanted, remove=stale, label=label, unit=unit)
    if leaving and (ours(node) or keys.CARDS_LABEL in facts.labels):
        return WriteTotals(node.name, totals={}, remove=tuple(sorted(ours(node))), label=None)
    return None
