"""Names of the levels polled of a card: what a source tells, a policy judges and a file simulates."""

LEFTOVER = "leftover_memory_mib"
SUPPRESSED = "signals_suppressed"
"""Not of the card: how many signals about it came too fast to be told one by one."""

FLAGS = (
    "remap_pending",
    "remap_failed",
    "retired_pending",
    "retired_limit",
    "memory_unrepairable",
    "ecc_correctable_storm",
    "thermal_slowdown",
    "thermal_margin_low",
    "power_brake",
    "hw_slowdown",
    "pcie_degraded",
    "inforom_corrupt",
    "sram_threshold",
    "fabric_down",
    "vendor_unhealthy",
)
COUNTS = ("ecc_uncorrectable", "ecc_uncorrectable_ever", "nvlink_errors", LEFTOVER)
