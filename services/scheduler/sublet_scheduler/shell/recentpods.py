"""The gated pods that the watch showed last, as they were sent: what a release patch is made from.

A patch is refused anyway where the pod has changed since, so no other look at it is needed first.
"""

from collections import OrderedDict

from sublet.model.ids import PodUid

MOST = 1_024
"""About 8 MiB; a pod that was pushed out is read from the API server again."""


class RecentPods:
    def __init__(self) -> None:
        self._kept: OrderedDict[PodUid, tuple[str, bytes]] = OrderedDict()

    def keep(self, uid: PodUid, version: str, raw: bytes) -> None:
        self._kept[uid] = (version, raw)
        self._kept.move_to_end(uid)
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)

    def forget(self, uid: PodUid) -> None:
        self._kept.pop(uid, None)

    def get(self, uid: PodUid, version: str) -> bytes | None:
        """The pod as it was at `version`, if it is kept."""
        found = self._kept.get(uid)
        return found[1] if found and found[0] == version else None
