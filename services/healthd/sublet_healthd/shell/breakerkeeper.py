"""Keeps the breaker on the bus, so that it survives a restart, and tells when its state changes."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from sublet.bus.port import Bus
from sublet.contract import subjects
from sublet.model.errors import BadRequest, Conflict
from sublet.model.health import Breaker
from sublet.wire.health import breaker_in, breaker_out
from sublet_healthd.core.event import BreakerChanged
from sublet_healthd.shell.audit import Audit
from sublet_healthd.shell.retry import BUS_AWAY, Pauses, keep_trying
from sublet_healthd.shell.store import WITHIN_S, Superseded

log = structlog.get_logger()

CHANGES = 64
"""Changes of state that wait to be told; beyond it the oldest go, the newest always stays."""


class BreakerKeeper:
    def __init__(
        self, bus: Bus, audit: Audit, told: Callable[[Breaker], Awaitable[None]], *, pauses: Pauses
    ) -> None:
        """`told` hears each change of state too, after the public was told of it."""
        self._bus = bus
        self._audit = audit
        self._told = told
        self._pauses = pauses
        self._revision = 0
        self._changes: deque[Breaker] = deque(maxlen=CHANGES)
        self._newest: Breaker | None = None
        self._woken = asyncio.Event()

    async def load(self, *, fence: bool) -> Breaker:
        """As an earlier life left it; waits for the bus. `fence`: whoever wrote it cannot write it again."""
        while True:
            try:
                return await self._load(fence=fence)
            except Conflict:
                continue  # the one before us was quicker: take what it wrote

    async def _load(self, *, fence: bool) -> Breaker:
        entry = await keep_trying(
            "breaker.load",
            lambda: self._bus.get(subjects.HEALTHD_BUCKET, subjects.BREAKER_KEY, within_s=WITHIN_S),
            pauses=self._pauses,
            on=BUS_AWAY,
        )
        if entry is None:
            return Breaker()
        self._revision = entry.revision
        if fence:
            take = partial(self._update, entry.value, entry.revision)
            self._revision = await keep_trying("breaker.take", take, pauses=self._pauses, on=BUS_AWAY)
        try:
            return breaker_in(entry.value)
        except BadRequest as error:
            log.error("breaker.unreadable", error=str(error))
            return Breaker()

    async def _update(self, value: bytes, revision: int) -> int:
        bucket, key = subjects.HEALTHD_BUCKET, subjects.BREAKER_KEY
        return await self._bus.update(bucket, key, value, revision, within_s=WITHIN_S)

    def put(self, changed: BreakerChanged) -> None:
        self._newest = changed.breaker
        if changed.before.state is not changed.breaker.state:
            self._changes.append(changed.breaker)
        self._woken.set()

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            newest, self._newest = self._newest, None
            if newest is not None:
                write = partial(self._write, breaker_out(newest))
                await keep_trying("breaker.write", write, pauses=self._pauses, on=BUS_AWAY)
            while self._changes:
                await self._tell(self._changes.popleft())

    async def _write(self, value: bytes) -> None:
        """Fenced by the revision before; a bucket that was created anew holds nothing."""
        bucket, key = subjects.HEALTHD_BUCKET, subjects.BREAKER_KEY
        try:
            if self._revision:
                self._revision = await self._update(value, self._revision)
            else:
                self._revision = await self._bus.create(bucket, key, value, within_s=WITHIN_S)
        except Conflict:
            found = await self._bus.get(bucket, key, within_s=WITHIN_S)
            if found is None:
                self._revision = await self._bus.create(bucket, key, value, within_s=WITHIN_S)
            elif found.value == value:
                self._revision = found.revision
            else:
                raise Superseded(
                    "another process wrote the breaker", hint="Only one healthd may judge; this one ends"
                ) from None

    async def _tell(self, breaker: Breaker) -> None:
        log.warning("breaker.changed", state=breaker.state, why=breaker.why, by=breaker.by)
        await self._audit.tell(
            f"breaker_{breaker.state}",
            event_id=f"breaker/{breaker.state}/{breaker.since_ms}",
            by=breaker.by or "healthd",
            note=breaker.why,
            at_ms=breaker.since_ms,
        )
        await self._told(breaker)
