"""The agent's settings, each from ``SUBLET_<NAME>``; the reason of a default stands beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from sublet.model.errors import BadRequest
from sublet.runtime.settings import OR_ZERO, read_settings
from sublet_agent.core.edits import Injection, Runtime


class Source(StrEnum):
    NVML = "nvml"
    AMD = "amd"
    AUTO = "auto"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    node: str
    """The name of this node, from the pod's spec.nodeName."""
    nats_url: str = "nats://nats.sublet-system:4222"
    probe_host: str = "0.0.0.0"  # noqa: S104  # the kubelet probes the pod's address
    probe_port: int = 8080
    log_level: str = "info"
    cards: Source = Source.NVML
    """Where cards come from: NVIDIA's driver, AMD's, either or both of them, or a file."""
    inventory: str = ""
    """Path of the inventory, for `cards` = file."""
    signals: str = ""
    """Path of the signal file, for `cards` = file; none = no signals."""
    kmsg: str = "auto"
    """The kernel's log: path of a file or FIFO of the same records, none, or auto = /dev/kmsg except for
    `cards` = file."""
    kubelet_dir: str = "/var/lib/kubelet"
    cdi_dir: str = "/var/run/cdi"
    vendor_cdi_dirs: tuple[str, ...] = ("/etc/cdi", "/var/run/cdi")
    """Where a vendor's own CDI specs lie, whose libraries and hooks are added for the same device nodes."""
    state_dir: str = "/var/lib/sublet"
    """On the host: what was prepared, so that it starts again without the bus."""
    cgroup_root: str = "/sys/fs/cgroup"
    boot_id_file: str = "/proc/sys/kernel/random/boot_id"
    shares_per_card: int = 16
    """The most shares a card carries, and the slots that the kubelet counts for it."""
    injection: Injection = Injection.CDI
    """How cards come into containers: CDI, or variables that the runtime reads."""
    runtime: Runtime = Runtime.PLAIN
    """nvidia: its container runtime is the node's default, and must not inject a second time."""
    grant_wait_s: float = field(default=20.0, metadata=OR_ZERO)
    """Longest wait for the ledger's grant; the kubelet gives PreStartContainer 30 s."""
    heartbeat_s: float = 5.0
    poll_s: float = 10.0
    """Between looks at the driver, the checkpoint, PodResources and cgroups."""
    nvml_call_limit_s: float = 2.0
    """Longest that a call into a driver may take before the card counts as hung."""
    nvml_library: str = ""
    """Full path of libnvidia-ml.so.1; empty: searched below driver_root."""
    driver_root: str = "/"
    """Where the driver's files lie, seen from the agent."""
    dev_root: str = "/"
    """Where the device nodes lie, seen from the agent."""
    sysfs_root: str = "/sys"
    mig_capabilities: str = "/proc/driver/nvidia/capabilities"
    """Where NVIDIA's driver says which device lets a process use a MIG instance."""
    amd_exporter: str = "/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket"
    """Where AMD's device metrics exporter answers, if it runs."""
    list_debounce_s: float = field(default=0.2, metadata=OR_ZERO)
    """Every list makes the kubelet write its checkpoint, so changes in quick succession become one."""

    @property
    def kernel_log(self) -> Path | None:
        """Where `kmsg` is read; a simulated node must not hear of the real machine's cards."""
        if self.kmsg == "none" or (self.kmsg == "auto" and self.cards is Source.FILE):
            return None
        return Path("/dev/kmsg" if self.kmsg == "auto" else self.kmsg)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Raises BadRequest for an unknown name, a value of another type, or one out of range."""
        settings = read_settings(cls, env)
        if not 1 <= settings.shares_per_card <= 1_000:
            raise BadRequest(
                f"SUBLET_SHARES_PER_CARD={settings.shares_per_card} is not from 1 to 1000",
                hint="The kubelet reads slot lists of at most 4 MiB",
            )
        if settings.grant_wait_s > 25:
            raise BadRequest(
                f"SUBLET_GRANT_WAIT_S={settings.grant_wait_s} is more than 25",
                hint="The kubelet gives PreStartContainer 30 s in all",
            )
        if settings.cards is Source.FILE and not settings.inventory:
            raise BadRequest("SUBLET_CARDS=file needs SUBLET_INVENTORY", hint="Set the path of an inventory")
        return settings
