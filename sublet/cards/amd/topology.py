"""The kernel's compute topology: which render node is which compute node, and how those are joined."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sublet.model.card import Link

XGMI, PCIE = 11, 2
LINKS = {XGMI: Link.NVLINK, PCIE: Link.HOST}
"""In our words: cards joined by the vendor's own links, or over the host."""
FRAME_BUFFER = (1, 2)
"""Kinds of memory bank that are a card's own."""
PARTITION_BITS = 0x7
"""Of a location: the PCI function, in which the kernel numbers the partitions of one card."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNode:
    number: int
    render_minor: int
    gpu_id: int
    domain: int
    location: int
    target: str
    """Such as gfx942."""
    memory_mib: int
    links: Mapping[int, Link]

    @property
    def place(self) -> tuple[int, int]:
        """Equal for all partitions of one card."""
        return self.domain, self.location & ~PARTITION_BITS


def read_topology(sysfs_root: Path) -> dict[int, ComputeNode]:
    """Every compute node of a card by its render minor; empty without the compute driver."""
    folder = sysfs_root / "class/kfd/kfd/topology/nodes"
    found = (_node(one) for one in _numbered(folder))
    return {node.render_minor: node for node in found if node is not None}


def _node(folder: Path) -> ComputeNode | None:
    """None for a processor, and for a node that went while it was read."""
    properties = read_properties(folder / "properties")
    if properties.get("drm_render_minor", 0) <= 0:
        return None
    return ComputeNode(
        number=int(folder.name),
        render_minor=properties["drm_render_minor"],
        gpu_id=_number(folder / "gpu_id"),
        domain=properties.get("domain", 0),
        location=properties.get("location_id", 0),
        target=_target(properties.get("gfx_target_version", 0)),
        memory_mib=sum(_frame_buffers(folder)) // MIB,
        links=dict(_links(folder)),
    )


def _frame_buffers(folder: Path) -> Iterator[int]:
    for bank in _numbered(folder / "mem_banks"):
        properties = read_properties(bank / "properties")
        if properties.get("heap_type") in FRAME_BUFFER:
            yield properties.get("size_in_bytes", 0)


def _links(folder: Path) -> Iterator[tuple[int, Link]]:
    for kind in ("p2p_links", "io_links"):  # what the card drives itself comes last and counts
        for link in _numbered(folder / kind):
            properties = read_properties(link / "properties")
            if properties.get("type") in LINKS and "node_to" in properties:
                yield properties["node_to"], LINKS[properties["type"]]


def _target(version: int) -> str:
    """90402 is gfx942; major and minor are decimal, the step is a hexadecimal digit."""
    major, rest = divmod(version, 10_000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor}{step:x}" if version else ""


def _numbered(folder: Path) -> list[Path]:
    try:
        found = [one for one in folder.iterdir() if one.name.isdigit()]
    except OSError:
        return []
    return sorted(found, key=lambda one: int(one.name))


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def read_properties(file: Path) -> dict[str, int]:
    """Lines ``name number``; others are left out."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
