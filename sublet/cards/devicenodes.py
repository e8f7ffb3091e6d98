"""The character devices of a card, as far as they are present under a root."""

import re
from collections.abc import Sequence
from pathlib import Path

from sublet.cards.port import DeviceNode
from sublet.model.card import Card, Partition

SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
"""Where the driver says which device lets a process use a MIG instance."""
_MINOR = re.compile(r"^DeviceFileMinor:\s*(\d+)", re.MULTILINE)


def nvidia_device_nodes(dev_root: Path, minor: int | None) -> tuple[DeviceNode, ...]:
    """`/dev/nvidia<minor>` first, then what all cards share; a container sees each without the root."""
    return _present(dev_root, [*_own(minor), *SHARED])


def mig_device_nodes(
    dev_root: Path, capabilities: Path, card: Card, partition: Partition
) -> tuple[DeviceNode, ...]:
    """The card's node, those of the partition's GPU instance and compute instance, then what all share."""
    folder = capabilities / f"gpu{card.minor}" / "mig" / f"gi{partition.gi}"
    minors = [_minor(folder / "access"), _minor(folder / f"ci{partition.ci}" / "access")]
    caps = [f"nvidia-caps/nvidia-cap{minor}" for minor in minors if minor]
    return _present(dev_root, [*_own(card.minor), *caps, *SHARED])


def amd_device_nodes(dev_root: Path, drm: Sequence[str]) -> tuple[DeviceNode, ...]:
    """The card's own nodes below /dev/dri first, then what all cards share."""
    return _present(dev_root, [*(f"dri/{name}" for name in drm), "kfd"])


def _own(minor: int | None) -> list[str]:
    return [] if minor is None else [f"nvidia{minor}"]


def _minor(access: Path) -> str:
    """Of the device that a capability's file names; empty where there is no such file."""
    try:
        found = _MINOR.search(access.read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def _present(dev_root: Path, names: Sequence[str]) -> tuple[DeviceNode, ...]:
    found = [(dev_root / "dev" / name, f"/dev/{name}") for name in names]
    return tuple(
        DeviceNode(host_path=str(host), container_path=container)
        for host, container in found
        if host.exists()
    )
