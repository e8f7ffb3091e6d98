"""Read the kubelet's device checkpoint: who holds which slot, and which other resources are served."""

import json
from collections.abc import Iterable, Iterator, Mapping

from sublet.contract import keys
from sublet.model.errors import BadRequest
from sublet.model.ids import PodUid, SlotId
from sublet_agent.core.observation import Checkpoint, Holding


def read_checkpoint(text: str | bytes) -> Checkpoint:
    """Take the file apart; its form is ``{"Data": {"PodDeviceEntries": [...], "RegisteredDevices": {...}}}``.

    DeviceIDs are lists by NUMA node, and were one plain list before Kubernetes 1.20; both are read.

    Raises:
        BadRequest: it is not such a file, for example because it was caught half-written.
    """
    try:
        document = json.loads(text)
        data = document["Data"]
        return Checkpoint(
            holdings=tuple(_holdings(data["PodDeviceEntries"] or ())),
            served={str(name): len(ids or ()) for name, ids in (data["RegisteredDevices"] or {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadRequest(f"the kubelet's device checkpoint is not readable: {error!r}") from error


def _holdings(entries: Iterable[Mapping[str, object]]) -> Iterator[Holding]:
    for entry in entries:
        if entry["ResourceName"] != keys.SLOT:
            continue
        for slot in _ids(entry["DeviceIDs"]):
            yield Holding(
                slot=SlotId(slot), uid=PodUid(str(entry["PodUID"])), container=str(entry["ContainerName"])
            )


def _ids(found: object) -> list[str]:
    if isinstance(found, Mapping):
        return [str(one) for ids in found.values() for one in ids or ()]
    if isinstance(found, list):
        return [str(one) for one in found]
    if found is None:
        return []
    raise TypeError(f"DeviceIDs is {type(found).__name__}")
