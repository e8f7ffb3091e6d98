"""The character devices of an NVIDIA card, as far as they are present under a root."""

from pathlib import Path

from sublet.cards.port import DeviceNode

SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


def nvidia_device_nodes(dev_root: Path, minor: int | None) -> tuple[DeviceNode, ...]:
    """`/dev/nvidia<minor>` first, then what all cards share; a container sees each without the root."""
    names = ([] if minor is None else [f"nvidia{minor}"]) + list(SHARED)
    found = [(dev_root / "dev" / name, f"/dev/{name}") for name in names]
    return tuple(
        DeviceNode(host_path=str(host), container_path=container)
        for host, container in found
        if host.exists()
    )
