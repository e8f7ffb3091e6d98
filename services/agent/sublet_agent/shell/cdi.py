"""The slots' CDI spec files: one a slot, always there, so that a name which Allocate gave always resolves."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import structlog

from sublet.contract import keys
from sublet.model.ids import SlotId
from sublet_agent.core.edits import NOTHING, Edits, cdi_spec, vendor_edits
from sublet_agent.core.slots import slot_ids
from sublet_agent.shell.files import write_atomically

log = structlog.get_logger()

_VENDOR_FILES = (".json", ".yaml", ".yml")


class SpecFiles:
    """Blocking; the driver calls it in a thread."""

    def __init__(self, folder: Path, *, vendor_folders: tuple[Path, ...] = ()) -> None:
        self._folder = folder
        self._vendor_folders = vendor_folders
        self._written: set[SlotId] = set()
        self._vendor: dict[Path, tuple[int, Mapping[str, object]]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def ensure(self, count: int) -> None:
        """Make sure that every slot below `count` has a file; those written before stay as they are."""
        for slot in slot_ids(count):
            if slot not in self._written:
                self.write(slot, NOTHING)

    def write(self, slot: SlotId, edits: Edits) -> None:
        vendor = vendor_edits(self._vendor_specs(), edits.nodes) if edits.nodes else None
        write_atomically(self.path(slot), cdi_spec(slot, edits, vendor))
        self._written.add(slot)

    def clear(self, slot: SlotId) -> None:
        self.write(slot, NOTHING)

    def path(self, slot: SlotId) -> Path:
        return self._folder / f"{keys.DOMAIN}-{slot}.json"

    def _vendor_specs(self) -> Iterator[Mapping[str, object]]:
        for folder in self._vendor_folders:
            for path in sorted(folder.glob("*")):
                if path.suffix in _VENDOR_FILES and not path.name.startswith(f"{keys.DOMAIN}-"):
                    yield self._vendor_spec(path)

    def _vendor_spec(self, path: Path) -> Mapping[str, object]:
        """One spec, parsed once per change of its file; one that is not readable adds nothing."""
        try:
            stamp = path.stat().st_mtime_ns
            known = self._vendor.get(path)
            if known is None or known[0] != stamp:
                text = path.read_text()
                document = json.loads(text) if path.suffix == ".json" else _yaml(text)
                known = self._vendor[path] = (stamp, document if isinstance(document, dict) else {})
        except (OSError, ValueError) as error:
            log.warning("vendor_spec.unreadable", path=str(path), error=repr(error))
            return {}
        return known[1]


def _yaml(text: str) -> object:
    """Imported on demand: 2 MiB on each node for a file that few have."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
