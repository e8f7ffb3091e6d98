"""Looks at all cards of the node through the worker, one after another, and remembers what it saw.

What hangs or fails concerns the card that it was about; the cards that were there stay.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import structlog

from sublet.cards.divided import nothing_offered
from sublet.cards.memory import Outcome, remember
from sublet.cards.nvml.library import Library, Meaning, code, meaning, outcome
from sublet.cards.nvml.links import links
from sublet.cards.nvml.reading import Reading, read_ancestors, read_card
from sublet.cards.port import DRIVER_NOT_LOADED, Discovery
from sublet.cards.worker import Stuck, Worker
from sublet.model.card import Card
from sublet.model.ids import CardId

DRIVER = "the driver"
FAILED_LOOKS = 3
"""So many looks in a row at which nothing answered any more, and a new process must try."""

log = structlog.get_logger()


class Scanner:
    """`cards`, `handles` and `outcomes` are of the last look, `instances` the handles of MIG instances by
    card; a card that hangs keeps its old handles."""

    def __init__(self, worker: Worker, library: Library, sysfs_root: Path) -> None:
        self._worker = worker
        self._library = library
        self._sysfs_root = sysfs_root
        self._looking = asyncio.Lock()
        self.cards: dict[CardId, Card] = {}
        self.handles: dict[CardId, Any] = {}
        self.instances: dict[CardId, Mapping[CardId, Any]] = {}
        self.outcomes: dict[CardId, Outcome] = {}
        self.driver = ""
        self.needs_restart = ""
        self._ancestors: dict[tuple[CardId, CardId], int] = {}
        self._state = ""
        self._was_gone = False
        self._came_back = False
        self._failed_looks = 0

    async def look(self) -> Discovery:
        async with self._looking:
            try:
                self.driver, count = await self._worker.call(self._library.count, about=DRIVER)
                return await self._look_at(count)
            except Stuck:
                self._tell("stuck")
                self.outcomes = dict.fromkeys(self.cards, Outcome.HANG)
                return self._discovery(warnings=("the driver does not answer",))
            except pynvml.NVMLError as error:
                return await self._without_driver(error)

    def driver_came_back(self) -> bool:
        """Whether a driver that was unloaded is there again; says so once."""
        came_back, self._came_back = self._came_back, False
        return came_back

    async def _look_at(self, count: int) -> Discovery:
        self._tell("loaded")
        if self._was_gone:
            self._was_gone, self._came_back = False, True
            self._ancestors.clear()
        readings, failed = await self._read(count)
        alone = bool(failed) and not readings and all(how is Outcome.ERROR for how in failed.values())
        self._judge_process(lost_touch=alone)
        cards, self.outcomes = remember(self.cards, [one.card for one in readings], failed)
        hung = {card: end for card, end in self.handles.items() if self.outcomes.get(card) is Outcome.HANG}
        self.handles = hung | {one.card.id: one.handle for one in readings}
        kept = {card: ends for card, ends in self.instances.items() if card in hung}
        self.instances = kept | {one.card.id: one.instances for one in readings}
        await self._learn_ancestors(readings)
        joined = links(readings, self._ancestors)
        self.cards = {card.id: replace(card, links=joined.get(card.id, card.links)) for card in cards}
        return self._discovery(warnings=tuple(self._unreadable(failed)))

    async def _read(self, count: int) -> tuple[list[Reading], dict[int, Outcome]]:
        names = {card.index: str(card.id) for card in self.cards.values()}
        readings: list[Reading] = []
        failed: dict[int, Outcome] = {}
        for index in range(count):
            read = partial(read_card, index, self._sysfs_root)
            try:
                readings.append(await self._worker.call(read, about=names.get(index, f"card {index}")))
            except Stuck:
                failed[index] = Outcome.HANG
            except pynvml.NVMLError as error:
                if meaning(error) in (Meaning.DRIVER_GONE, Meaning.RESTART):
                    raise
                failed[index] = outcome(error)
        return readings, failed

    async def _learn_ancestors(self, readings: list[Reading]) -> None:
        """They hold while a driver is loaded. Links are a preference: what fails is asked again later."""
        for position, one in enumerate(readings):
            new: Mapping[CardId, Any] = {
                other.card.id: other.handle
                for other in readings[position + 1 :]
                if (one.card.id, other.card.id) not in self._ancestors
            }
            if not new:
                continue
            with contextlib.suppress(Stuck, pynvml.NVMLError):
                levels = await self._worker.call(partial(read_ancestors, one.handle, new), about=one.card.id)
                self._ancestors |= {(one.card.id, other): level for other, level in levels.items()}

    def _unreadable(self, failed: Mapping[int, Outcome]) -> Iterator[str]:
        known = {card.index for card in self.cards.values()}
        return (
            f"card {index} was never readable: {how}" for index, how in failed.items() if index not in known
        )

    def _discovery(self, *, problems: tuple[str, ...] = (), warnings: tuple[str, ...] = ()) -> Discovery:
        cards = tuple(sorted(self.cards.values(), key=lambda card: card.index))
        warnings = (*warnings, *nothing_offered(cards))
        return Discovery(cards=cards, driver=self.driver, problems=problems, warnings=warnings)

    async def _without_driver(self, error: pynvml.NVMLError) -> Discovery:
        what = meaning(error)
        self._tell(f"error {code(error)}")
        if what is Meaning.RESTART:
            self.needs_restart = "the driver was replaced while its library was open"
        self._judge_process(lost_touch=what is Meaning.UNCLEAR)
        self.outcomes = dict.fromkeys(self.cards, Outcome.ERROR)
        if what is Meaning.DRIVER_GONE:
            self._was_gone = bool(self.cards)
            with contextlib.suppress(Stuck, pynvml.NVMLError):
                await self._worker.call(self._library.close, about=DRIVER)
        return self._discovery(problems=(DRIVER_NOT_LOADED,), warnings=(f"NVML answers {code(error)}",))

    def _judge_process(self, *, lost_touch: bool) -> None:
        """A process that lost its access to the devices gets errors for everything, for ever."""
        self._failed_looks = self._failed_looks + 1 if lost_touch and self.cards else 0
        if self._failed_looks >= FAILED_LOOKS:
            self.needs_restart = "no card answers this process any more"

    def _tell(self, state: str) -> None:
        if state != self._state:
            self._state = state
            log.info("nvml.driver_changed", state=state)
