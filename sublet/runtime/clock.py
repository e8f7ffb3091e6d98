"""The one reader of clocks; everything else takes `now` as an argument."""

import time


def monotonic_s() -> float:
    """Seconds that never go back; for intervals and deadlines."""
    return time.monotonic()


def unix_ms() -> int:
    """Unix time in whole milliseconds; for what other machines read."""
    return time.time_ns() // 1_000_000
