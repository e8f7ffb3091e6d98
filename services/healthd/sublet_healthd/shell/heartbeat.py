"""Says at intervals that somebody judges, so that a verdict is known to stand though it does not change."""

from collections.abc import Callable

import structlog

from sublet.bus.port import Bus
from sublet.contract import subjects
from sublet.model.errors import NotFound, Unavailable
from sublet.runtime.serve import every
from sublet.wire.health import healthd_heartbeat_out

EVERY_S = 5.0
WITHIN_S = 5.0

log = structlog.get_logger()


class Heartbeat:
    def __init__(self, bus: Bus, *, unix_ms: Callable[[], int], every_s: float = EVERY_S) -> None:
        self._bus = bus
        self._unix_ms = unix_ms
        self._every_s = every_s

    async def run(self) -> None:
        await every(self._every_s, self._beat)

    async def _beat(self) -> None:
        value = healthd_heartbeat_out(self._unix_ms())
        try:
            await self._bus.put(
                subjects.HEALTHD_BUCKET, subjects.HEALTHD_HEARTBEAT_KEY, value, within_s=WITHIN_S
            )
        except (Unavailable, NotFound) as error:
            log.debug("heartbeat.unsent", error=str(error))
