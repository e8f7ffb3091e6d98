"""Reading to which gang a pod belongs: all pods of a gang are placed together or none.

Our own annotations come first; else a gang is what LeaderWorkerSet or Kueue say, who write name and size into
the pod. Of JobSet, Kubeflow, Volcano and Kubernetes' scheduling groups the pod tells the name alone, so that
`sublet.dev/gang-size` is enough there.
"""

from sublet.contract import keys, podspec
from sublet.contract.podspec import Json
from sublet.contract.quantity import whole_number
from sublet.model.claim import Gang
from sublet.model.reasons import Refusal, RefusalCode

MOST_MEMBERS = 10_000

LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
NAMES = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "scheduling.k8s.io/group-name",
)
"""Labels or annotations that name a group whose size the pod does not tell."""


def read_gang(pod: Json) -> Gang | Refusal | None:
    """The gang of a pod; None where it has none, or is alone in it."""
    written = podspec.annotations(pod)
    name, size = written.get(keys.GANG), written.get(keys.GANG_SIZE)
    if name is None and size is None:
        return _told_by_others(pod)
    if size is None:
        return _missing(keys.GANG_SIZE, f"{keys.GANG}={name!r}", "how many claiming pods the gang has")
    amount = whole_number(size, key=keys.GANG_SIZE, unit="pods", most=MOST_MEMBERS)
    if isinstance(amount, Refusal):
        return Refusal(code=RefusalCode.BAD_ANNOTATION, message=amount.message, hint=amount.hint)
    if name is None and amount > 1:
        name = _name_by_others(pod)
    if name is None and amount > 1:
        return _missing(keys.GANG, f"{keys.GANG_SIZE}={size!r}", "a name for the gang")
    if name is not None and not name.strip():
        return Refusal(
            code=RefusalCode.BAD_ANNOTATION,
            message=f"annotation {keys.GANG}={name!r} is not understood",
            hint="Write a name that all pods of the gang have",
        )
    return Gang(name=name or "", size=amount) if amount > 1 else None


def _missing(key: str, there: str, what: str) -> Refusal:
    return Refusal(
        code=RefusalCode.MISSING_KEY, message=f"annotation {there} without {key}", hint=f"Add {key}: {what}"
    )


def _told_by_others(pod: Json) -> Gang | None:
    """Who counts all its pods, whether or not they claim cards; such a gang is given up after a time."""
    told = {**podspec.annotations(pod), **podspec.labels(pod)}
    for name, size in ((_lws(told), told.get(LWS_SIZE)), (told.get(KUEUE_GROUP), told.get(KUEUE_TOTAL))):
        amount = whole_number(size, key="", unit="pods", most=MOST_MEMBERS) if name and size else None
        if name and isinstance(amount, int) and amount > 1:
            return Gang(name=name, size=amount, derived=True)
    return None


def _name_by_others(pod: Json) -> str | None:
    told = {**podspec.annotations(pod), **podspec.labels(pod)}
    group = ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
    names = (_lws(told), told.get(KUEUE_GROUP), *(told.get(key) for key in NAMES), group)
    return next((name for name in names if name), None)


def _lws(told: Json) -> str | None:
    return f"{told[LWS_NAME]}/{told[LWS_GROUP]}" if LWS_NAME in told and LWS_GROUP in told else None
