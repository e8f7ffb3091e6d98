"""A file of JSON lines that stands in for a driver's health reports, in the words of `sublet health replay`.

Lines are taken as they are appended, also by whoever puts a longer file in its place; what was there before
the start is over, as it is for a driver's events. Of the replay's lines only those are taken which a card
source could see.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from sublet.cards.port import Observation
from sublet.contract.fields import Fields
from sublet.contract.pci import pci_address
from sublet.model.errors import BadRequest
from sublet.model.health import SignalKind
from sublet.model.ids import CardId, NodeName
from sublet.model.level import COUNTS, FLAGS

RECOVERY_ACTIONS = ("none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset")
PROBE_RESULTS = ("ok", "lost", "error", "hang")

log = structlog.get_logger()


def read_signal(line: str, node: NodeName) -> Observation | None:
    """One line; None where it is about another node.

    Raises:
        BadRequest: not such a line; the message says what is wrong.
    """
    try:
        document = json.loads(line)
    except ValueError:
        raise BadRequest(f"{line!r} is not JSON") from None
    fields = Fields(document, "")
    kind = SignalKind(fields.choice("kind", tuple(READERS)))
    fields.number("t")
    about = fields.text("node", node)
    observation = READERS[kind](fields)
    fields.finish()
    return observation if about == node else None


def _card(fields: Fields) -> CardId:
    return CardId(fields.name("card"))


def _seen(fields: Fields) -> Observation:
    pci = fields.text("pci")
    return Observation(
        card=_card(fields),
        kind=SignalKind.CARD,
        serial=fields.text("serial"),
        pci=pci_address(pci) or pci,
        model=fields.text("model"),
        boot_id=fields.text("bootId"),
        driver=fields.text("driver"),
    )


def _numbered(kind: SignalKind) -> Callable[[Fields], Observation]:
    def read(fields: Fields) -> Observation:
        fields.required("code")
        return Observation(
            card=_card(fields),
            kind=kind,
            code=fields.whole("code", 0),
            source=fields.text("source", "file"),
            gi=fields.optional_whole("gi"),
            ci=fields.optional_whole("ci"),
        )

    return read


def _recovery_action(fields: Fields) -> Observation:
    value = fields.choice("value", RECOVERY_ACTIONS)
    return Observation(card=_card(fields), kind=SignalKind.RECOVERY_ACTION, value=value)


def _level(fields: Fields) -> Observation:
    name = fields.choice("name", FLAGS + COUNTS)
    fields.required("value")
    value = ("true" if fields.yes("value") else "false") if name in FLAGS else str(fields.whole("value", 0))
    return Observation(card=_card(fields), kind=SignalKind.LEVEL, name=name, value=value)


def _probe(fields: Fields) -> Observation:
    value = fields.choice("result", PROBE_RESULTS)
    return Observation(card=_card(fields), kind=SignalKind.PROBE, value=value)


def _reset(fields: Fields) -> Observation:
    return Observation(card=_card(fields), kind=SignalKind.RESET)


def _boot(fields: Fields) -> Observation:
    return Observation(card=None, kind=SignalKind.BOOT, boot_id=fields.name("bootId"))


def _kernel_line(fields: Fields) -> Observation:
    return Observation(card=None, kind=SignalKind.KMSG, source="kmsg", raw=fields.name("text"))


READERS: Mapping[SignalKind, Callable[[Fields], Observation]] = {
    SignalKind.CARD: _seen,
    SignalKind.XID: _numbered(SignalKind.XID),
    SignalKind.SXID: _numbered(SignalKind.SXID),
    SignalKind.RECOVERY_ACTION: _recovery_action,
    SignalKind.LEVEL: _level,
    SignalKind.PROBE: _probe,
    SignalKind.RESET: _reset,
    SignalKind.BOOT: _boot,
    SignalKind.KMSG: _kernel_line,
}


class SignalFile:
    """Reads what was appended since the last time; blocks for as long as the disk does."""

    def __init__(self, path: Path, node: NodeName) -> None:
        self._path = path
        self._node = node
        self._inode, self._offset = self._end()
        self._begins = self._digest(self._offset)

    def _end(self) -> tuple[int, int]:
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return 0, 0
        return state.st_ino, state.st_size

    def news(self) -> list[Observation]:
        """Whole new lines only. A file that became shorter is read from its start, as is another one in its
        place, unless that begins with all that was read: a ConfigMap is replaced as a whole."""
        inode, size = self._end()
        if size < self._offset or (inode != self._inode and self._digest(self._offset) != self._begins):
            self._offset = 0
        self._inode = inode
        if size == self._offset:
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read(size - self._offset).rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        self._begins = self._digest(self._offset)
        found = (self._read(line) for line in whole.decode(errors="replace").splitlines() if line.strip())
        return [one for one in found if one is not None]

    def _digest(self, size: int) -> bytes:
        """Of the first `size` bytes."""
        if not size:
            return b""
        with self._path.open("rb") as file:
            return hashlib.sha256(file.read(size)).digest()

    def _read(self, line: str) -> Observation | None:
        try:
            return read_signal(line, self._node)
        except BadRequest as error:
            log.warning("signal_file.line_refused", path=str(self._path), line=line[:200], reason=str(error))
            return None
