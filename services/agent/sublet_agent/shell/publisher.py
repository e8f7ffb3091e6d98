"""Keeps the node's three keys in the inventory bucket: newest inventory, newest occupancy, heartbeat."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

import structlog

from sublet.bus.port import Bus
from sublet.contract import subjects
from sublet.model.card import Heartbeat, Inventory
from sublet.model.errors import BadRequest, NotFound, Unavailable
from sublet.model.health import Verdict
from sublet.model.ids import NodeName
from sublet.model.placement import Occupancy
from sublet.wire import node as wire

log = structlog.get_logger()

_PUT_WITHIN_S = 5.0
_AGAIN_S = 1.0


class Publisher:
    """What cannot be written stays until it can; only the newest of each kind is ever written.

    Every inventory carries `verdicts` as they then are: a key shows its newest value only, so that one said
    once might never be seen.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        node: NodeName,
        unix_ms: Callable[[], int],
        verdicts: Callable[[], Iterable[Verdict]],
        refresh_s: float = 60.0,
    ) -> None:
        self._bus = bus
        self._node = node
        self._unix_ms = unix_ms
        self._verdicts = verdicts
        self._refresh_s = refresh_s
        self._inventory: Inventory | None = None
        self._occupancy: Occupancy | None = None
        self._due: set[str] = set()
        self._wake = asyncio.Event()
        self._seq = count(1)

    def inventory(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._mark(subjects.INVENTORY)

    def occupancy(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy
        self._mark(subjects.OCCUPANCY)

    def refresh(self) -> None:
        """Write everything again: the bus may have lost it."""
        self._mark(subjects.INVENTORY, subjects.OCCUPANCY)

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._refresh_s):
                    await self._wake.wait()
            except TimeoutError:
                self.refresh()
            self._wake.clear()
            if not await self._write_due():
                await asyncio.sleep(_AGAIN_S)
                self._wake.set()

    async def beat(self, *, boot_id: str, epoch: str) -> None:
        beat = Heartbeat(
            node=self._node,
            boot_id=boot_id,
            epoch=epoch,
            seq=next(self._seq),
            at_ms=self._unix_ms(),
        )
        await self._put(subjects.heartbeat_key(self._node), wire.heartbeat_out(beat))

    def _mark(self, *kinds: str) -> None:
        self._due |= set(kinds)
        self._wake.set()

    async def _write_due(self) -> bool:
        """Whether nothing is left to write."""
        for kind in sorted(self._due):
            self._due.discard(kind)
            key, body = self._body(kind)
            if body and not await self._put(key, body):
                self._due.add(kind)
        return not self._due

    def _body(self, kind: str) -> tuple[str, bytes]:
        seq, at_ms = next(self._seq), self._unix_ms()
        if kind == subjects.INVENTORY:
            verdicts = tuple(self._verdicts())
            inventory = self._inventory and replace(self._inventory, seq=seq, at_ms=at_ms, verdicts=verdicts)
            return subjects.inventory_key(self._node), wire.inventory_out(inventory) if inventory else b""
        occupancy = self._occupancy and replace(self._occupancy, seq=seq)
        return subjects.occupancy_key(self._node), wire.occupancy_out(occupancy) if occupancy else b""

    async def _put(self, key: str, body: bytes) -> bool:
        try:
            await self._bus.put(subjects.INVENTORY_BUCKET, key, body, within_s=_PUT_WITHIN_S)
        except (Unavailable, NotFound) as error:
            log.debug("key.unwritten", key=key, error=str(error))
            return False
        except BadRequest as error:  # the bus will never take this value; the next may be another
            log.error("key.unwritable", key=key, error=str(error))
        return True
