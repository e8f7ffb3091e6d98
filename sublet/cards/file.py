"""Cards that exist in a file only: an inventory that may be edited, and signals that may be appended."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import structlog

from sublet.cards.devicenodes import CAPABILITIES, mig_device_nodes, nvidia_device_nodes
from sublet.cards.divided import nothing_offered, partition_of, unsupported
from sublet.cards.inventoryfile import InventoryFile
from sublet.cards.memory import Outcome, remember
from sublet.cards.port import (
    INVENTORY_UNREADABLE,
    DeviceNode,
    Discovery,
    Observation,
    ProcessUse,
)
from sublet.cards.signalfile import SignalFile
from sublet.model.card import Card
from sublet.model.errors import BadRequest, NotFound
from sublet.model.health import SignalKind
from sublet.model.ids import CardId, NodeName

log = structlog.get_logger()


class FileCards:
    """See `CardSource`. Looks at both files every `poll_s`; an edit that cannot be read changes nothing."""

    def __init__(
        self,
        *,
        node: NodeName,
        inventory: Path,
        signals: Path | None = None,
        dev_root: Path = Path("/"),
        capabilities: Path = CAPABILITIES,
        poll_s: float = 0.5,
        probe_s: float = 10.0,
    ) -> None:
        self._inventory = InventoryFile(inventory, node)
        self._signals = SignalFile(signals, node) if signals is not None else None
        self._dev_root = dev_root
        self._capabilities = capabilities
        self._poll_s = poll_s
        self._probe_s = probe_s
        self._closed = asyncio.Event()
        self._reading = asyncio.Lock()
        self._cards: dict[CardId, Card] = {}
        self._outcomes: dict[CardId, Outcome] = {}
        self._ever_read = False
        self._trouble = ""
        self._shown: Discovery | None = None
        self._was_lost: dict[CardId, bool] = {}
        self._probed_at_s: dict[CardId, float] = {}

    async def discover(self) -> Discovery:
        self._shown = await self._look()
        return self._shown

    async def _look(self) -> Discovery:
        async with self._reading:
            await self._refresh()
        cards = tuple(sorted(self._cards.values(), key=lambda card: card.index))
        problems = () if self._ever_read else (INVENTORY_UNREADABLE,)
        warnings = (*((self._trouble,) if self._trouble else ()), *nothing_offered(cards))
        return Discovery(cards=cards, problems=(*problems, *unsupported(cards)), warnings=warnings)

    async def _refresh(self) -> None:
        try:
            node = await asyncio.to_thread(self._inventory.newer)
        except (BadRequest, OSError) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("inventory_file.refused", reason=self._trouble, kept=len(self._cards))
            return
        if node is None:
            return
        self._ever_read, self._trouble = True, ""
        cards, self._outcomes = remember(self._cards, node.cards, {})
        self._cards = {card.id: card for card in cards}
        log.info("inventory_file.read", cards=len(cards))

    async def changes(self) -> AsyncGenerator[None, None]:
        yield
        while not await self._closed_within(self._poll_s):
            if await self._look() != self._shown:
                yield

    async def signals(self) -> AsyncGenerator[Observation, None]:
        loop = asyncio.get_running_loop()
        while True:
            await self._look()
            for observation in self._presence(loop.time()):
                yield observation
            if self._signals is not None:
                for observation in await asyncio.to_thread(self._signals.news):
                    yield observation
            if await self._closed_within(self._poll_s):
                return

    async def _closed_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        return self._closed.is_set()

    def _presence(self, now_s: float) -> Iterator[Observation]:
        """Who is there, once; who was ever gone, and from then on what a probe of that card would say.

        Other cards are not probed, so that probes in the signal file stand alone.
        """
        for card in sorted(self._cards.values(), key=lambda card: card.index):
            lost = self._outcomes[card.id] is Outcome.LOST
            changed = self._was_lost.get(card.id) is not lost
            self._was_lost[card.id] = lost
            if changed and not lost:
                yield _seen(card)
            if not lost and card.id not in self._probed_at_s:
                continue
            if changed or now_s - self._probed_at_s[card.id] >= self._probe_s:
                self._probed_at_s[card.id] = now_s
                yield Observation(card=card.id, kind=SignalKind.PROBE, value="lost" if lost else "ok")

    async def processes(self, card: CardId) -> tuple[ProcessUse, ...] | None:
        """Nothing runs on a card that is not there."""
        return () if card in self._cards or partition_of(self._cards, card) else None

    def device_nodes(self, card: CardId) -> tuple[DeviceNode, ...]:
        if (known := self._cards.get(card)) is not None:
            return nvidia_device_nodes(self._dev_root, known.minor)
        if (found := partition_of(self._cards, card)) is not None:
            return mig_device_nodes(self._dev_root, self._capabilities, *found)
        raise NotFound(f"no card {card}")

    def needs_restart(self) -> str:
        return ""

    async def close(self) -> None:
        self._closed.set()


def _seen(card: Card) -> Observation:
    return Observation(
        card=card.id,
        kind=SignalKind.CARD,
        pci=card.pci or "",
        serial=card.serial or "",
        model=card.model,
    )
