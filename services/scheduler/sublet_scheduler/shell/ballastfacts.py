"""Reads the ballast pods of nodes, which the scheduler itself made, also before it was started anew."""

from collections.abc import Iterable, Mapping

from sublet.contract import keys, podspec, quantity
from sublet.contract.podspec import Json
from sublet.model.ids import NodeName, PodRef, PodUid
from sublet_scheduler.core.facts import BallastFacts, PodFacts
from sublet_scheduler.core.size import Size

LABELS = {
    "app.kubernetes.io/name": "sublet",
    "app.kubernetes.io/part-of": "sublet",
    keys.COMPONENT_LABEL: "ballast",
}


def read_ballast(pod: Json) -> PodFacts | None:
    """None where it is another pod that somebody put into the namespace. Raises ValueError where a quantity
    cannot be read."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("kind") == "Node"), None)
    if meta["namespace"] != keys.BALLAST_NAMESPACE or owner is None:
        return None
    if not LABELS.items() <= podspec.labels(pod).items():
        return None
    asked = _size((spec["containers"][0].get("resources") or {}).get("requests") or {})
    node = spec.get("nodeName")
    return PodFacts(
        uid=PodUid(meta["uid"]),
        ref=PodRef(meta["namespace"], meta["name"]),
        version=meta["resourceVersion"],
        node=NodeName(node) if node else None,
        phase=status.get("phase") or "Pending",
        deleting=bool(meta.get("deletionTimestamp")),
        ballast=BallastFacts(
            node=NodeName(owner["name"]), asked=asked, counted=_most([asked, *_in_force(status)])
        ),
    )


def _in_force(status: Json) -> Iterable[Size]:
    for one in status.get("containerStatuses") or ():
        yield _size(one.get("allocatedResources") or {})
        yield _size((one.get("resources") or {}).get("requests") or {})


def _most(sizes: Iterable[Size]) -> Size:
    found = list(sizes)
    return Size(
        cpu_milli=max(one.cpu_milli for one in found), memory_bytes=max(one.memory_bytes for one in found)
    )


def _size(requests: Mapping[str, object]) -> Size:
    return Size(
        cpu_milli=quantity.cpu_milli(requests),
        memory_bytes=int(quantity.quantity(requests.get("memory", 0))),
    )
