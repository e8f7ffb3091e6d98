"""What a dialect must be able to do, and what it is given for it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sublet.contract import keys
from sublet.contract.dialects.memoryunits import MemoryUnits, Pool
from sublet.contract.podspec import ContainerSpec, Json
from sublet.model.card import Card
from sublet.model.claim import Claim, Requirement
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardGrant
from sublet.model.reasons import Refusal

NATIVE_NAME = "sublet"
HAMI_NAME = "hami"
IN_A_CLUSTER = (
    NATIVE_NAME,
    "nvidia",
    "amd",
    "gpushare",
    "volcano",
    "qgpu",
    "elastic-gpu",
    "vcuda",
    "kai",
)
"""On by default: all but HAMi, whose names overlap with NVIDIA's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a cluster sets about its dialects."""

    enabled: tuple[str, ...] = IN_A_CLUSTER
    gpu_mem_unit_mib: int = 1024
    """The unit of ``aliyun.com/gpu-mem`` in MiB: 1024 for GiB, 1 for MiB; never guessed."""
    gpu_mem_pools: tuple[Pool, ...] = ()
    """Nodes that count it in a unit of their own."""
    volcano_unit_mib: int = 1
    """The unit of ``volcano.sh/gpu-memory`` in MiB: Volcano's gpu-memory-factor."""
    keep_scheduler_name: bool = False
    """Leave pods to the scheduler of another system that they name."""
    stored: bool = False
    """Pods come from the API server, which writes an amount of 50000 as ``50k``; otherwise they come as a
    user wrote them, and a suffix is a mistake."""
    tolerate: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    """Taint keys which claiming pods tolerate by themselves."""

    @property
    def memory_units(self) -> MemoryUnits:
        return MemoryUnits(default_mib=self.gpu_mem_unit_mib, pools=self.gpu_mem_pools)

    def on(self, labels: Mapping[str, str]) -> "Options":
        """The same as they are on the node with these labels."""
        if not self.gpu_mem_pools:
            return self
        return replace(self, gpu_mem_unit_mib=self.memory_units.of_node(labels), gpu_mem_pools=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A claiming container with its grants."""

    claim: Claim
    grants: tuple[CardGrant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a dialect makes its results from."""

    placed: Sequence[Placed]
    """The containers that speak this dialect."""
    node: NodeName
    cards: Mapping[CardId, Card]
    """At least the granted ones."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the node."""
    containers: Sequence[str] = ()
    """Names of all containers of the pod, init containers and sidecars first."""
    options: Options
    """As they are on the node."""
    at_ns: int
    """Unix time in nanoseconds."""

    @property
    def counted(self) -> Sequence[Placed]:
        """Without init containers whose cards a later one takes over, unless there are no others."""
        return [one for one in self.placed if not one.claim.heir] or self.placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a pod carries and its containers see in the words of one dialect."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Container -> variable -> value."""


@dataclass(frozen=True, slots=True)
class LabelVariable:
    """A variable that containers have on nodes whose `label` has `label_value`, and nowhere else."""

    label: str
    label_value: str
    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Dialect(ABC):
    """One spelling. Implementations are stateless values."""

    name: str
    resources: frozenset[str] = frozenset()
    """Resource names that are counted; in the limits of a container they make it a claiming one."""
    resource_prefixes: tuple[str, ...] = ()
    """Beginnings of such names, where a system has many of them."""
    claiming_annotations: frozenset[str] = frozenset()
    """Annotations of a pod that claim without any resource."""
    result_keys: frozenset[str] = frozenset()
    """Annotations that only the scheduler writes in this dialect's name."""
    result_prefixes: tuple[str, ...] = ()
    """Beginnings of such annotations."""
    result_labels: tuple[str, ...] = ()
    """Beginnings of labels that only the scheduler writes in this dialect's name."""
    scheduler: str = ""
    """What its pods name in spec.schedulerName."""
    quota_keys: tuple[tuple[str, str], ...] = ()
    """Keys of a ResourceQuota, each with ours that says the same."""
    label_variables: tuple[LabelVariable, ...] = ()
    """Variables that its shares have on nodes with certain labels alone."""

    def names(self, key: str) -> bool:
        """Whether `key` is a resource of this dialect."""
        return key in self.resources or key.startswith(self.resource_prefixes)

    def is_result(self, key: str) -> bool:
        """Whether `key` is an annotation which only the scheduler writes."""
        return key in self.result_keys or key.startswith(self.result_prefixes)

    def speaks(self, container: ContainerSpec, pod: Json, options: Options) -> bool:  # noqa: ARG002
        """Whether `container` of `pod` claims in this dialect."""
        return any(self.names(key) for key in container.limits)

    @abstractmethod
    def claim(self, container: ContainerSpec, pod: Json, options: Options) -> Claim | Refusal:
        """Read the claim of a container that speaks this dialect."""

    def wishes(self, pod: Json) -> Mapping[str, str] | Refusal:  # noqa: ARG002
        """What its annotations say about where the pod may go, as annotations of our own."""
        return {}

    def requirements(self, pod: Json, options: Options) -> tuple[Requirement, ...]:  # noqa: ARG002
        """What a node must be like for a pod that speaks this dialect, beside what the pod itself says."""
        return ()

    def annotations(self, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def labels(self, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def variable_names(self, claim: Claim) -> tuple[str, ...]:  # noqa: ARG002
        """Variables of one container whose values the decision settles."""
        return ()

    def variables(self, one: Placed, decided: Decided) -> Mapping[str, str]:  # noqa: ARG002
        """Their values."""
        return {}

    def env_sources(self, claim: Claim) -> Mapping[str, str]:
        """Variable -> annotation of the same value, for nodes where the runtime reads the pod's env."""
        return {name: keys.variable_annotation(name, claim.container) for name in self.variable_names(claim)}

    def on_labels(self, claim: Claim) -> tuple[LabelVariable, ...]:
        """The variables that the container of `claim` has on nodes with certain labels."""
        return () if claim.exclusive else self.label_variables

    def results(self, decided: Decided) -> Results:
        """The pod's results for its containers of this dialect."""
        annotations = dict(self.annotations(decided))
        env: dict[str, dict[str, str]] = {}
        for one in decided.placed:
            values = self.variables(one, decided)
            sources = self.env_sources(one.claim)
            annotations |= {sources[name]: value for name, value in values.items()}
            env[one.claim.container] = {**values, **dict(one.claim.constants)}
            for each in self.on_labels(one.claim):
                if decided.labels.get(each.label) == each.label_value:
                    annotations[keys.variable_annotation(each.name, one.claim.container)] = each.value
                    env[one.claim.container][each.name] = each.value
        return Results(annotations=annotations, labels=self.labels(decided), env=env)

    @abstractmethod
    def totals(self, cards: Iterable[Card], *, shares_per_card: int, options: Options) -> Mapping[str, int]:
        """Node totals for kube-scheduler; a placement that is right per card must fit them."""
