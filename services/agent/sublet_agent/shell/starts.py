"""PreStartContainer: find out whose slot it is, then ask the engine, and measure how long it took."""

import asyncio
from collections.abc import Callable

from sublet.model.errors import Unavailable
from sublet.model.ids import SlotId
from sublet_agent.core.identity import Identity
from sublet_agent.shell.driver import Driver
from sublet_agent.shell.observer import Observer

_IDENTIFY_WITHIN_S = 2.0
_IDENTIFY_PAUSE_S = 0.1
_MARGIN_S = 3.0


class Starts:
    def __init__(
        self,
        observer: Observer,
        driver: Driver,
        *,
        grant_wait_s: float,
        clock: Callable[[], float],
        measured: Callable[[float, bool], None],
    ) -> None:
        """`measured` hears the seconds that a start took, and whether the answer was yes."""
        self._observer = observer
        self._driver = driver
        self._grant_wait_s = grant_wait_s
        self._clock = clock
        self._measured = measured

    async def start(self, slot: SlotId) -> None:
        """Raises Unavailable with the reason why the container may not start yet."""
        began_s, allowed = self._clock(), False
        try:
            who = await self._identify(slot, began_s + _IDENTIFY_WITHIN_S)
            await self._driver.ask(who, within_s=self._grant_wait_s + _MARGIN_S)
            allowed = True
        finally:
            self._measured(self._clock() - began_s, allowed)

    async def _identify(self, slot: SlotId, until_s: float) -> Identity:
        """The kubelet's two sources may be a moment apart; after that, it is for the kubelet to ask again."""
        while True:
            who = await self._observer.identify(slot)
            if isinstance(who, Identity):
                return who
            if self._clock() >= until_s:
                raise Unavailable(who.reason)
            await asyncio.sleep(_IDENTIFY_PAUSE_S)
