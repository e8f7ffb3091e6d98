"""Reads the MIG instances of one card. Every function blocks and belongs in the worker's thread."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pynvml

from sublet.cards.nvml.library import optional
from sublet.contract.profile import profile_in, profile_of
from sublet.model.card import Partition
from sublet.model.ids import CardId

BEYOND_MEMORY = (
    pynvml.NVML_MEMORY_LOCATION_L1_CACHE,
    pynvml.NVML_MEMORY_LOCATION_L2_CACHE,
    pynvml.NVML_MEMORY_LOCATION_REGISTER_FILE,
    pynvml.NVML_MEMORY_LOCATION_TEXTURE_SHM,
    pynvml.NVML_MEMORY_LOCATION_CBU,
    pynvml.NVML_MEMORY_LOCATION_SRAM,
)
"""An instance has counters of its own for these alone, of which some contain others; those of the memory are
the card's."""


def read_instances(handle: Any, card_mib: int | None) -> Iterator[tuple[Partition, Any]]:
    """Each instance that exists, and its handle, by its place on the card of so much memory.

    One that is destroyed meanwhile is left out. Raises NVMLError.
    """
    for place in range(optional(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        instance = optional(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
        if instance is not None and (partition := _partition(instance, card_mib)) is not None:
            yield partition, instance


def _partition(instance: Any, card_mib: int | None) -> Partition | None:
    uuid = optional(pynvml.nvmlDeviceGetUUID, instance)
    sizes = optional(pynvml.nvmlDeviceGetAttributes, instance)
    if uuid is None or sizes is None:
        return None
    memory_mib = int(sizes.memorySizeMB)
    profile = profile_in(str(optional(pynvml.nvmlDeviceGetName, instance) or "")) or profile_of(
        slices=int(sizes.gpuInstanceSliceCount),
        compute_slices=int(sizes.computeInstanceSliceCount),
        memory_mib=memory_mib,
        card_mib=card_mib or memory_mib,
    )
    return Partition(
        uuid=str(uuid),
        profile=profile,
        memory_mib=memory_mib,
        gi=optional(pynvml.nvmlDeviceGetGpuInstanceId, instance),
        ci=optional(pynvml.nvmlDeviceGetComputeInstanceId, instance),
        slices=int(sizes.computeInstanceSliceCount),
    )


def read_levels(instances: Mapping[CardId, Any]) -> dict[CardId, dict[str, str]]:
    """What the driver counts for each instance, given by its handle; one that is no more has nothing."""
    found: dict[CardId, dict[str, str]] = {}
    for id_, instance in instances.items():
        with contextlib.suppress(pynvml.NVMLError):
            found[id_] = _levels(instance)
    return found


def _levels(instance: Any) -> dict[str, str]:
    counts = [
        optional(
            pynvml.nvmlDeviceGetMemoryErrorCounter,
            instance,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
            location,
        )
        for location in BEYOND_MEMORY
    ]
    known = [int(one) for one in counts if one is not None]
    return {"ecc_uncorrectable": str(max(known))} if known else {}
