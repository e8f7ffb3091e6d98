"""An amount of a host's CPU and memory, as precise as Kubernetes counts it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """CPU in thousandths of a core; host memory in bytes, since ratios are often told in decimal units."""

    cpu_milli: int
    memory_bytes: int

    def within(self, other: "Size") -> bool:
        return self.cpu_milli <= other.cpu_milli and self.memory_bytes <= other.memory_bytes
