"""Cards and the nodes that hold them, as agents and inventories describe them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sublet.model.health import HealthState, Verdict
from sublet.model.ids import CardId, NodeName


class Vendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"


class Link(StrEnum):
    """How two cards of one node reach each other, best first."""

    NVLINK = "nvlink"
    SWITCH = "switch"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A hardware slice of a card that behaves as a card."""

    uuid: str
    profile: str
    memory_mib: int
    gi: int | None = None
    """MIG's numbers of the instance, by which the driver tells of its faults."""
    ci: int | None = None
    slices: int | None = None
    """How many of the card's compute slices it has; None where nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One physical accelerator.

    `memory_mib` is what the driver reports as usable, in MiB; None where it is unknown, and then
    the card takes exclusive claims only. Compute is counted in whole percent of the card, 0..100.
    """

    id: CardId
    index: int
    vendor: Vendor = Vendor.NVIDIA
    model: str = ""
    memory_mib: int | None = None
    numa: int | None = None
    pci: str | None = None
    serial: str | None = None
    minor: int | None = None
    links: Mapping[CardId, Link] = field(default_factory=dict)
    mig: bool = False
    partitions: tuple[Partition, ...] = ()
    """Where there are some, they are offered and the card itself is not; a card in MIG mode without any
    offers nothing."""
    profile: str = ""
    """Of a partition that stands for itself; empty for a whole card."""
    parent: CardId | None = None
    """The card that such a partition is part of."""
    used_outside_mib: int = 0
    health: HealthState = HealthState.HEALTHY
    shareable_mib: int | None = None
    """How much memory may be promised to all shares together, in MiB; None: as much as there is."""
    shareable_core_percent: int = 100
    """How much compute may be promised to all shares together."""

    @property
    def most_mib(self) -> int:
        """The memory that shares may have together, in MiB; 0 where the card takes none."""
        return (self.memory_mib or 0) if self.shareable_mib is None else self.shareable_mib

    @property
    def is_unpartitioned(self) -> bool:
        """MIG mode is on, so that it cannot be had whole, and it has no partitions either."""
        return self.mig and not self.profile and not self.partitions

    @property
    def offered(self) -> tuple["Card", ...]:
        """What claims may take: the card, or in its place each of its partitions, with the card's index."""
        whole = () if self.is_unpartitioned else (self,)
        return (
            tuple(
                replace(
                    self,
                    id=CardId(one.uuid),
                    memory_mib=one.memory_mib,
                    shareable_mib=None,
                    shareable_core_percent=100,
                    links={},
                    partitions=(),
                    profile=one.profile,
                    parent=self.id,
                )
                for one in self.partitions
            )
            or whole
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint in Kubernetes' sense."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one agent says its node has. `at_ms` is Unix time in milliseconds."""

    node: NodeName
    boot_id: str
    epoch: str
    """One agent process; a new value means the agent restarted."""
    seq: int
    at_ms: int
    cards: tuple[Card, ...]
    shares_per_card: int
    slots: int
    registered: bool
    """The kubelet has accepted our slots."""
    injection: str = "cdi"
    driver: str = ""
    problems: tuple[str, ...] = ()
    """Preflight findings that keep the node from being managed: node reasons such as MigUnsupported."""
    verdicts: tuple[Verdict, ...] = ()
    """The last ones that this agent knows, for a healthd whose own records are gone; cards that were
    never in trouble are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    node: NodeName
    boot_id: str
    epoch: str
    seq: int
    at_ms: int
