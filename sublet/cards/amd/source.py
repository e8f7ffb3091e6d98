"""The cards of a node as AMD's driver shows them: presence, errors, and the exporter's word."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sublet.cards.amd import sysfs
from sublet.cards.amd.exporter import SOCKET, exporter_says
from sublet.cards.amd.observer import Observer
from sublet.cards.amd.topology import MIB, read_topology
from sublet.cards.devicenodes import amd_device_nodes
from sublet.cards.divided import unsupported
from sublet.cards.memory import Outcome, remember
from sublet.cards.port import (
    DRIVER_NOT_LOADED,
    DeviceNode,
    Discovery,
    Observation,
    ProcessUse,
)
from sublet.cards.worker import Stuck, Worker
from sublet.model.card import Card
from sublet.model.errors import NotFound
from sublet.model.ids import CardId

ALL = "all AMD cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    loaded: bool
    driver: str = ""
    cards: tuple[sysfs.AmdCard, ...] = ()
    errors: Mapping[CardId, int | None] = field(default_factory=dict)
    """Uncorrectable ones."""


class AmdCards:
    """See `CardSource`. Partitions are shown with their card, which is not offered whole then."""

    def __init__(
        self,
        *,
        sysfs_root: Path = Path("/sys"),
        dev_root: Path = Path("/"),
        exporter: Path = SOCKET,
        call_limit_s: float = 2.0,
        poll_s: float = 10.0,
    ) -> None:
        self._sysfs_root = sysfs_root
        self._dev_root = dev_root
        self._exporter = exporter
        self._poll_s = poll_s
        self._worker = Worker(limit_s=call_limit_s)
        self._observer = Observer()
        self._looking = asyncio.Lock()
        self._closed = asyncio.Event()
        self._cards: dict[CardId, Card] = {}
        self._outcomes: dict[CardId, Outcome] = {}
        self._seen: dict[CardId, sysfs.AmdCard] = {}
        self._shown: Discovery | None = None

    async def discover(self) -> Discovery:
        self._shown, _ = await self._look()
        return self._shown

    async def _look(self) -> tuple[Discovery, _Look | None]:
        """None instead of a look where the driver does not answer."""
        async with self._looking:
            try:
                look = await self._worker.call(partial(_look, self._sysfs_root), about=ALL)
            except Stuck:
                self._outcomes = dict.fromkeys(self._cards, Outcome.HANG)
                return self._discovery(None, "AMD's driver does not answer"), None
            joined = sysfs.links(look.cards)
            read = [replace(one.card, links=joined[one.card.id]) for one in look.cards]
            if look.loaded:
                cards, self._outcomes = remember(self._cards, read, {})
                self._cards = {card.id: card for card in cards}
                self._seen |= {one.card.id: one for one in look.cards}
            else:
                self._outcomes = dict.fromkeys(self._cards, Outcome.ERROR)
            return self._discovery(look), look

    def _discovery(self, look: _Look | None, *warnings: str) -> Discovery:
        cards = tuple(sorted(self._cards.values(), key=lambda card: card.index))
        problems = (DRIVER_NOT_LOADED,) if look is not None and not look.loaded else ()
        return Discovery(
            cards=cards,
            driver=look.driver if look else "",
            problems=(*problems, *unsupported(cards)),
            warnings=warnings,
        )

    async def changes(self) -> AsyncGenerator[None, None]:
        yield
        while not await self._closed_within(self._poll_s):
            found, _ = await self._look()
            if found != self._shown:
                yield

    async def signals(self) -> AsyncGenerator[Observation, None]:
        while True:
            for observation in await self._poll():
                yield observation
            if await self._closed_within(self._poll_s):
                return

    async def _closed_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        return self._closed.is_set()

    async def _poll(self) -> list[Observation]:
        found, look = await self._look()
        says = await exporter_says(self._exporter)
        errors = _Look(loaded=False).errors if look is None else look.errors
        observations: list[Observation] = []
        for card in found.cards:
            how = self._outcomes.get(card.id, Outcome.LOST)
            if how is Outcome.OK and not self._seen[card.id].nodes:
                how = Outcome.ERROR  # there, but nothing can compute on it
            observations += self._observer.polled(
                card,
                how,
                driver=found.driver,
                errors=errors.get(card.id),
                word=None if says is None else says.get(card.pci or "", "unknown"),
            )
        return observations

    async def processes(self, card: CardId) -> tuple[ProcessUse, ...] | None:
        known = self._seen.get(card)
        if known is None or self._outcomes.get(card) is not Outcome.OK:
            return None
        ids = frozenset(node.gpu_id for node in known.nodes)
        try:
            used = await self._worker.call(partial(sysfs.processes, self._sysfs_root, ids), about=card)
        except (Stuck, OSError):
            return None
        if used is None:
            return None
        return tuple(ProcessUse(pid=pid, used_mib=size // MIB) for pid, size in sorted(used.items()))

    def device_nodes(self, card: CardId) -> tuple[DeviceNode, ...]:
        if card not in self._cards:
            raise NotFound(f"no card {card}")
        return amd_device_nodes(self._dev_root, self._seen[card].drm)

    def needs_restart(self) -> str:
        return ""

    async def close(self) -> None:
        self._closed.set()
        self._worker.close()


def _look(sysfs_root: Path) -> _Look:
    if not sysfs.driver_loaded(sysfs_root):
        return _Look(loaded=False)
    topology = read_topology(sysfs_root)
    cards = []
    for index, folder in enumerate(sysfs.card_folders(sysfs_root)):
        with contextlib.suppress(OSError):  # gone between the two readings: the next look does not list it
            cards.append(sysfs.read_card(folder, index, topology, sysfs_root))
    return _Look(
        loaded=True,
        driver=sysfs.driver_version(sysfs_root),
        cards=tuple(cards),
        errors={one.card.id: sysfs.uncorrectable_errors(one.folder) for one in cards},
    )
