"""Reads one card through NVML. Every function blocks, belongs in the worker's thread and raises NVMLError."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml

from sublet.cards.nvml.instances import read_instances
from sublet.cards.nvml.library import optional
from sublet.cards.port import ProcessUse
from sublet.contract.pci import pci_address
from sublet.model.card import Card
from sublet.model.ids import CardId

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A card as the driver lists it; `card` is without links, which need the others to be known."""

    card: Card
    handle: Any
    nvlinks: frozenset[str] = frozenset()
    """PCI addresses at the other ends of active NVLinks."""
    on_switch: bool = False
    """Some of them end at an NVSwitch, which joins all cards on it."""
    instances: Mapping[CardId, Any] = field(default_factory=dict)
    """The handles of its MIG instances."""


def read_card(index: int, sysfs_root: Path) -> Reading:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    pci = _pci(optional(pynvml.nvmlDeviceGetPciInfo, handle))
    mode = optional(pynvml.nvmlDeviceGetMigMode, handle)
    mig = mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    instances = list(read_instances(handle, _total_mib(handle))) if mig else []
    ends = list(_link_ends(handle))
    card = Card(
        id=CardId(uuid),
        index=index,
        model=str(optional(pynvml.nvmlDeviceGetName, handle) or ""),
        memory_mib=_memory_mib(handle),
        numa=_numa(sysfs_root, pci),
        pci=pci,
        serial=optional(pynvml.nvmlDeviceGetSerial, handle),
        minor=optional(pynvml.nvmlDeviceGetMinorNumber, handle),
        mig=mig,
        partitions=tuple(partition for partition, _ in instances),
    )
    return Reading(
        card=card,
        handle=handle,
        nvlinks=frozenset(address for address, switch in ends if address and not switch),
        on_switch=any(switch for _, switch in ends),
        instances={CardId(partition.uuid): instance for partition, instance in instances},
    )


def _memory_mib(handle: Any) -> int | None:
    """What containers can have: without the part that the driver keeps, where it tells that."""
    found = optional(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if found is not None:
        return int(found.total - found.reserved) // MIB or None
    return _total_mib(handle)


def _total_mib(handle: Any) -> int | None:
    found = optional(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if found is None else int(found.total) // MIB or None


def _pci(info: Any) -> str | None:
    if info is None:
        return None
    text = info.busId
    return pci_address(text.decode() if isinstance(text, bytes) else str(text))


def _numa(sysfs_root: Path, pci: str | None) -> int | None:
    if pci is None:
        return None
    try:
        node = int((sysfs_root / "bus/pci/devices" / pci / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None  # the kernel writes -1 for a machine without NUMA


def _link_ends(handle: Any) -> Iterator[tuple[str | None, bool]]:
    """(PCI address at the other end, whether that is an NVSwitch) of each active NVLink."""
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = optional(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            return
        if state == pynvml.NVML_FEATURE_ENABLED:
            kind = optional(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            address = _pci(optional(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link))
            yield address, kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH


def read_ancestors(handle: Any, others: Mapping[CardId, Any]) -> dict[CardId, int]:
    """How near each other card is: 0 the same board, up to 50 another socket."""
    levels = {
        other: optional(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, end)
        for other, end in others.items()
    }
    return {other: int(level) for other, level in levels.items() if level is not None}


def read_processes(handle: Any) -> tuple[ProcessUse, ...] | None:
    """Who holds the card; None where the driver has no list at all."""
    lists = [
        optional(call, handle)
        for call in (
            pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
            pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
            pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
        )
    ]
    if all(one is None for one in lists):
        return None
    used: dict[int, int] = {}
    for process in (process for one in lists for process in one or ()):
        used[process.pid] = max(used.get(process.pid, 0), (process.usedGpuMemory or 0) // MIB)
    return tuple(ProcessUse(pid=pid, used_mib=used_mib) for pid, used_mib in sorted(used.items()))
