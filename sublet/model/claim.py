"""What one container, and the pod around it, asks for, after its dialect was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from sublet.model.ids import CardId, NodeName, PodRef


class ContainerKind(StrEnum):
    MAIN = "main"
    SIDECAR = "sidecar"  # a restartable init container
    INIT = "init"


class Policy(StrEnum):
    BINPACK = "binpack"
    SPREAD = "spread"
    FRAGMENTATION = "fragmentation"


class ServiceClass(StrEnum):
    ONLINE = "online"  # answers somebody; kept away from offline pods
    OFFLINE = "offline"  # fills what others leave, and gives way to them


class Apart(StrEnum):
    """Where replicas of one owner keep away from each other as long as there is room elsewhere."""

    CARDS = "cards"
    NODES = "nodes"


class LinkWish(StrEnum):
    PREFERRED = "preferred"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One container's claim; all amounts are per card.

    At most one of `memory_mib` (MiB) and `memory_percent` (of the card that is chosen) is set.
    `core_percent` 0 promises no compute. An exclusive claim takes whole cards that nobody else uses.
    """

    container: str
    kind: ContainerKind
    dialect: str
    cards: int = 1
    memory_mib: int | None = None
    memory_percent: Fraction | None = None
    core_percent: int = 0
    exclusive: bool = False
    profile: str | None = None
    """Of the partition that is asked for; such a claim is exclusive."""
    grows: bool = False
    """The memory may be spread: over the smallest number of cards that have it, in equal shares."""
    heir: str = ""
    """For a plain init container: the next claiming sidecar or main container, which takes over its
    slot and cards (for init containers without one: the last of them)."""
    one_card_group: str = ""
    """Claims of one pod with the same non-empty group all go on one card (gpushare)."""
    vendor: str = ""
    """Only cards of this vendor; empty = any."""
    position: int = 0
    """Its container's place in spec.containers; init containers and sidecars follow after those."""
    core_limit_percent: int | None = None
    """The most compute that it may use where a dialect promises less than it allows."""
    service_class: str = ""
    """`online` or `offline` where a dialect tells."""
    constants: tuple[tuple[str, str], ...] = ()
    """Variables of its dialect whose values the claim alone settles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One matchExpressions or matchFields entry of a node affinity term."""

    key: str
    operator: str  # In NotIn Exists DoesNotExist Gt Lt
    values: tuple[str, ...] = ()
    field: bool = False
    """True for matchFields; the only field Kubernetes knows is metadata.name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the pod's annotations and spec say about where it may go."""

    card_models: tuple[str, ...] = ()
    exclude_card_models: tuple[str, ...] = ()
    card_uuids: tuple[CardId, ...] = ()
    exclude_card_uuids: tuple[CardId, ...] = ()
    node_policy: Policy | None = None
    card_policy: Policy | None = None
    link: LinkWish = LinkWish.PREFERRED
    one_numa: bool = False
    """All cards of the pod are on one NUMA node of their machine."""
    apart: Apart | None = None
    same_card: str | None = None
    """A group name within the namespace: all its members share one card."""
    service_class: ServiceClass | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity: alternatives of requirements that must all hold; empty = no wish."""
    needs: tuple[Requirement, ...] = ()
    """What its dialects need of a node; it stands in every alternative of `affinity` as well."""
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Pods of one namespace that are placed together or not at all."""

    name: str
    size: int
    """How many pods it has; of our own annotation only those with a claim count."""
    derived: bool = False
    """Read from the words of another controller; it may create some members only after others run."""


OFFLINE_BELOW = 10**10
"""More than any two priorities differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAsk:
    """All that a placement needs to know of a pod.

    `cpu_milli` and `memory_mib` are the pod's own effective requests of the host
    (max of init steps and the sum of containers and sidecars), MiB rounded up.
    """

    pod: PodRef
    claims: tuple[Claim, ...]
    wishes: Wishes = field(default_factory=Wishes)
    cpu_milli: int = 0
    memory_mib: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)
    """Effective requests of the extended resources that Sublet serves, the slot included."""
    priority: int = 0
    preempts: bool = True
    """Pods of lower priority may be evicted for it."""
    gang: Gang | None = None
    node_name: NodeName | None = None
    """Set by the user in spec.nodeName: the pod cannot be gated and must fit there."""
    containers: tuple[str, ...] = ()
    """Names of all containers, init containers and sidecars first, claiming or not."""
    owner: str = ""
    """UID of the controlling owner, empty for a bare pod."""
    owner_kind: str = ""

    @property
    def rank(self) -> int:
        """Who ranks higher is served first and may evict others: the priority, of offline pods below all."""
        offline = self.wishes.service_class is ServiceClass.OFFLINE
        return self.priority - OFFLINE_BELOW if offline else self.priority

    @property
    def dialects(self) -> tuple[str, ...]:
        return tuple(sorted({claim.dialect for claim in self.claims}))
