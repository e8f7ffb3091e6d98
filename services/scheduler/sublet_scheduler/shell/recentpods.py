"""Pods as they were seen last, so that none is asked for or read twice.

A release patch is made from the gated pod as the watch showed it: the patch is refused anyway where the pod
has changed since. What a patch answered comes through the watch once more, at the same version.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

from sublet.model.ids import PodUid
from sublet_scheduler.core.facts import PodFacts

T = TypeVar("T")

MOST = 1_024
"""About 8 MiB; a pod that was pushed out is read from the API server again."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A pod as the watch sent it, and what it says."""

    raw: bytes
    facts: PodFacts


class RecentPods:
    def __init__(self) -> None:
        self._gated: OrderedDict[PodUid, Shown] = OrderedDict()
        self._answered: OrderedDict[PodUid, PodFacts] = OrderedDict()

    def keep(self, facts: PodFacts, raw: bytes) -> None:
        """A gated pod, from which a patch may be made soon."""
        _put(self._gated, facts.uid, Shown(raw, facts))

    def forget(self, uid: PodUid) -> None:
        self._gated.pop(uid, None)

    def get(self, uid: PodUid, version: str) -> Shown | None:
        """The pod as the watch showed it at `version`, if it is kept."""
        found = self._gated.get(uid)
        return found if found and found.facts.version == version else None

    def answered(self, facts: PodFacts) -> None:
        """What a patch of ours made of a pod."""
        _put(self._answered, facts.uid, facts)

    def take_answered(self, uid: PodUid, version: str) -> PodFacts | None:
        """What a patch answered, if it is the pod of `version`; once."""
        found = self._answered.pop(uid, None)
        return found if found and found.version == version else None


def _put(kept: OrderedDict[PodUid, T], uid: PodUid, item: T) -> None:
    kept[uid] = item
    kept.move_to_end(uid)
    if len(kept) > MOST:
        kept.popitem(last=False)
