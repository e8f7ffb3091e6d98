"""The cards of several drivers as those of one node; each source goes on telling its signals by itself."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from sublet.cards.port import DRIVER_NOT_LOADED, CardReader, DeviceNode, Discovery, ProcessUse
from sublet.model.card import Card
from sublet.model.errors import NotFound
from sublet.model.ids import CardId


class Together:
    """See `CardReader`. Looks every `poll_s`. That a driver is missing is a problem only where all are."""

    def __init__(self, sources: Sequence[CardReader], *, poll_s: float) -> None:
        self._sources = tuple(sources)
        self._poll_s = poll_s
        self._owners: dict[CardId, CardReader] = {}
        self._shown: Discovery | None = None
        self._closed = asyncio.Event()

    async def discover(self) -> Discovery:
        self._shown = await self._look()
        return self._shown

    async def _look(self) -> Discovery:
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(source.discover()) for source in self._sources]
        found = [look.result() for look in looks]
        cards: list[Card] = []
        for source, one in zip(self._sources, found, strict=True):
            first = max((card.index for card in cards), default=-1) + 1
            cards += [replace(card, index=first + card.index) for card in one.cards]
            known = (each.id for card in one.cards for each in (card, *card.offered))
            self._owners |= dict.fromkeys(known, source)
        missing = all(DRIVER_NOT_LOADED in one.problems for one in found)
        problems = {problem for one in found for problem in one.problems}
        return Discovery(
            cards=tuple(cards),
            driver=",".join(one.driver for one in found if one.driver),
            problems=tuple(sorted(problems if missing else problems - {DRIVER_NOT_LOADED})),
            warnings=tuple(
                warning
                for one in found
                for warning in one.warnings
                if missing or DRIVER_NOT_LOADED not in one.problems
            ),
        )

    async def changes(self) -> AsyncGenerator[None, None]:
        yield
        while not self._closed.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._closed.wait()
            if not self._closed.is_set() and await self._look() != self._shown:
                yield

    async def processes(self, card: CardId) -> tuple[ProcessUse, ...] | None:
        owner = self._owners.get(card)
        return None if owner is None else await owner.processes(card)

    def device_nodes(self, card: CardId) -> tuple[DeviceNode, ...]:
        owner = self._owners.get(card)
        if owner is None:
            raise NotFound(f"no card {card}")
        return owner.device_nodes(card)

    def needs_restart(self) -> str:
        return next((why for source in self._sources if (why := source.needs_restart())), "")

    async def close(self) -> None:
        self._closed.set()
        for source in self._sources:
            await source.close()
