"""Every "no" has a stable code: shown to users, counted in metrics, never renamed.

One table gives severity, explanation and way out; admission answers, `sublet explain`, the reference
page and the metric labels are all made from it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    # nodes, in the order in which they are asked
    OTHER_MEMORY_UNIT = "OtherMemoryUnit"
    NODE_SELECTOR = "NodeSelector"
    TAINT = "Taint"
    UNSCHEDULABLE = "Unschedulable"
    NODE_NOT_PREPARED = "NodeNotPrepared"
    AGENT_SILENT = "AgentSilent"
    FOREIGN_PLUGIN = "ForeignPlugin"
    MIG_UNSUPPORTED = "MigUnsupported"
    INSUFFICIENT_CPU = "InsufficientCPU"
    INSUFFICIENT_HOST_MEMORY = "InsufficientHostMemory"
    TOO_MANY_PODS = "TooManyPods"
    NO_CARDS = "NoCards"
    # cards, in the order in which they are asked
    NO_PARTITIONS = "NoPartitions"
    UNHEALTHY = "Unhealthy"
    USED_OUTSIDE = "UsedOutside"
    IN_USE = "InUse"
    EXCLUSIVE = "Exclusive"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    INSUFFICIENT_CORES = "InsufficientCores"
    TOO_MANY_SHARES = "TooManyShares"
    UNKNOWN_MEMORY = "UnknownMemory"
    MODEL_MISMATCH = "ModelMismatch"
    UUID_MISMATCH = "UuidMismatch"
    VENDOR_MISMATCH = "VendorMismatch"
    PROFILE_MISMATCH = "ProfileMismatch"
    TOO_FEW_CARDS = "TooFewCardsOnNode"
    NOT_LINKED = "NotLinked"
    UNKNOWN_NUMA = "UnknownNuma"
    NOT_ON_ONE_NUMA = "NotOnOneNuma"
    SAME_CARD_FULL = "SameCardFull"
    SEARCH_CUT_SHORT = "SearchCutShort"
    # over all
    LARGER_THAN_ANY_NODE = "LargerThanAnyNode"
    # why a pod waits though no card said no
    UNDECIDED = "Undecided"
    FOREIGN_GATE = "ForeignGate"
    PREDECESSOR_ENDING = "PredecessorEnding"
    # the queue
    KEPT = "Kept"
    QUEUED = "Queued"
    NAMESPACE_LIMIT = "NamespaceLimit"
    PREEMPTING = "Preempting"
    GANG_INCOMPLETE = "GangIncomplete"
    GANG_NO_ROOM = "GangNoRoom"


class RefusalCode(StrEnum):
    """Why no fleet could satisfy a pod."""

    BAD_QUANTITY = "BadQuantity"
    CONFLICTING_KEYS = "ConflictingKeys"
    MISSING_KEY = "MissingKey"
    TWO_DIALECTS = "TwoDialects"
    RESERVED_KEY = "ReservedKey"
    UNKNOWN_RESOURCE = "UnknownResource"
    UNKNOWN_ANNOTATION = "UnknownAnnotation"
    BAD_ANNOTATION = "BadAnnotation"
    NOT_SUPPORTED_YET = "NotSupportedYet"
    INIT_LARGER_THAN_HEIR = "InitLargerThanHeir"
    RESERVED_RESOURCE = "ReservedResource"
    NODE_CANNOT_TAKE_IT = "NodeCannotTakeIt"
    TOO_MANY_CLAIMS = "TooManyClaims"
    UNREADABLE = "Unreadable"


class ReportCode(StrEnum):
    """What the scheduler tells a person about a pod or node: the reason of its Kubernetes Events."""

    BOUND_ELSEWHERE = "BoundElsewhere"
    FORGED_DECISION = "ForgedDecision"
    GANG_GIVEN_UP = "GangGivenUp"
    GANG_INCOMPLETE = "GangIncomplete"
    NODE_RELEASED = "NodeReleased"
    PATCH_REFUSED = "PatchRefused"
    PREEMPTED = "Preempted"
    STUCK_PIN = "StuckPin"
    STUCK_PIN_FREED = "StuckPinFreed"
    UNCLAIMED_USE = "UnclaimedUse"


@dataclass(frozen=True, slots=True)
class Explanation:
    text: str
    way_out: str


EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.OTHER_MEMORY_UNIT: Explanation("the node counts aliyun.com/gpu-mem in another unit than the pod", "name the node's pool in the pod's node selector; the number is then read in the unit of that pool"),
    Reason.NODE_SELECTOR: Explanation("the node does not match the pod's node selector or affinity", "change the selector, or label a node"),
    Reason.TAINT: Explanation("the node has a taint which the pod does not tolerate", "add a toleration, or remove the taint"),
    Reason.UNSCHEDULABLE: Explanation("the node is cordoned or not Ready", "uncordon or repair the node"),
    Reason.NODE_NOT_PREPARED: Explanation("the node does not show enough slots or totals yet", "wait, or look at the agent on that node"),
    Reason.AGENT_SILENT: Explanation("no fresh heartbeat of the node's agent", "look at the agent's pod on that node"),
    Reason.FOREIGN_PLUGIN: Explanation("another plugin or DRA driver serves GPUs on the node", "remove the other plugin from that node, and the pods that hold what it gave them"),
    Reason.MIG_UNSUPPORTED: Explanation("a card is divided in a way that no claim can name", "make the card whole again, or take it out of the inventory"),
    Reason.INSUFFICIENT_CPU: Explanation("not enough CPU on the node", "lower the pod's CPU request, or wait"),
    Reason.INSUFFICIENT_HOST_MEMORY: Explanation("not enough host memory on the node", "lower the pod's memory request, or wait"),
    Reason.TOO_MANY_PODS: Explanation("the node runs as many pods as it may", "wait, or raise the node's pod limit"),
    Reason.NO_CARDS: Explanation("the node has no cards", "nothing: such nodes are not for this pod"),
    Reason.NO_PARTITIONS: Explanation("the card is in MIG mode and has no partitions, so it offers nothing", "create MIG instances on the card, or switch its MIG mode off"),
    Reason.UNHEALTHY: Explanation("the card takes no new shares because of its health", "see `sublet cards` for the reason; repair the card, or use another model"),
    Reason.USED_OUTSIDE: Explanation("somebody uses the card to whom it was not given, and SUBLET_OUTSIDE_USE closes such cards", "see `sublet cards` for who it is; stop it, or let it claim the card"),
    Reason.IN_USE: Explanation("a whole card was asked for and this one is shared or taken", "wait until its pods end"),
    Reason.EXCLUSIVE: Explanation("the card belongs to one container alone", "wait until its pod ends"),
    Reason.INSUFFICIENT_MEMORY: Explanation("not enough free memory on the card", "ask for less memory, or wait"),
    Reason.INSUFFICIENT_CORES: Explanation("not enough free compute on the card", "ask for less compute, or wait"),
    Reason.TOO_MANY_SHARES: Explanation("the card carries as many shares as it may", "wait, or raise shares_per_card"),
    Reason.UNKNOWN_MEMORY: Explanation("the card's memory is unknown, so it takes whole-card claims only", "ask for sublet.dev/gpu alone"),
    Reason.MODEL_MISMATCH: Explanation("the card's model is not among those asked for", "change sublet.dev/card-models or exclude-card-models"),
    Reason.UUID_MISMATCH: Explanation("the card is not among those asked for by UUID", "change sublet.dev/card-uuids or exclude-card-uuids"),
    Reason.VENDOR_MISMATCH: Explanation("the card is of another vendor", "use the resource name of that vendor"),
    Reason.PROFILE_MISMATCH: Explanation("the card is whole and a partition was asked for, or the other way round, or its profile is another", "ask for a profile that `sublet cards` shows, or for whole cards"),
    Reason.TOO_FEW_CARDS: Explanation("this card would do, but its node has not enough like it", "ask for fewer cards, or wait"),
    Reason.NOT_LINKED: Explanation("no set of cards on the node is joined by nvlink", "set sublet.dev/link: preferred, or ask for fewer cards"),
    Reason.UNKNOWN_NUMA: Explanation("nobody says on which NUMA node of its machine the card is", "remove sublet.dev/numa, or write `numa` into the inventory if it comes from a file"),
    Reason.NOT_ON_ONE_NUMA: Explanation("this card would do, but no NUMA node of its machine has enough like it", "remove sublet.dev/numa, ask for fewer cards, or wait"),
    Reason.SAME_CARD_FULL: Explanation("the card of the pod's same-card group is elsewhere or full", "ask for less, or use another group"),
    Reason.SEARCH_CUT_SHORT: Explanation("more ways to put the pod's containers on the node's cards than are tried, and none of those tried fits", "ask for fewer different amounts in one pod, or spread them over several pods"),
    Reason.LARGER_THAN_ANY_NODE: Explanation("larger than any node known", "ask for less, or add a larger node"),
    Reason.UNDECIDED: Explanation("no decision was made in time", "nothing: it is decided as soon as the scheduler can"),
    Reason.FOREIGN_GATE: Explanation("another controller holds the pod", "nothing: it is decided when ours is the last gate"),
    Reason.KEPT: Explanation("the card would do, and is kept for a pod that is ahead in the queue", "wait, or raise the pod's priority"),
    Reason.QUEUED: Explanation("pods that wait already are tried first", "nothing: it is decided in its turn"),
    Reason.NAMESPACE_LIMIT: Explanation("a quota of the namespace does not allow as much of cards", "wait until pods of the namespace end, ask for less, or raise the quota"),
    Reason.PREEMPTING: Explanation("pods of lower priority are evicted for it", "nothing: it is placed when they are gone"),
    Reason.GANG_INCOMPLETE: Explanation("pods of its gang are missing or still held by others", "wait until all are created; correct sublet.dev/gang-size if it is wrong"),
    Reason.GANG_NO_ROOM: Explanation("the pods of its gang do not all fit at once", "wait, or make the gang smaller"),
    Reason.PREDECESSOR_ENDING: Explanation("an older pod of the same name still ends on the node", "nothing: it waits until that one is gone"),
}  # fmt: skip


REFUSALS: dict[RefusalCode, Explanation] = {
    RefusalCode.BAD_QUANTITY: Explanation("a resource is zero, negative, a fraction, too large, or has a suffix", "write a plain whole number in the unit that the message names"),
    RefusalCode.CONFLICTING_KEYS: Explanation("two keys of one claim exclude each other", "keep one of them"),
    RefusalCode.MISSING_KEY: Explanation("a claim lacks a key without which its system gives nothing", "add the key that the message names"),
    RefusalCode.TWO_DIALECTS: Explanation("one container asks in the words of two systems", "keep the resources of one system"),
    RefusalCode.RESERVED_KEY: Explanation("the pod carries a key that only the scheduler writes", "leave the key away; copies of a running pod carry it too"),
    RefusalCode.UNKNOWN_RESOURCE: Explanation("a resource in our domain that does not exist, or one of a dialect that is off", "correct its spelling, or switch the dialect on; the message says which"),
    RefusalCode.UNKNOWN_ANNOTATION: Explanation("an annotation in our domain that does not exist", "correct its spelling; the message lists those that exist"),
    RefusalCode.BAD_ANNOTATION: Explanation("the value of an annotation is not understood", "write one of the values that the message lists"),
    RefusalCode.NOT_SUPPORTED_YET: Explanation("what the annotation asks for is known, but not built yet", "remove the annotation"),
    RefusalCode.INIT_LARGER_THAN_HEIR: Explanation("an init container wants more cards than the container that takes over its slot", "ask for at most as many cards in the init container"),
    RefusalCode.RESERVED_RESOURCE: Explanation("the pod asks for slots itself", "leave sublet.dev/slot away; the webhook adds it"),
    RefusalCode.NODE_CANNOT_TAKE_IT: Explanation("spec.nodeName names a node which cannot take the pod now, and such a pod cannot wait", "leave nodeName away, or use a node selector"),
    RefusalCode.TOO_MANY_CLAIMS: Explanation("more containers of one pod claim cards than a decision may weigh", "spread them over several pods"),
    RefusalCode.UNREADABLE: Explanation("the pod cannot be read as a pod", "correct what the message names"),
}  # fmt: skip


REPORTS: dict[ReportCode, Explanation] = {
    ReportCode.BOUND_ELSEWHERE: Explanation("a pod runs on another node than the one that has its cards", "delete the pod; somebody bound it past its pin"),
    ReportCode.FORGED_DECISION: Explanation("a pod runs with a decision that the scheduler did not sign; the cards it names take no new shares", "delete the pod, and look at who may write pods"),
    ReportCode.GANG_GIVEN_UP: Explanation("a gang that another controller described stayed incomplete; its pods are placed one by one", "nothing, or write sublet.dev/gang-size with the number of pods that must start together"),
    ReportCode.GANG_INCOMPLETE: Explanation("a gang waits for a long time for pods that are not there", "create the missing pods, or correct sublet.dev/gang-size"),
    ReportCode.NODE_RELEASED: Explanation("an operator said that a node is off; what was ending there is free", "nothing"),
    ReportCode.PATCH_REFUSED: Explanation("the API server refuses the patch that would release or mark a pod", "read its message: a policy or a webhook stands against it"),
    ReportCode.PREEMPTED: Explanation("a pod was evicted, since one of higher priority needs its part of a card", "nothing; its owner makes another, which waits for room"),
    ReportCode.STUCK_PIN: Explanation("a released pod cannot start where its cards are, and nothing would replace it", "make room on the node, or delete the pod"),
    ReportCode.STUCK_PIN_FREED: Explanation("a released pod that could not start was deleted, so that its owner makes another", "nothing; its owner keeps off that node for a while"),
    ReportCode.UNCLAIMED_USE: Explanation("a pod uses a resource of ours without a claim; it counts against its node and holds no card", "recreate the pod where the webhook sees it"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """No fleet could satisfy it: unreadable, contradictory or forbidden.

    `message` quotes key and value as written; `hint` is the way out.
    """

    code: RefusalCode
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}. {self.hint}" if self.hint else f"{self.code}: {self.message}"
