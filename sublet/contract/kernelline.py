"""What a line of the kernel log says of cards: XIDs, NVSwitch codes, cards that fell off the bus. Pure."""

import re
from dataclasses import dataclass

from sublet.contract.pci import pci_address
from sublet.model.health import SignalKind

_ADDRESS = r"(?:PCI:)?([0-9a-f]{1,8}:[0-9a-f]{1,2}:[0-9a-f]{1,2}(?:\.[0-7])?)"
_INSTANCE = r"(?: GPU-I:(?P<gi>\d+))?(?: GPU-CI:(?P<ci>\d+))?"
_XID = re.compile(rf"NVRM: Xid \({_ADDRESS}{_INSTANCE}\): (?P<code>\d+)", re.IGNORECASE)
_SXID = re.compile(rf"nvswitch\d*: SXid \({_ADDRESS}\): (?P<code>\d+)", re.IGNORECASE)
_CARD = re.compile(rf"NVRM: (?:The NVIDIA )?GPU (?:at )?{_ADDRESS}", re.IGNORECASE)
_FALLEN = re.compile(r"fallen off the bus", re.IGNORECASE)
FALLEN_OFF = 79
SAME_MESSAGE_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a line says; `pci` is the card's address, or the switch's for an SXID. `gi` and `ci` are the MIG
    instance's, where it names one."""

    kind: SignalKind
    code: int
    pci: str
    gi: int | None = None
    ci: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The card that an unfinished message has named; `told`: its fall is told already, by an XID."""

    pci: str
    at_ms: int
    told: bool = False


def concerns_cards(text: str) -> bool:
    """Whether `text` is worth reading: nearly no line of a kernel log is."""
    return "NVRM" in text or "SXid" in text


def read_line(text: str, *, at_ms: int, named: Named | None) -> tuple[Line | None, Named | None]:
    """Read one line. A card that falls off the bus without an XID is told in several lines, the address on
    an earlier one than the verb; one that does so with an XID is told of once more in words. `named` carries
    it from line to line."""
    for kind, pattern in ((SignalKind.XID, _XID), (SignalKind.SXID, _SXID)):
        if found := pattern.search(text):
            words = found.groupdict()
            line = Line(
                kind=kind,
                code=int(words["code"]),
                pci=place(found[1]),
                gi=_number(words.get("gi")),
                ci=_number(words.get("ci")),
            )
            fell = kind is SignalKind.XID and line.code == FALLEN_OFF
            return line, Named(pci=line.pci, at_ms=at_ms, told=True) if fell else named
    if named and at_ms - named.at_ms > SAME_MESSAGE_MS:
        named = None
    if found := _CARD.search(text):
        pci = place(found[1])
        if named is None or named.pci != pci:
            named = Named(pci=pci, at_ms=at_ms)
    if _FALLEN.search(text) and named and not named.told:
        return Line(kind=SignalKind.XID, code=FALLEN_OFF, pci=named.pci), Named(
            pci=named.pci, at_ms=at_ms, told=True
        )
    return None, named


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def place(pci: str) -> str:
    """An address without its function, however it was written; empty where it is none."""
    return (pci_address(pci) or "").partition(".")[0]
