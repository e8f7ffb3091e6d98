"""Looks at the node when the engine wishes, when the kubelet wrote its checkpoint, and at intervals."""

import asyncio

from sublet_agent.core import event as ev
from sublet_agent.core.engine import Engine
from sublet_agent.shell.driver import Driver
from sublet_agent.shell.mailbox import Mailbox
from sublet_agent.shell.observer import Observer

_GAP_S = 0.1
"""Between two looks: PodResources takes at most 100 calls a second from everybody together."""


class Looks:
    def __init__(
        self, observer: Observer, engine: Engine, driver: Driver, wished: Mailbox[None], *, poll_s: float
    ) -> None:
        self._observer = observer
        self._engine = engine
        self._driver = driver
        self._wished = wished
        self._poll_s = poll_s

    async def run(self) -> None:
        while True:
            entry = self._engine.entry
            observation = await self._observer.observe(
                generation=self._engine.generation,
                revision=entry.revision if entry else 0,
                cards=self._engine.offered,
            )
            await self._driver.submit(ev.Observed(observation))
            await asyncio.sleep(_GAP_S)
            try:
                async with asyncio.timeout(self._poll_s):
                    await self._wished.take()
            except TimeoutError:
                continue

    async def watch_checkpoint(self) -> None:
        """A stat now and then is enough: starts read the file anew; only withheld slots are late by it."""
        stamp = self._observer.checkpoint_stamp()
        while True:
            await asyncio.sleep(0.5)
            if (found := self._observer.checkpoint_stamp()) != stamp:
                stamp = found
                self._wished.put(None)
