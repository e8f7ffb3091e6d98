"""One node's entry of an inventory file, read again when the file changes."""

from pathlib import Path

import yaml

from sublet.contract.inventory import InventoryNode, read_inventory
from sublet.model.errors import BadRequest
from sublet.model.ids import NodeName


class InventoryFile:
    """Blocks for as long as disk and parser do."""

    def __init__(self, path: Path, node: NodeName) -> None:
        self._path = path
        self._node = node
        self._read_state: tuple[int, int, int] | None = None

    def newer(self) -> InventoryNode | None:
        """The node's entry if the file changed since the last call, else None.

        Raises:
            BadRequest: the changed file is no inventory, or has no entry for this node.
            OSError: it cannot be read now.
        """
        try:
            state = self._path.stat()
        except OSError:
            self._read_state = None
            raise
        now = (state.st_ino, state.st_mtime_ns, state.st_size)
        if now == self._read_state:
            return None
        text = self._path.read_text()
        self._read_state = now
        try:
            nodes = read_inventory(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise BadRequest(f"{self._path} is not YAML: {error}") from error
        named = [one for one in nodes if one.name == self._node]
        if not named and len(nodes) != 1:
            raise BadRequest(f"{self._path} has {len(nodes)} entries, none of them named {self._node}")
        return (named or list(nodes))[0]
