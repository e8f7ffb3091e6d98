"""What the shell read from the node at one moment; None stands for "could not be read"."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.model.ids import CardId, PodRef, PodUid, SlotId


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The kubelet's checkpoint: this container of this pod was given this slot."""

    slot: SlotId
    uid: PodUid
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """PodResources: this container holds this slot. Plain init containers are never listed."""

    slot: SlotId
    pod: PodRef
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """PodResources as a whole; `others` are resources of other plugins of which containers hold devices."""

    listings: tuple[Listing, ...] = ()
    others: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    holdings: tuple[Holding, ...] = ()
    served: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> devices which a plugin serves on this node now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that holds a card; `uid` is the pod in whose cgroup it runs, None outside of pods."""

    card: CardId
    pid: int
    used_mib: int
    uid: PodUid | None
    name: str = ""
    """Of the program, for one outside of pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """A container of a pod whose variables name cards, as they stand there; `minors` are the numbers of the
    cards whose device nodes it has."""

    uid: PodUid
    visible: str
    capabilities: str = ""
    minors: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at the node, begun at `began_s` (monotonic) after ledger `revision` had been read.

    `processes_read` says that the processes of every card were readable; those of others stand there anyway.
    """

    began_s: float
    at_ms: int
    generation: int
    revision: int
    checkpoint: Checkpoint | None
    listings: tuple[Listing, ...] | None
    pods_with_cgroups: frozenset[PodUid] | None
    others: frozenset[str] = frozenset()
    """Resources of other plugins that containers hold; to be believed where `listings` were read."""
    processes: tuple[Process, ...] = ()
    processes_read: bool = False
    exposures: tuple[Exposure, ...] = ()
