"""Steers the stand-in: what it says about cards, and what goes wrong."""

import ctypes
import itertools
from dataclasses import dataclass, fields, replace
from pathlib import Path

XID = 8
MIG_CHANGE = 0x100


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeInstance:
    """One MIG instance; `name` is its product name, which not all drivers end with the profile."""

    uuid: str
    name: str = ""
    place: int = 0
    gi: int = 0
    ci: int = 0
    slices: int = 1
    compute_slices: int = 1
    memory_mib: int = 4864
    processes: tuple[tuple[int, int], ...] = ()
    """(pid, MiB)"""
    ecc: int = -1
    error: int = 0

    def line(self) -> str:
        return _line("instance", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCard:
    """One card as the driver shows it; -1 means that the card does not support the call."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB"
    serial: str = ""
    pci: str = ""
    minor: int = -1
    memory_mib: int = 81920
    reserved_mib: int = 0
    mig: int = -1
    group: int = -1
    """Cards of one group hang on one PCIe switch."""
    links: tuple[str, ...] = ()
    """One entry an NVLink: the PCI address at its other end, or `down`."""
    switched: bool = False
    """Whether the links end at an NVSwitch."""
    processes: tuple[tuple[int, int], ...] = ()
    """(pid, MiB)"""
    used_mib: int = 0
    recovery: int = -1
    ecc: int = -1
    ecc_aggregate: int = -1
    ecc_corrected: int = -1
    unrepairable: int = -1
    margin: int = -1
    sram_exceeded: int = -1
    remap_pending: bool = False
    remap_failed: bool = False
    retired_pending: bool = False
    clocks: int = 0
    inforom_corrupt: int = -1
    width: int = -1
    width_max: int = -1
    generation: int = -1
    generation_max: int = -1
    replays: int = -1
    busy_percent: int = -1
    fabric: int = -1
    fabric_status: int = 0
    values: tuple[tuple[int, int], ...] = ()
    """(NVML field id, value)"""
    error: int = 0
    """What every call about the card answers."""
    hang: bool = False
    instances: tuple[FakeInstance, ...] = ()

    def line(self) -> str:
        return "\n".join([_line("card", self), *(one.line() for one in self.instances)])


def _line(kind: str, one: FakeCard | FakeInstance) -> str:
    words = [f"{f.name}={_text(one, f.name)}" for f in fields(one)[1:] if f.name != "instances"]
    return "\t".join([kind, one.uuid, *words])


def _text(one: FakeCard | FakeInstance, name: str) -> str:
    value = getattr(one, name)
    if name in ("processes", "values"):
        return ",".join(f"{first}:{second}" for first, second in value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(int(value)) if isinstance(value, int) else str(value)


class FakeNvml:
    """The state and event files beside one library, which takes changes up at its next call."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self.cards: tuple[FakeCard, ...] = ()
        self.driver = "550.90.07"
        self.settings: dict[str, str] = {}
        self._numbers = itertools.count()
        self._write()

    def show(self, *cards: FakeCard) -> None:
        self.cards = cards
        self._write()

    def change(self, uuid: str, **values: object) -> None:
        self.show(*(replace(c, **values) if c.uuid == uuid else c for c in self.cards))  # type: ignore[arg-type]  # names are FakeCard's

    def set(self, **settings: int | str) -> None:
        """Replaces all: `init_error`, `wait_error`, `set_error` are codes, `hang` is a symbol."""
        self.settings = {key: str(value) for key, value in settings.items()}
        self._write()

    def event(self, uuid: str, kind: int, data: int, *gi_ci: int) -> None:
        with (self.library.parent / "events").open("a") as file:
            file.write(" ".join(map(str, (uuid, kind, data, *gi_ci))) + "\n")

    def calls(self, name: str) -> int:
        """How often `waits` or `sets` (of event sets) were asked for here, or events `delivered`."""
        return int(getattr(ctypes.CDLL(str(self.library)), f"fake_{name}")())

    def _write(self) -> None:
        lines = [f"driver\t{self.driver}", *(f"set\t{key}\t{value}" for key, value in self.settings.items())]
        fresh = self.library.parent / f"state.{next(self._numbers)}"
        fresh.write_text("\n".join([*lines, *(card.line() for card in self.cards)]) + "\n")
        fresh.replace(self.library.parent / "state")
