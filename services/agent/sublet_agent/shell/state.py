"""What the agent keeps on disk: how many slots there are, what each got, how cards were judged."""

import json
from pathlib import Path

import structlog

from sublet.model.errors import BadRequest
from sublet.model.health import Verdict
from sublet.model.ids import SlotId
from sublet.wire.health import verdicts_in, verdicts_out
from sublet_agent.core.record import Record, record_in, record_out
from sublet_agent.core.slots import MOST
from sublet_agent.shell.files import write_atomically

log = structlog.get_logger()

VERSION = 1


class State:
    """Blocking; the driver calls it in a thread."""

    def __init__(self, folder: Path) -> None:
        self._count = folder / "slots.json"
        self._verdicts = folder / "verdicts.pb"
        self._prepared = folder / "prepared"
        self._prepared.mkdir(parents=True, exist_ok=True)

    def read_count(self) -> int:
        """How many slots were shown last; 0 where nothing readable says so."""
        try:
            document = json.loads(self._count.read_text())
            if document["version"] == VERSION and 0 <= document["count"] <= MOST:
                return int(document["count"])
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("slots.unreadable", path=str(self._count), error=repr(error))
        return 0

    def write_count(self, count: int) -> None:
        write_atomically(self._count, json.dumps({"version": VERSION, "count": count}) + "\n")

    def read_records(self) -> dict[SlotId, Record]:
        found: dict[SlotId, Record] = {}
        for path in sorted(self._prepared.glob("slot-*.json")):
            try:
                record = record_in(path.read_bytes())
            except (OSError, BadRequest) as error:
                log.warning("record.unreadable", path=str(path), error=str(error))
                continue
            found[record.slot] = record
        return found

    def write_record(self, record: Record) -> None:
        write_atomically(self._path(record.slot), record_out(record), mode=0o600)

    def drop_record(self, slot: SlotId) -> None:
        self._path(slot).unlink(missing_ok=True)

    def read_verdicts(self) -> tuple[Verdict, ...]:
        """Those that were written last; none where nothing readable says so."""
        try:
            return verdicts_in(self._verdicts.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, BadRequest) as error:
            log.warning("verdicts.unreadable", path=str(self._verdicts), error=str(error))
            return ()

    def write_verdicts(self, verdicts: tuple[Verdict, ...]) -> None:
        write_atomically(self._verdicts, verdicts_out(verdicts))

    def _path(self, slot: SlotId) -> Path:
        return self._prepared / f"{slot}.json"
