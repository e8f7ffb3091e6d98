"""The cards of a node as NVIDIA's driver shows them: looks, polls and events behind the port."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path

import pynvml

from sublet.cards.arrivals import Arrivals
from sublet.cards.devicenodes import CAPABILITIES, mig_device_nodes, nvidia_device_nodes
from sublet.cards.divided import partition_of
from sublet.cards.memory import Outcome
from sublet.cards.nvml.health import HealthReading, read_health
from sublet.cards.nvml.instances import read_levels
from sublet.cards.nvml.library import Library, outcome
from sublet.cards.nvml.monitor import SLICE_MS, EventMonitor
from sublet.cards.nvml.observer import Observer
from sublet.cards.nvml.reading import read_processes
from sublet.cards.nvml.scan import DRIVER, Scanner
from sublet.cards.port import DeviceNode, Discovery, Observation, ProcessUse
from sublet.cards.witness import Witness
from sublet.cards.worker import Stuck, Worker
from sublet.model.card import Card
from sublet.model.errors import NotFound
from sublet.model.ids import CardId

INFOROM_S = 3_600.0
"""Between two proofs of a card's InfoROM."""
CLOSE_S = 4 * SLICE_MS / 1000


class NvmlCards:
    """See `CardSource`. `library` is a full path; empty: found under `driver_root`, else by the loader."""

    def __init__(
        self,
        *,
        library: str = "",
        driver_root: Path = Path("/"),
        dev_root: Path = Path("/"),
        sysfs_root: Path = Path("/sys"),
        capabilities: Path = CAPABILITIES,
        call_limit_s: float = 2.0,
        poll_s: float = 10.0,
        event_slice_ms: int = SLICE_MS,
    ) -> None:
        self._library = Library(library, driver_root)
        self._worker = Worker(limit_s=call_limit_s)
        self._scanner = Scanner(self._worker, self._library, sysfs_root)
        self._witness = Witness(sysfs_root, limit_s=call_limit_s)
        self._dev_root = dev_root
        self._capabilities = capabilities
        self._poll_s = poll_s
        self._slice_ms = event_slice_ms
        self._observer = Observer()
        self._proved_at_s: dict[CardId, float] = {}
        self._monitor: EventMonitor | None = None
        self._arrived: Arrivals | None = None
        self._look_again = asyncio.Event()
        self._closed = False
        self._shown: Discovery | None = None

    async def discover(self) -> Discovery:
        self._shown = await self._look()
        return self._shown

    async def _look(self) -> Discovery:
        found = await self._scanner.look()
        if not self._closed:
            self._listen()
        return found

    def _listen(self) -> None:
        if self._monitor is None:
            self._monitor = EventMonitor(self._deliverer(), slice_ms=self._slice_ms)
        hung = {card for card, how in self._scanner.outcomes.items() if how is not Outcome.OK}
        self._monitor.watch(self._scanner.handles, hung=frozenset(hung))

    def _arrivals(self) -> Arrivals:
        """Made within the loop that they belong to."""
        if self._arrived is None:
            self._arrived = Arrivals(asyncio.get_running_loop())
        return self._arrived

    def _deliverer(self) -> Callable[[Observation | None], None]:
        loop, arrived = asyncio.get_running_loop(), self._arrivals()

        def deliver(observation: Observation | None) -> None:
            if observation is not None:
                arrived.put(observation)
                return
            with contextlib.suppress(RuntimeError):  # the loop may be gone before the thread
                loop.call_soon_threadsafe(self._look_again.set)

        return deliver

    async def changes(self) -> AsyncGenerator[None, None]:
        yield
        while not self._is_closed():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._look_again.wait()
            self._look_again.clear()
            if not self._is_closed() and await self._look() != self._shown:
                yield

    def _is_closed(self) -> bool:
        return self._closed

    async def signals(self) -> AsyncGenerator[Observation, None]:
        loop = asyncio.get_running_loop()
        while not self._is_closed():
            next_poll_s = loop.time() + self._poll_s
            async for observation in self._poll():
                yield observation
            while (arrived := await self._next_event(next_poll_s)) is not None:
                yield arrived

    async def _next_event(self, until_s: float) -> Observation | None:
        """None when it is time to poll, or to end."""
        if self._closed:
            return None
        try:
            async with asyncio.timeout_at(until_s):
                return await self._arrivals().get()
        except TimeoutError:
            return None

    async def _poll(self) -> AsyncGenerator[Observation, None]:
        found = await self._look()
        if self._scanner.driver_came_back():
            for observation in self._observer.driver_came_back():
                yield observation
        for card in found.cards:
            how = self._scanner.outcomes.get(card.id, Outcome.LOST)
            if how is Outcome.OK:
                for observation in self._observer.seen(card, found.driver):
                    yield observation
            for observation in await self._poll_card(card, how):
                yield observation
            for observation in await self._poll_instances(card):
                yield observation

    async def _poll_card(self, card: Card, how: Outcome) -> list[Observation]:
        now_s = asyncio.get_running_loop().time()
        health: HealthReading | None = None
        if how is Outcome.OK:
            health, how = await self._read_health(card, now_s)
        if how is Outcome.OK:
            await self._witness.meet(card.pci)
        elif how in (Outcome.HANG, Outcome.ERROR) and await self._witness.gone(card.pci):
            how = Outcome.LOST
        watched = self._monitor is not None and not self._monitor.trouble()
        return self._observer.polled(card.id, how, health, watched=watched, now_s=now_s)

    async def _poll_instances(self, card: Card) -> list[Observation]:
        instances = self._scanner.instances.get(card.id)
        if not instances or self._scanner.outcomes.get(card.id) is not Outcome.OK:
            return []
        try:
            levels = await self._worker.call(partial(read_levels, instances), about=card.id)
        except Stuck:
            return []
        return [
            observation
            for instance, of_it in levels.items()
            for observation in self._observer.levels(instance, of_it)
        ]

    async def _read_health(self, card: Card, now_s: float) -> tuple[HealthReading | None, Outcome]:
        prove = now_s >= self._proved_at_s.get(card.id, float("-inf")) + INFOROM_S
        try:
            read = partial(read_health, self._scanner.handles[card.id], inforom=prove, mig=card.mig)
            health = await self._worker.call(read, about=card.id)
        except Stuck:
            return None, Outcome.HANG
        except pynvml.NVMLError as error:
            self._look_again.set()
            return None, outcome(error)
        if prove:
            self._proved_at_s[card.id] = now_s
        return health, Outcome.OK

    async def processes(self, card: CardId) -> tuple[ProcessUse, ...] | None:
        handles = dict(self._scanner.handles)
        for instances in self._scanner.instances.values():
            handles |= instances
        handle = handles.get(card)
        if handle is None:
            return None
        try:
            return await self._worker.call(partial(read_processes, handle), about=card)
        except (Stuck, pynvml.NVMLError):
            return None

    def device_nodes(self, card: CardId) -> tuple[DeviceNode, ...]:
        if (known := self._scanner.cards.get(card)) is not None:
            return nvidia_device_nodes(self._dev_root, known.minor)
        if (found := partition_of(self._scanner.cards, card)) is not None:
            return mig_device_nodes(self._dev_root, self._capabilities, *found)
        raise NotFound(f"no card {card}")

    def needs_restart(self) -> str:
        return self._scanner.needs_restart

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._look_again.set()
        self._arrivals().end()
        listener = self._monitor.begin_to_stop() if self._monitor else None
        with contextlib.suppress(Stuck, pynvml.NVMLError):
            shut_down = partial(self._shut_down, listener)
            await self._worker.call(shut_down, about=DRIVER, within_s=CLOSE_S)
        self._worker.close()
        self._witness.close()

    def _shut_down(self, listener: threading.Thread | None) -> None:
        """The library must stay open under a thread that is still inside of it."""
        if listener is not None:
            listener.join(CLOSE_S / 2)
        if listener is None or not listener.is_alive():
            self._library.close()
