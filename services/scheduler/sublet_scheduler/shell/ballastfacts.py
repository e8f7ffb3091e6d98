"""Reads the ballast pods of nodes, which the scheduler itself made, also before it was started anew."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sublet.contract import keys, quantity
from sublet.contract.podspec import Json
from sublet.model.ids import NodeName
from sublet_scheduler.core.facts import BallastFacts, PodFacts
from sublet_scheduler.core.size import Size
from sublet_scheduler.shell.ownpods import is_own, own_facts


def read_ballast(pod: Json) -> PodFacts | None:
    """None where it is another pod that somebody put into the namespace. Raises ValueError where a quantity
    cannot be read."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("kind") == "Node"), None)
    if owner is None or not is_own(pod, component=keys.BALLAST, namespace=keys.BALLAST_NAMESPACE):
        return None
    asked = _size((spec["containers"][0].get("resources") or {}).get("requests") or {})
    ballast = BallastFacts(
        node=NodeName(owner["name"]), asked=asked, counted=_most([asked, *_in_force(status)])
    )
    return replace(own_facts(pod), ballast=ballast)


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
