"""The character devices of a card, as far as they are present under a root."""

from collections.abc import Sequence
from pathlib import Path

from sublet.cards.port import DeviceNode

SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


def nvidia_device_nodes(dev_root: Path, minor: int | None) -> tuple[DeviceNode, ...]:
    """`/dev/nvidia<minor>` first, then what all cards share; a container sees each without the root."""
    return _present(dev_root, [*([] if minor is None else [f"nvidia{minor}"]), *SHARED])


def amd_device_nodes(dev_root: Path, drm: Sequence[str]) -> tuple[DeviceNode, ...]:
    """The card's own nodes below /dev/dri first, then what all cards share."""
    return _present(dev_root, [*(f"dri/{name}" for name in drm), "kfd"])


def _present(dev_root: Path, names: Sequence[str]) -> tuple[DeviceNode, ...]:
    found = [(dev_root / "dev" / name, f"/dev/{name}") for name in names]
    return tuple(
        DeviceNode(host_path=str(host), container_path=container)
        for host, container in found
        if host.exists()
    )
