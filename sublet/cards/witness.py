"""A second witness for a card whose driver does not answer: what the kernel's PCI bus says of it."""

from functools import partial
from pathlib import Path

from sublet.cards.worker import Stuck, Worker

DEAD = b"\xff\xff\xff\xff"
"""What a bus answers for a device that is no longer on it."""


class Witness:
    """Asks sysfs in a thread of its own, since a dead bus may hold the asker as well."""

    def __init__(self, sysfs_root: Path, *, limit_s: float) -> None:
        self._devices = sysfs_root / "bus/pci/devices"
        self._worker = Worker(limit_s=limit_s)

    async def gone(self, pci: str | None) -> bool:
        """Whether the bus proves that no card is at `pci` any more; what it does not tell proves nothing."""
        if pci is None:
            return False
        try:
            return await self._worker.call(partial(_gone, self._devices, pci), about=pci)
        except (Stuck, OSError):
            return False

    def close(self) -> None:
        self._worker.close()


def _gone(devices: Path, pci: str) -> bool:
    if not (devices / pci).exists():
        return devices.exists() and any(devices.iterdir())
    with (devices / pci / "config").open("rb") as config:
        return config.read(len(DEAD)) == DEAD
