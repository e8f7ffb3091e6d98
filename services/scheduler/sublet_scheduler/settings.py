"""What the scheduler can be told from outside: each field is ``SUBLET_<FIELD>`` in the environment."""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address

from sublet.contract import dialects
from sublet.contract.dialects.interface import IN_A_CLUSTER, Options
from sublet.contract.dialects.memoryunits import MemoryUnits
from sublet.contract.overcommit import Overcommit
from sublet.contract.qualified import is_domain, is_qualified
from sublet.model.claim import Policy
from sublet.model.errors import BadRequest
from sublet.runtime.settings import OR_ZERO
from sublet_scheduler.core.outside import OutsideUse

MOST_PLACEHOLDERS = 100
LONGEST_BUDGET_S = 28.0
"""Kubernetes waits for no webhook longer than 30 s."""


class MemoryUnit(StrEnum):
    """A unit of ``aliyun.com/gpu-mem``, which the cluster's users agree on; never guessed."""

    GIB = "GiB"
    MIB = "MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    nats_url: str = "nats://nats.sublet-system:4222"
    kubeconfig: str = ""
    """Empty: the pod's service account."""
    namespace: str = "sublet-system"
    """Where the secrets of the scheduler are kept."""
    cluster: str = ""
    """What public events call this cluster; empty: the UID of its namespace kube-system."""
    webhook_host: str = "0.0.0.0"  # noqa: S104 - the API server calls from anywhere
    webhook_port: int = 8443
    webhook_names: tuple[str, ...] = ("sublet-scheduler.sublet-system.svc",)
    """DNS names and addresses in the webhook's certificate."""
    probe_host: str = "0.0.0.0"  # noqa: S104 - the kubelet calls the pod's address
    probe_port: int = 8080
    extender_host: str = "0.0.0.0"  # noqa: S104 - kube-scheduler calls from anywhere
    extender_port: int = 0
    """Where gpushare's scheduler extender is served, over plain HTTP; 0: nowhere."""
    log_level: str = "info"
    decision_budget_s: float = 2.0
    """Longest a webhook answer may take; stays under the API server's timeoutSeconds."""
    reservation_s: float = 10.0
    """How long a placement waits for its pod to be seen."""
    heartbeat_fresh_s: float = 15.0
    """A node whose agent was silent for longer takes no placements."""
    reconcile_s: float = 60.0
    """Between full comparisons of node totals and buckets with what they should be."""
    stuck_pin_s: float = 60.0
    """How long kube-scheduler may fail to bind a released pod before its pin is given up."""
    preemption: bool = True
    """Evict pods of lower priority for pods that find no room."""
    gang_s: float = field(default=600.0, metadata=OR_ZERO)
    """After so long a gang that lacks pods is reported, or given up where another controller described it."""
    queue_holds: int = 16
    """So many waiting pods at the head of the queue have a place kept for them; 0: small pods pass freely."""
    queue_hold_s: float = field(default=600.0, metadata=OR_ZERO)
    """After so long without anybody leaving the kept place, one on another node is kept."""
    ratios: str = ""
    """Path of a file that says how much CPU and memory is kept for each idle card; empty: none."""
    ballast_image: str = "registry.k8s.io/pause:3.10"
    """What the pods run that keep it: any program that does nothing, and does it until it is told to end."""
    ballast_wait_s: float = field(default=10.0, metadata=OR_ZERO)
    """The longest that a pod with cards is held until the ballast of its node has made room for it."""
    placeholders: int = 0
    """So many pods, one for each node that is missing, ask an autoscaler for nodes at most; 0: none does."""
    placeholder_after_s: float = field(default=10.0, metadata=OR_ZERO)
    """For so long a pod waits before a placeholder stands for it."""
    placeholder_image: str = "registry.k8s.io/pause:3.10"
    """What a placeholder runs if it ever does: any program that does nothing."""
    placeholder_resource: str = ""
    """Placeholders ask for so many cards under this name alone; empty: for all that the pods ask for."""
    node_pools: str = ""
    """Path of an inventory of nodes that an autoscaler can add, also when none like them is there yet."""
    drain_s: float = field(default=5.0, metadata=OR_ZERO)
    """How long the webhook still answers after SIGTERM: endpoints are withdrawn with a lag."""
    dialects: tuple[str, ...] = IN_A_CLUSTER
    """Whose spellings of a claim are read: all but HAMi's, whose names overlap with NVIDIA's."""
    gpu_mem_unit: MemoryUnit = MemoryUnit.GIB
    gpu_mem_pools: tuple[str, ...] = ()
    """Nodes with another unit of ``aliyun.com/gpu-mem``, by a label: ``pool=large:MiB``; the rest has that of
    SUBLET_GPU_MEM_UNIT."""
    volcano_memory_factor: int = 1
    """How many MiB one of ``volcano.sh/gpu-memory`` is: Volcano's setting of the same name."""
    keep_scheduler_name: bool = False
    """Leave pods to the scheduler of KAI, HAMi or Volcano that they name, instead of to the default one."""
    node_policy: Policy = Policy.FRAGMENTATION
    """For pods that wish nothing: leave what later pods can use, fill nodes one after another, or spread."""
    card_policy: Policy = Policy.FRAGMENTATION
    """For pods that wish nothing: leave what later pods can use, fill cards one after another, or spread."""
    workload: str = ""
    """Path of a file that describes the pods to expect; empty: they are learned from the pods that come."""
    overcommit_memory: tuple[str, ...] = ()
    """Memory promised to shares beyond what cards have, by card model or node label: ``T4:1.5,pool=dev:2``;
    the first entry that holds for a card counts."""
    overcommit_core: tuple[str, ...] = ()
    """The same for compute."""
    manage_all: bool = False
    """Read foreign names in every namespace, not only in those labelled ``sublet.dev/manage``."""
    outside_use: OutsideUse = OutsideUse.MEMORY
    """What is made of cards that others use: nothing (ignore), their memory is not there for shares (memory),
    or such a card takes no new shares (close)."""
    daemonset_cards: bool = False
    """A DaemonSet's pod that names cards in its variables alone claims the card of a node that has one."""
    tolerate_taints: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    """Taint keys that claiming pods tolerate by themselves."""

    def __post_init__(self) -> None:
        for name in self.dialects:
            if name not in dialects.BY_NAME:
                known = ", ".join(dialects.BY_NAME)
                raise BadRequest(f"SUBLET_DIALECTS names {name!r}", hint=f"Known: {known}")
        if not 0 <= self.placeholders <= MOST_PLACEHOLDERS:
            raise BadRequest(
                f"SUBLET_PLACEHOLDERS={self.placeholders} is not from 0 to {MOST_PLACEHOLDERS}",
                hint="It is how many nodes an autoscaler is asked for at once; 0 means none",
            )
        if self.decision_budget_s > LONGEST_BUDGET_S:
            raise BadRequest(
                f"SUBLET_DECISION_BUDGET_S={self.decision_budget_s} is more than {LONGEST_BUDGET_S}",
                hint="It must stay below the webhook's timeoutSeconds, which is 30 at most",
            )
        if self.queue_holds < 0:
            raise BadRequest(
                f"SUBLET_QUEUE_HOLDS={self.queue_holds} is below 0", hint="0 means that no place is kept"
            )
        for name in self.webhook_names or ("",):
            if not (is_domain(name) or _is_address(name)):
                raise BadRequest(
                    f"SUBLET_WEBHOOK_NAMES names {name!r}, which is neither a DNS name nor an address",
                    hint="Write what the API server calls, for example sublet-scheduler.sublet-system.svc",
                )
        for key in self.tolerate_taints:
            if not is_qualified(key):
                raise BadRequest(
                    f"SUBLET_TOLERATE_TAINTS names {key!r}, which can be no taint's key",
                    hint="Write keys alone, without value and effect, for example nvidia.com/gpu",
                )
        if self.placeholder_resource and not is_qualified(self.placeholder_resource, with_domain=True):
            raise BadRequest(
                f"SUBLET_PLACEHOLDER_RESOURCE={self.placeholder_resource!r} can be no extended resource",
                hint="Write for example nvidia.com/gpu",
            )
        if self.volcano_memory_factor < 1:
            raise BadRequest(
                f"SUBLET_VOLCANO_MEMORY_FACTOR={self.volcano_memory_factor} is not at least 1",
                hint="Set what Volcano's device plugin had: 1 for MiB",
            )
        try:
            self._memory_units()
        except BadRequest as error:
            raise BadRequest(f"SUBLET_GPU_MEM_POOLS: {error.args[0]}", hint=error.hint) from None

        try:
            _ = self.overcommit
        except BadRequest as error:
            raise BadRequest(f"SUBLET_OVERCOMMIT_*: {error.args[0]}", hint=error.hint) from None

    @property
    def overcommit(self) -> Overcommit:
        return Overcommit.read(memory=self.overcommit_memory, core=self.overcommit_core)

    def _memory_units(self) -> MemoryUnits:
        return MemoryUnits.read(self.gpu_mem_unit.value, self.gpu_mem_pools)

    @property
    def options(self) -> Options:
        """What the cluster sets about its dialects."""
        units = self._memory_units()
        return Options(
            enabled=self.dialects,
            stored=True,
            gpu_mem_unit_mib=units.default_mib,
            gpu_mem_pools=units.pools,
            volcano_unit_mib=self.volcano_memory_factor,
            keep_scheduler_name=self.keep_scheduler_name,
            tolerate=self.tolerate_taints,
        )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
