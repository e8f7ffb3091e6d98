"""Names of things, each its own type, so that one is never passed for another."""

from dataclasses import dataclass
from typing import NewType

CardId = NewType("CardId", str)  # the vendor's UUID, never the index: indices move on reboot
NodeName = NewType("NodeName", str)
PodUid = NewType("PodUid", str)
DecisionId = NewType("DecisionId", str)  # names a placement before its pod has a UID
SlotId = NewType("SlotId", str)


@dataclass(frozen=True, slots=True, order=True)
class PodRef:
    """A pod by namespace and name; the name is empty while the API server has not made one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
