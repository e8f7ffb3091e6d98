"""Reads placeholders, which the scheduler itself made, also before it was started anew."""

from dataclasses import replace

from sublet.contract import keys, podspec
from sublet.contract.podspec import Json
from sublet.model.ids import PodUid
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.shell.ownpods import is_own, own_facts


def read_placeholder(pod: Json) -> PodFacts | None:
    """None where it is another pod that somebody put into the namespace."""
    if not is_own(pod, component=keys.PLACEHOLDER, namespace=keys.PLACEHOLDER_NAMESPACE):
        return None
    told = podspec.annotations(pod).get(keys.STANDS_FOR, "")
    stands_for = tuple(PodUid(one.rpartition("/")[2]) for one in told.split(",") if one)
    return replace(own_facts(pod), placeholder=stands_for)
