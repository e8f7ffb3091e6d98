"""A second witness for a card whose driver does not answer: what the kernel's PCI bus says of it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sublet.cards.worker import Stuck, Worker

DEAD = b"\xff\xff\xff\xff"
"""What a bus answers for a device that is no longer on it."""


class Witness:
    """Asks sysfs in a thread of its own, since a dead bus may hold the asker as well. It speaks only of cards
    that it once met: some machines show their bus to nobody, or another one."""

    def __init__(self, sysfs_root: Path, *, limit_s: float) -> None:
        self._devices = sysfs_root / "bus/pci/devices"
        self._worker = Worker(limit_s=limit_s)
        self._met: set[str] = set()

    async def meet(self, pci: str | None) -> None:
        """Look for a card whose driver answers, so that its absence can be noticed later."""
        if pci is not None and pci not in self._met and await self._ask(_there, pci):
            self._met.add(pci)

    async def gone(self, pci: str | None) -> bool:
        """Whether the bus proves that no card is at `pci` any more; what it does not tell proves nothing."""
        return pci is not None and pci in self._met and await self._ask(_gone, pci)

    async def _ask(self, question: Callable[[Path], bool], pci: str) -> bool:
        try:
            return await self._worker.call(partial(question, self._devices / pci), about=pci)
        except (Stuck, OSError):
            return False

    def close(self) -> None:
        self._worker.close()


def _there(device: Path) -> bool:
    return device.exists()


def _gone(device: Path) -> bool:
    if not device.exists():
        return True
    with (device / "config").open("rb") as config:
        return config.read(len(DEAD)) == DEAD
