"""Reads placeholders, which the scheduler itself made, also before it was started anew."""

from sublet.contract import keys, podspec
from sublet.contract.podspec import Json
from sublet.model.ids import NodeName, PodRef, PodUid
from sublet_scheduler.core.facts import PodFacts

LABELS = {
    "app.kubernetes.io/name": "sublet",
    "app.kubernetes.io/part-of": "sublet",
    keys.COMPONENT_LABEL: keys.PLACEHOLDER,
}


def read_placeholder(pod: Json) -> PodFacts | None:
    """None where it is another pod that somebody put into the namespace."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if meta["namespace"] != keys.PLACEHOLDER_NAMESPACE or not LABELS.items() <= podspec.labels(pod).items():
        return None
    told = podspec.annotations(pod).get(keys.STANDS_FOR, "")
    node = spec.get("nodeName")
    return PodFacts(
        uid=PodUid(meta["uid"]),
        ref=PodRef(meta["namespace"], meta["name"]),
        version=meta["resourceVersion"],
        node=NodeName(node) if node else None,
        phase=status.get("phase") or "Pending",
        deleting=bool(meta.get("deletionTimestamp")),
        placeholder=tuple(PodUid(one.rpartition("/")[2]) for one in told.split(",") if one),
    )
