"""Nodes as an inventory document lists them, in the words of the core."""

from sublet.contract.inventory import InventoryNode
from sublet.model.card import Inventory
from sublet_scheduler.core.facts import NodeFacts, Taint


def facts_of(node: InventoryNode) -> NodeFacts:
    """What its object would say, without totals."""
    return NodeFacts(
        name=node.name,
        labels=node.labels,
        taints=tuple(Taint(key=one.key, value=one.value, effect=one.effect) for one in node.taints),
        unschedulable=node.unschedulable,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        pods=node.pods,
    )


def inventory_of(node: InventoryNode) -> Inventory:
    """What its agent would say before it registered."""
    return Inventory(
        node=node.name,
        boot_id="",
        epoch="",
        seq=0,
        at_ms=0,
        cards=node.cards,
        shares_per_card=node.shares_per_card,
        slots=0,
        registered=False,
    )
