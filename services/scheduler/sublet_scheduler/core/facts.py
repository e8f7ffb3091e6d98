"""What the shell tells the engine of Kubernetes objects: the part of them that decisions need."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.contract.decision import Decision
from sublet.model.claim import Gang, PodAsk, Toleration
from sublet.model.ids import CardId, NodeName, PodRef, PodUid
from sublet.model.reasons import Refusal
from sublet_scheduler.core.size import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def tolerated_by(self, tolerations: tuple[Toleration, ...]) -> bool:
        return any(
            (one.effect in ("", self.effect))
            and (
                (one.operator == "Exists" and one.key in ("", self.key))
                or (one.key == self.key and one.value == self.value and one.operator == "Equal")
            )
            for one in tolerations
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A Node object. CPU in thousandths of a core, memory in MiB; `resources` are the extended
    resources of capacity and of allocatable that Sublet serves (slot included)."""

    name: NodeName
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only those of our domain."""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    cpu_milli: int = 0
    memory_mib: int = 0
    pods: int = 110
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BallastFacts:
    """What a ballast pod keeps, and for which node."""

    node: NodeName
    asked: Size
    counted: Size
    """What kube-scheduler counts: the most of what is asked for and what the kubelet still has in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """A Pod object that has a UID.

    Claiming pods carry `ask` (or `unreadable`), `decision` (the annotation, whatever it says) and
    `signed` (its MAC is ours and it names this UID). `settled`: every container has terminated or never
    started, as far as the status tells.
    """

    uid: PodUid
    ref: PodRef
    version: str = ""
    """resourceVersion"""
    node: NodeName | None = None
    phase: str = "Pending"
    deleting: bool = False
    settled: bool = False
    cpu_milli: int = 0
    memory_mib: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)
    """Served extended resources which an unclaimed pod uses all the same."""
    gang: Gang | None = None
    """Of an unclaimed pod: the gang whose controller counts it."""
    created_s: float = 0.0
    """creationTimestamp as Unix seconds; the order of arrival."""
    ask: PodAsk | None = None
    unreadable: Refusal | None = None
    gated: bool = False
    """Our gate is still there."""
    foreign_gates: bool = False
    decision: Decision | None = None
    decision_text: str = ""
    signed: bool = False
    proposed: bool = False
    """Its MAC is ours, and it names no UID yet: a proposal of the webhook."""
    waiting: str = ""
    """The value of the annotation sublet.dev/waiting."""
    unschedulable: bool = False
    """PodScheduled=False with reason Unschedulable, and no nominatedNodeName."""
    ballast: BallastFacts | None = None
    """Of a ballast pod of ours, which takes nothing in our own accounting."""
    placeholder: tuple[PodUid, ...] | None = None
    """Of a placeholder of ours: the pods it stands for."""
    cards: tuple[CardId, ...] = ()
    """Every card that its annotations name, for pods whose decision is not to be believed."""

    @property
    def claimed(self) -> bool:
        return self.ask is not None or self.unreadable is not None

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def never_runs(self) -> bool:
        """It is being deleted and has no node: a finalizer may keep the object for long, but the API server
        binds it no more."""
        return self.deleting and self.node is None
