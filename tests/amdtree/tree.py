"""Writes the files below /sys that tell of AMD cards, in a folder of a test."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

XGMI, PCIE = 11, 2
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdGpu:
    """One card; its compute nodes have the numbers `node`, `node` + 1 … for itself and each partition."""

    pci: str
    node: int
    unique_id: str = ""
    model: str = "AMD Instinct MI300X"
    serial: str = ""
    memory_mib: int = 196_592
    numa: int = -1
    compute: str = "SPX"
    memory: str = "NPS1"
    partitions: int = 0
    """Besides the card's own device."""
    links: Mapping[int, int] = field(default_factory=dict)
    """Number of another compute node -> kind of link."""
    uncorrectable: int | None = None
    in_kfd: bool = True

    @property
    def render(self) -> int:
        return 128 + self.node


class AmdTree:
    """A driver that is loaded and shows `cards`; every change writes the tree anew."""

    def __init__(self, root: Path, *, dotted: bool = False) -> None:
        self.root = root
        self._dotted = dotted
        """Newer kernels name partitions `amdgpu_xcp.<n>`."""
        self._xcps = 0

    def show(self, *cards: AmdGpu) -> None:
        for part in ("module", "class", "devices"):
            shutil.rmtree(self.root / part, ignore_errors=True)
        self._xcps = 0
        drivers = self.root / "module/amdgpu/drivers/pci:amdgpu"
        drivers.mkdir(parents=True)
        (drivers / "bind").touch()
        _write(self.root / "module/amdgpu/version", "6.10.5")
        (self.root / "class/kfd/kfd/proc").mkdir(parents=True)
        _write(self._node(0) / "properties", "cpu_cores_count 64\ndrm_render_minor 0")
        for card in cards:
            self._card(drivers / card.pci, card)

    def fail(self, pci: str, *, errors: int) -> None:
        """The card counts so many uncorrectable errors."""
        _write(
            self.root / f"module/amdgpu/drivers/pci:amdgpu/{pci}/ras/umc_err_count", f"ue: {errors}\nce: 7"
        )

    def hold(self, pid: int, card: AmdGpu, mib: int) -> None:
        _write(self.root / f"class/kfd/kfd/proc/{pid}/vram_{1000 + card.node}", str(mib * MIB))

    def _card(self, folder: Path, card: AmdGpu) -> None:
        texts = {
            "current_compute_partition": card.compute,
            "current_memory_partition": card.memory,
            "numa_node": str(card.numa),
            "mem_info_vram_total": str(card.memory_mib * MIB),
            "product_name": card.model,
            "unique_id": card.unique_id,
            "serial_number": card.serial,
        }
        for name, text in texts.items():
            if text:
                _write(folder / name, text)
        if card.uncorrectable is not None:
            self.fail(card.pci, errors=card.uncorrectable)
        self._drm(folder, card.node)
        if card.in_kfd:
            self._compute(card, 0)
        for part in range(1, card.partitions + 1):
            name = f"amdgpu_xcp{'.' if self._dotted else '_'}{self._xcps}"
            self._xcps += 1
            self._drm(self.root / "devices/platform" / name, card.node + part)
            self._compute(card, part)

    def _drm(self, folder: Path, node: int) -> None:
        for name in (f"card{node}", f"renderD{128 + node}", f"controlD{64 + node}"):
            (folder / "drm" / name).mkdir(parents=True)

    def _compute(self, card: AmdGpu, part: int) -> None:
        domain, bus, device = card.pci.partition(".")[0].split(":")
        folder = self._node(card.node + part)
        properties = {
            "simd_count": 1216,
            "drm_render_minor": card.render + part,
            "domain": int(domain, 16),
            "location_id": int(bus, 16) << 8 | int(device, 16) << 3 | part,
            "gfx_target_version": 90402,
        }
        _write(folder / "properties", "\n".join(f"{name} {value}" for name, value in properties.items()))
        _write(folder / "gpu_id", str(1000 + card.node + part))
        share_mib = card.memory_mib // (card.partitions + 1)
        _write(folder / "mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {share_mib * MIB}")
        for number, (other, kind) in enumerate(card.links.items()):
            link = f"node_from {card.node}\nnode_to {other}\ntype {kind}"
            folder_of = "io_links" if kind == XGMI else "p2p_links"
            _write(folder / folder_of / str(number) / "properties", link)

    def _node(self, number: int) -> Path:
        return self.root / f"class/kfd/kfd/topology/nodes/{number}"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")
