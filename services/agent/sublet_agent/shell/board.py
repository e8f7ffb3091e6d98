"""The slot list as the kubelet shall see it now: a snapshot that any number of streams may follow."""

import asyncio
from collections.abc import AsyncGenerator

from sublet.kubelet import deviceplugin_v1beta1_pb2 as pb
from sublet.model.ids import SlotId
from sublet_agent.core.slots import slot_ids

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


def slot_list(count: int, withheld: frozenset[SlotId]) -> pb.ListAndWatchResponse:
    return pb.ListAndWatchResponse(
        devices=[
            pb.Device(ID=slot, health=UNHEALTHY if slot in withheld else HEALTHY) for slot in slot_ids(count)
        ]
    )


class Board:
    def __init__(self, *, debounce_s: float) -> None:
        self._debounce_s = debounce_s
        self._count = 0
        self._withheld: frozenset[SlotId] = frozenset()
        self._slots: frozenset[SlotId] = frozenset()
        self._message = slot_list(0, frozenset())
        self._changed = asyncio.Event()
        self.ready = asyncio.Event()
        """There is a list to show."""

    @property
    def count(self) -> int:
        return self._count

    def __contains__(self, slot: object) -> bool:
        return slot in self._slots

    def show(self, count: int, withheld: frozenset[SlotId]) -> None:
        if (count, withheld) == (self._count, self._withheld):
            return
        self._count, self._withheld = count, withheld
        self._slots = frozenset(slot_ids(count))
        self._message = slot_list(count, withheld)
        self.ready.set()
        self.wake()

    def wake(self) -> None:
        """Let every stream look again, at the list and at whether it shall end."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def lists(self, closing: asyncio.Event) -> AsyncGenerator[pb.ListAndWatchResponse, None]:
        """The first list at once and all Healthy, since a kubelet that comes back refuses pods whose old slot
        is not; then what there is to show, changes in quick succession as one, until `closing` is set."""
        shown = slot_list(self._count, frozenset())
        yield shown
        while not closing.is_set():
            changed = self._changed
            if self._message == shown:
                await changed.wait()
            else:
                await asyncio.sleep(self._debounce_s)
                shown = self._message
                yield shown
