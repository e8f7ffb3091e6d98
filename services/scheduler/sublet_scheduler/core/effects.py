"""Everything the engine may want done; the shell performs it and tells the outcome as an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sublet.model.claim import Wishes
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import NodeLedger, NoRoom, Placement
from sublet.model.reasons import Reason, Refusal, ReportCode
from sublet_scheduler.core.size import Size


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a review: a placement (reserved unless it was a dry run), held, or refused.

    `decision` names the review, `id` what the pod shall carry (the same but for a reinvocation).
    """

    decision: DecisionId
    id: DecisionId
    outcome: Placement | NoRoom | Refusal


@dataclass(frozen=True, slots=True)
class WriteLedger:
    """Store `entry` by compare-and-set on `entry.revision` (0: create). Answer with LedgerWritten or
    LedgerWriteFailed. At most one is on its way per node."""

    entry: NodeLedger


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """ONE patch: test uid, resourceVersion and our gate; pin to the placement's node; write the final
    annotations and remove stale ones; remove only our gate. A pod without gate (spec.nodeName) gets
    the annotations alone. Answer with PodPatched, PatchUnclear or PatchRefused."""

    uid: PodUid
    ref: PodRef
    version: str
    decision: DecisionId
    placement: Placement


@dataclass(frozen=True, slots=True)
class MarkWaiting:
    """A guarded patch (uid, resourceVersion) that writes `sublet.dev/waiting` and removes the results of
    an older proposal. It also makes every older release patch of the pod fail. Same answers."""

    uid: PodUid
    ref: PodRef
    version: str
    decision: DecisionId
    message: str


@dataclass(frozen=True, slots=True)
class FindPod:
    """Ask the API server itself, not its watch, whether the pod is there. Answer with PodFound, however long
    it takes to learn it."""

    uid: PodUid
    ref: PodRef


@dataclass(frozen=True, slots=True)
class FreeStuckPin:
    """Delete a released pod that its node cannot take, guarded by UID. For a Job's pod only where the
    Job's podFailurePolicy ignores DisruptionTarget, and after writing that condition; otherwise, and
    for bare pods, report with the way out."""

    uid: PodUid
    ref: PodRef
    owner_kind: str
    message: str


@dataclass(frozen=True, slots=True)
class EvictPods:
    """Evict all `victims` for the pod `uid`, as far as their disruption budgets allow: all, or none that can
    be told beforehand. Answer with EvictionsRefused where some stay."""

    uid: PodUid
    ref: PodRef
    victims: tuple[tuple[PodUid, PodRef], ...]
    message: str


@dataclass(frozen=True, slots=True)
class WriteTotals:
    """Make the Node show these extended resources in capacity and allocatable, and not `remove`;
    `label` is the value of sublet.dev/cards, None to take it away; `unit` is that of aliyun.com/gpu-mem
    there, empty to take it away. Answer with TotalsWritten."""

    node: NodeName
    totals: Mapping[str, int]
    remove: tuple[str, ...] = ()
    label: str | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class AckRelease:
    """Take the operator's release request off the Node."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class MakeBallast:
    """Make the ballast pod of `node`, whose object has the UID `owner`. Answer with BallastWritten."""

    node: NodeName
    owner: str
    size: Size


@dataclass(frozen=True, slots=True)
class ResizeBallast:
    """Resize a ballast pod in place, guarded by uid and resourceVersion. Same answer."""

    node: NodeName
    uid: PodUid
    ref: PodRef
    version: str
    size: Size


@dataclass(frozen=True, slots=True)
class RemoveBallast:
    """Delete a ballast pod, guarded by uid. Same answer."""

    node: NodeName
    uid: PodUid
    ref: PodRef


BallastEffect = MakeBallast | ResizeBallast | RemoveBallast


@dataclass(frozen=True, slots=True, kw_only=True)
class MakePlaceholder:
    """Make a pod that asks for what all pods that it stands for ask together, and goes where they could.

    CPU in thousandths of a core, memory in MiB. Answer with PlaceholderWritten."""

    name: str
    stands_for: tuple[PodUid, ...]
    pods: tuple[PodRef, ...]
    wishes: Wishes
    cpu_milli: int
    memory_mib: int
    cards: int
    """How many cards they would use."""
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RemovePlaceholder:
    """Delete a placeholder, guarded by uid. Same answer."""

    uid: PodUid
    ref: PodRef


PlaceholderEffect = MakePlaceholder | RemovePlaceholder


@dataclass(frozen=True, slots=True)
class Announce:
    """A public fact about a pod's claim: decided, held, committed, released, revoked, ending, ended."""

    what: str
    ref: PodRef
    uid: PodUid | None
    decision: DecisionId
    placement: Placement | None = None
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True)
class AnnounceCard:
    """A public fact about a card: closed or opened for new shares."""

    what: str
    node: NodeName
    card: CardId


@dataclass(frozen=True, slots=True)
class Report:
    """Something a person should know of: a Kubernetes Event on the pod, an audit event on the bus."""

    code: ReportCode
    message: str
    ref: PodRef | None = None
    uid: PodUid | None = None
    node: NodeName | None = None


@dataclass(frozen=True, slots=True)
class StepDown:
    """Another scheduler with a higher term writes the ledger: end this process."""

    term: int


ClusterEffect = (
    ReleasePod
    | MarkWaiting
    | FindPod
    | FreeStuckPin
    | EvictPods
    | WriteTotals
    | AckRelease
    | BallastEffect
    | PlaceholderEffect
    | Report
)
"""What the API server is asked for."""
PublicEffect = Announce | AnnounceCard | Report
"""What the bus tells everybody."""
Effect = Answer | WriteLedger | ClusterEffect | PublicEffect | StepDown
