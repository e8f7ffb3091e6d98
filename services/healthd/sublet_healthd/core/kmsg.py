"""Lines of the kernel log as signals: XIDs, NVSwitch codes, cards that fell off the bus."""

import re
from dataclasses import dataclass

from sublet.contract.pci import pci_address
from sublet.model.health import SignalKind

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d+)", re.IGNORECASE)
_SXID = re.compile(r"nvswitch\d*: SXid \(PCI:([0-9a-f:.]+)\): (\d+)", re.IGNORECASE)
_CARD = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-f]{1,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)", re.IGNORECASE)
_FALLEN = re.compile(r"fallen off the bus", re.IGNORECASE)
FALLEN_OFF = 79
SAME_MESSAGE_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a line says; `pci` is the card's address, or the switch's for an SXID."""

    kind: SignalKind
    code: int
    pci: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The card that an unfinished message has named."""

    pci: str
    at_ms: int


def read_line(text: str, *, at_ms: int, named: Named | None) -> tuple[Line | None, Named | None]:
    """Read one line. A card that falls off the bus without an XID is told in several lines, the address on
    an earlier one than the verb: `named` carries it from line to line."""
    for kind, pattern in ((SignalKind.XID, _XID), (SignalKind.SXID, _SXID)):
        if found := pattern.search(text):
            return Line(kind=kind, code=int(found[2]), pci=place(found[1])), named
    if found := _CARD.search(text):
        named = Named(pci=place(found[1]), at_ms=at_ms)
    if _FALLEN.search(text) and named and at_ms - named.at_ms <= SAME_MESSAGE_MS:
        return Line(kind=SignalKind.XID, code=FALLEN_OFF, pci=named.pci), None
    return None, named


def place(pci: str) -> str:
    """An address without its function, however it was written; empty where it is none."""
    return (pci_address(pci) or "").partition(".")[0]
