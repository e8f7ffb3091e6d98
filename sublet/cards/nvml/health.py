"""Reads how one card is. Every function blocks, belongs in the worker's thread and raises NVMLError."""

from collections.abc import Mapping
from ctypes import byref
from dataclasses import dataclass, field
from typing import Any

import pynvml

from sublet.cards.nvml.library import Meaning, code, meaning, optional
from sublet.cards.nvml.rates import Counters
from sublet.cards.nvml.reading import read_processes

MIB = 1 << 20
RETIRED_PAGES_LIMIT = 63
"""A card that has retired so many pages retires no more (NVIDIA's dynamic page retirement)."""
RECOVERY_ACTIONS = {
    pynvml.NVML_GPU_RECOVERY_ACTION_NONE: "none",
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "gpu_reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "node_reboot",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "drain_p2p",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "drain_and_reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET: "gpu_reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: "node_reboot",
}
ACTION = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
SLOWDOWN_MARGIN = pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT
RETIRED = (pynvml.NVML_FI_DEV_RETIRED_SBE, pynvml.NVML_FI_DEV_RETIRED_DBE)
REPLAYS = (
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
CRCS = (
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
)
FABRIC_WORKS = (pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, pynvml.NVML_GPU_FABRIC_STATE_COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReading:
    """What the driver says about a card's health; a level that it does not have is left out.

    `counters` only ever grow; what they mean shows over time.
    """

    recovery_action: str = ""
    levels: Mapping[str, str]
    counters: Counters = field(default_factory=Counters)
    leftover_mib: int | None = None
    """Memory in use although no process holds the card."""


def read_health(handle: Any, *, inforom: bool, mig: bool = False) -> HealthReading:
    """`inforom`: also let the driver prove the InfoROM, which reads all of a slow memory. `mig`: the memory
    that instances take for themselves is no leftover."""
    memory = _memory(handle)  # also proves that the card answers
    values = _fields(handle, ACTION, SLOWDOWN_MARGIN, *RETIRED, *REPLAYS, *CRCS)
    action = values.get(ACTION)
    return HealthReading(
        recovery_action="" if action is None else RECOVERY_ACTIONS.get(action, ""),
        levels=_ecc(handle)
        | _rows_and_pages(handle, values)
        | _clocks(handle)
        | _heat(handle, values)
        | _board(handle, inforom),
        counters=Counters(
            width=optional(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            width_most=optional(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
            generation=optional(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            generation_most=optional(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            busy_percent=_busy_percent(handle),
            pcie_replays=optional(pynvml.nvmlDeviceGetPcieReplayCounter, handle),
            nvlink_replays=_sum(values, REPLAYS),
            nvlink_crcs=_sum(values, CRCS),
            ecc_corrected=_errors(handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC),
            retired_by_two_bits=values.get(pynvml.NVML_FI_DEV_RETIRED_DBE),
        ),
        leftover_mib=None if mig else _leftover_mib(handle, memory),
    )


def _memory(handle: Any) -> Any:
    """None where the driver does not tell its own reserve apart."""
    found = optional(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if found is None:
        optional(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return found


def _leftover_mib(handle: Any, memory: Any) -> int | None:
    """Known only where the driver counts its own reserve apart and lists who holds the card."""
    running = read_processes(handle)
    if memory is None or running is None:
        return None
    return 0 if running else int(memory.used) // MIB


def _ecc(handle: Any) -> dict[str, str]:
    levels: dict[str, str] = {}
    for name, kind in (
        ("ecc_uncorrectable", pynvml.NVML_VOLATILE_ECC),
        ("ecc_uncorrectable_ever", pynvml.NVML_AGGREGATE_ECC),
    ):
        errors = _errors(handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, kind)
        if errors is not None:
            levels[name] = str(errors)
    sram = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    if optional(pynvml.nvmlDeviceGetSramEccErrorStatus, handle, byref(sram)) is not None:
        levels["sram_threshold"] = _yes(sram.bThresholdExceeded)
    unrepairable = optional(pynvml.nvmlDeviceGetUnrepairableMemoryFlag_v1, handle)
    if unrepairable is not None:
        levels["memory_unrepairable"] = _yes(unrepairable)
    return levels


def _errors(handle: Any, what: int, kind: int) -> int | None:
    found = optional(pynvml.nvmlDeviceGetTotalEccErrors, handle, what, kind)
    return None if found is None else int(found)


def _rows_and_pages(handle: Any, values: Mapping[int, int]) -> dict[str, str]:
    """Cards remap rows from Ampere on, and retire pages before; with MIG instances the rows are unknown."""
    levels: dict[str, str] = {}
    rows = optional(pynvml.nvmlDeviceGetRemappedRows, handle)
    if rows is not None:
        levels |= {"remap_pending": _yes(rows[2]), "remap_failed": _yes(rows[3])}
    pages = optional(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    if pages is not None:
        levels["retired_pending"] = _yes(pages)
    retired = _sum(values, RETIRED)
    if retired is not None:
        levels["retired_limit"] = _yes(retired >= RETIRED_PAGES_LIMIT)
    return levels


def _clocks(handle: Any) -> dict[str, str]:
    """Only what hardware does: caps that software sets are ordinary."""
    clocks = optional(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if clocks is None:
        clocks = optional(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)  # drivers before 535
    if clocks is None:
        return {}
    thermal = clocks & pynvml.nvmlClocksEventReasonHwThermalSlowdown
    brake = clocks & pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
    unnamed = clocks & pynvml.nvmlClocksEventReasonHwSlowdown and not thermal and not brake
    return {"thermal_slowdown": _yes(thermal), "power_brake": _yes(brake), "hw_slowdown": _yes(unnamed)}


def _heat(handle: Any, values: Mapping[int, int]) -> dict[str, str]:
    """Degrees that are left until the card slows down; how few are too few, the card itself says."""
    least = values.get(SLOWDOWN_MARGIN)
    margin = None if least is None else optional(pynvml.nvmlDeviceGetMarginTemperature, handle)
    return {} if least is None or margin is None else {"thermal_margin_low": _yes(margin < least)}


def _board(handle: Any, inforom: bool) -> dict[str, str]:
    levels: dict[str, str] = {}
    if inforom and (corrupt := _inforom_corrupt(handle)) is not None:
        levels["inforom_corrupt"] = _yes(corrupt)
    fabric = pynvml.c_nvmlGpuFabricInfo_v2_t()
    if optional(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, byref(fabric)) is not None:
        registered = fabric.state & 0xFF in FABRIC_WORKS and fabric.status == pynvml.NVML_SUCCESS
        levels["fabric_down"] = _yes(not registered)
    return levels


def _inforom_corrupt(handle: Any) -> bool | None:
    """None where the card has no such proof. The call answers nothing when all is well."""
    try:
        pynvml.nvmlDeviceValidateInforom(handle)
    except pynvml.NVMLError as error:
        if code(error) == pynvml.NVML_ERROR_CORRUPTED_INFOROM:
            return True
        if meaning(error) is Meaning.ABSENT:
            return None
        raise
    return False


def _busy_percent(handle: Any) -> int | None:
    rates = optional(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return None if rates is None else int(rates.gpu)


def _sum(values: Mapping[int, int], fields: tuple[int, ...]) -> int | None:
    known = [values[one] for one in fields if one in values]
    return sum(known) if known else None


def _yes(value: int) -> str:
    return "true" if value else "false"


def _fields(handle: Any, *wanted: int) -> dict[int, int]:
    """The field values that this card has; a card without the call has none."""
    found = optional(pynvml.nvmlDeviceGetFieldValues, handle, list(wanted)) or ()
    return {one.fieldId: _number(one) for one in found if one.nvmlReturn == pynvml.NVML_SUCCESS}


def _number(field: Any) -> int:
    match field.valueType:
        case pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG | pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
            return int(field.value.ullVal)
        case pynvml.NVML_VALUE_TYPE_SIGNED_INT:
            return int(field.value.siVal)
        case _:
            return int(field.value.uiVal)
