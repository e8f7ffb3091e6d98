"""The file that says which nodes an autoscaler can add: an inventory with one node of each kind."""

from pathlib import Path

import yaml

from sublet.contract.inventory import InventoryNode, read_inventory
from sublet.model.card import Inventory
from sublet.model.errors import BadRequest
from sublet_scheduler.core.facts import NodeFacts, Taint
from sublet_scheduler.core.pools import NodePool


def read_pools(path: Path) -> tuple[NodePool, ...]:
    """Raises BadRequest where the file cannot be read or is no inventory."""
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadRequest(
            f"the node pools {path} cannot be read: {error}", hint="See SUBLET_NODE_POOLS"
        ) from None
    return tuple(_pool(node) for node in read_inventory(document))


def _pool(node: InventoryNode) -> NodePool:
    taints = tuple(Taint(key=one.key, value=one.value, effect=one.effect) for one in node.taints)
    return NodePool(
        facts=NodeFacts(
            name=node.name,
            labels=node.labels,
            taints=taints,
            cpu_milli=node.cpu_milli,
            memory_mib=node.memory_mib,
            pods=node.pods,
        ),
        inventory=Inventory(
            node=node.name,
            boot_id="",
            epoch="",
            seq=0,
            at_ms=0,
            cards=node.cards,
            shares_per_card=node.shares_per_card,
            slots=0,
            registered=False,
        ),
    )
