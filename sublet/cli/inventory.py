"""Reads the inventory of `--inventory FILE`."""

import re

from sublet.cli.document import Step, read_documents
from sublet.cli.errors import Unreadable
from sublet.contract.inventory import InventoryNode, read_inventory
from sublet.model.errors import BadRequest

_PLACE = re.compile(r"nodes(?:\[\d+\](?:\([^()]*\))?|\.\w+)*")
_STEP = re.compile(r"\[(\d+)\]|\([^()]*\)|\.?(\w+)")


def read_inventory_file(source: str) -> tuple[InventoryNode, ...]:
    """The nodes of the file's one document, by name.

    Raises:
        Unreadable: it is no inventory.
    """
    documents = read_documents(source)
    if len(documents) != 1:
        raise Unreadable(f"{len(documents)} documents instead of one", source=source)
    [document] = documents
    try:
        nodes = read_inventory(document.value)
    except BadRequest as error:
        raise document.unreadable(str(error), _path_in(str(error))) from None
    return tuple(sorted(nodes, key=lambda node: node.name))


def _path_in(message: str) -> list[Step]:
    """The place that a refusal names, such as ``nodes[0](n1).cards[2](GPU-7).index``."""
    place = _PLACE.search(message)
    steps: list[Step] = []
    for step in _STEP.finditer(place[0] if place else ""):
        number, word = step.groups()
        steps += [int(number)] if number else [word] if word else []
    unknown = re.match(r"unknown key '([^']*)'", message)
    return [*steps, unknown[1]] if unknown else steps
