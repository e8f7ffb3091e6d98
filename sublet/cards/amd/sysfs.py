"""Reads AMD cards from sysfs. Every function blocks for as long as the driver does."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sublet.cards.amd.topology import MIB, ComputeNode
from sublet.contract.pci import pci_address
from sublet.model.card import Card, Link, Partition, Vendor
from sublet.model.ids import CardId

WHOLE = ("", "spx")
"""Compute modes in which a card is one device."""
_XCP = re.compile(r"amdgpu_xcp[._](\d+)")
_RAS = re.compile(r"^ue: (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdCard:
    """One card with what is known of it besides; `nodes` are its compute nodes, the first its own."""

    card: Card
    folder: Path
    drm: tuple[str, ...]
    """Names below /dev/dri."""
    nodes: tuple[ComputeNode, ...]


def driver_loaded(sysfs_root: Path) -> bool:
    return (sysfs_root / "module/amdgpu/drivers").is_dir()


def driver_version(sysfs_root: Path) -> str:
    return read_text(sysfs_root / "module/amdgpu/version")


def card_folders(sysfs_root: Path) -> list[Path]:
    """One for each card, by PCI address."""
    folder = sysfs_root / "module/amdgpu/drivers/pci:amdgpu"
    return sorted(one for one in folder.glob("*") if pci_address(one.name) == one.name.lower())


def read_card(folder: Path, index: int, topology: Mapping[int, ComputeNode], sysfs_root: Path) -> AmdCard:
    """Raises OSError where the card went while it was read."""
    pci = folder.name.lower()
    drm = _drm(folder)
    render = _render_minor(drm)
    own = topology.get(render) if render is not None else None
    mates = [one for one in topology.values() if own is not None and one.place == own.place and one != own]
    partitions = tuple(_partitions(sysfs_root, folder, mates))
    unique = read_text(folder / "unique_id")
    card = Card(
        id=CardId(f"GPU-{unique}" if unique.strip("0") else f"amd-{pci}"),
        index=index,
        vendor=Vendor.AMD,
        model=read_text(folder / "product_name") or f"AMD {own.target if own else ''}".strip(),
        memory_mib=_memory_mib(folder),
        numa=_numa(folder),
        pci=pci,
        serial=read_text(folder / "serial_number") or None,
        minor=render,
        mig=read_text(folder / "current_compute_partition").lower() not in WHOLE,
        partitions=partitions,
    )
    return AmdCard(card=card, folder=folder, drm=drm, nodes=(*([own] if own else []), *mates))


def _drm(folder: Path) -> tuple[str, ...]:
    names = [one.name for one in (folder / "drm").iterdir()]
    return tuple(sorted(name for name in names if re.fullmatch(r"(card|renderD)\d+", name)))


def _render_minor(drm: Sequence[str]) -> int | None:
    return next((int(name.removeprefix("renderD")) for name in drm if name.startswith("renderD")), None)


def _partitions(sysfs_root: Path, folder: Path, mates: Sequence[ComputeNode]) -> Iterator[Partition]:
    """Slices besides the card's own device; one that the compute driver does not know is none."""
    modes = ("current_compute_partition", "current_memory_partition")
    profile = "_".join(read_text(folder / mode).lower() for mode in modes)
    nodes = {node.render_minor: node for node in mates}
    found = {}
    for one in (sysfs_root / "devices/platform").glob("amdgpu_xcp*"):
        name = _XCP.fullmatch(one.name)
        if name is None or not (one / "drm").is_dir():
            continue
        if (node := nodes.get(_render_minor(_drm(one)) or -1)) is not None:
            found[int(name[1])] = node
    for number in sorted(found):
        yield Partition(uuid=f"amdgpu_xcp_{number}", profile=profile, memory_mib=found[number].memory_mib)


def _memory_mib(folder: Path) -> int | None:
    total = read_text(folder / "mem_info_vram_total")
    return int(total) // MIB or None if total.isdigit() else None


def _numa(folder: Path) -> int | None:
    node = read_text(folder / "numa_node")
    return int(node) if node.isdigit() else None  # the kernel writes -1 for a machine without NUMA


def links(cards: Sequence[AmdCard]) -> dict[CardId, dict[CardId, Link]]:
    """For each card its links to the others, the best of all its compute nodes."""
    owners = {node.number: one.card.id for one in cards for node in one.nodes}
    order = list(Link)
    found: dict[CardId, dict[CardId, Link]] = {one.card.id: {} for one in cards}
    for one in cards:
        for node in one.nodes:
            for number, link in node.links.items():
                other = owners.get(number)
                if other is None or other == one.card.id:
                    continue
                for here, there in ((one.card.id, other), (other, one.card.id)):
                    found[here][there] = min(link, found[here].get(there, link), key=order.index)
    return found


def uncorrectable_errors(folder: Path) -> int | None:
    """Of all blocks of the card since it was reset; None where the card does not count them."""
    counts = [
        int(found[1])
        for file in (folder / "ras").glob("*_err_count")
        if (found := _RAS.search(read_text(file)))
    ]
    return sum(counts) if counts else None


def processes(sysfs_root: Path, gpu_ids: frozenset[int]) -> dict[int, int] | None:
    """Bytes of video memory by process id; None without the compute driver."""
    folder = sysfs_root / "class/kfd/kfd/proc"
    if not folder.is_dir():
        return None
    used: dict[int, int] = {}
    for process in folder.iterdir():
        for gpu_id in gpu_ids:
            text = read_text(process / f"vram_{gpu_id}")
            if process.name.isdigit() and text.isdigit() and int(text):
                used[int(process.name)] = used.get(int(process.name), 0) + int(text)
    return used


def read_text(file: Path) -> str:
    """Without the end of the line; empty where there is none."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
