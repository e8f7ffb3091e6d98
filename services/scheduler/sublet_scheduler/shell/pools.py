"""The file that says which nodes an autoscaler can add: an inventory with one node of each kind."""

from dataclasses import replace
from pathlib import Path

import yaml

from sublet.contract.inventory import InventoryNode, read_inventory
from sublet.model.errors import BadRequest
from sublet_scheduler.core.listed import facts_of, inventory_of
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
    facts = replace(facts_of(node), unschedulable=False)  # nobody cordoned what is not there yet
    return NodePool(facts=facts, inventory=inventory_of(node))
