"""The cards of a node as NVIDIA's driver shows them: looks, polls and events behind the port."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pynvml
import structlog

from sublet.cards.devicenodes import nvidia_device_nodes
from sublet.cards.memory import Outcome
from sublet.cards.nvml.library import Library, outcome
from sublet.cards.nvml.monitor import SLICE_MS, EventMonitor
from sublet.cards.nvml.observer import Observer
from sublet.cards.nvml.reading import HealthReading, read_health, read_processes
from sublet.cards.nvml.scan import DRIVER, Scanner
from sublet.cards.nvml.worker import Stuck, Worker
from sublet.cards.port import DeviceNode, Discovery, Observation, ProcessUse
from sublet.model.errors import NotFound
from sublet.model.ids import CardId

EVENT_QUEUE = 1_000
"""Events that wait for the agent; beyond it the oldest is dropped, and the log says whose."""
CLOSE_S = 4 * SLICE_MS / 1000

log = structlog.get_logger()


class NvmlCards:
    """See `CardSource`. `library` is a full path; empty: found under `driver_root`, else by the loader."""

    def __init__(
        self,
        *,
        library: str = "",
        driver_root: Path = Path("/"),
        dev_root: Path = Path("/"),
        sysfs_root: Path = Path("/sys"),
        call_limit_s: float = 2.0,
        poll_s: float = 10.0,
        event_slice_ms: int = SLICE_MS,
    ) -> None:
        self._library = Library(library, driver_root)
        self._worker = Worker(limit_s=call_limit_s)
        self._scanner = Scanner(self._worker, self._library, sysfs_root)
        self._dev_root = dev_root
        self._poll_s = poll_s
        self._slice_ms = event_slice_ms
        self._observer = Observer()
        self._monitor: EventMonitor | None = None
        self._arrived: asyncio.Queue[Observation | None] = asyncio.Queue(EVENT_QUEUE)
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
            loop = asyncio.get_running_loop()
            deliver = _Deliverer(loop, self._arrived, self._look_again)
            self._monitor = EventMonitor(deliver, slice_ms=self._slice_ms)
        hung = {card for card, how in self._scanner.outcomes.items() if how is not Outcome.OK}
        self._monitor.watch(self._scanner.handles, hung=frozenset(hung))

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
                return await self._arrived.get()
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
            for observation in await self._poll_card(card.id, how):
                yield observation

    async def _poll_card(self, card: CardId, how: Outcome) -> list[Observation]:
        health: HealthReading | None = None
        if how is Outcome.OK:
            try:
                read = partial(read_health, self._scanner.handles[card])
                health = await self._worker.call(read, about=card)
            except Stuck:
                how = Outcome.HANG
            except pynvml.NVMLError as error:
                how = outcome(error)
                self._look_again.set()
        watched = self._monitor is not None and not self._monitor.trouble()
        return self._observer.polled(card, how, health, watched=watched)

    async def processes(self, card: CardId) -> tuple[ProcessUse, ...] | None:
        handle = self._scanner.handles.get(card)
        if handle is None:
            return None
        try:
            return await self._worker.call(partial(read_processes, handle), about=card)
        except (Stuck, pynvml.NVMLError):
            return None

    def device_nodes(self, card: CardId) -> tuple[DeviceNode, ...]:
        known = self._scanner.cards.get(card)
        if known is None:
            raise NotFound(f"no card {card}")
        return nvidia_device_nodes(self._dev_root, known.minor)

    def needs_restart(self) -> str:
        return self._scanner.needs_restart

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._look_again.set()
        _push(self._arrived, None)
        listener = self._monitor.begin_to_stop() if self._monitor else None
        with contextlib.suppress(Stuck, pynvml.NVMLError):
            shut_down = partial(self._shut_down, listener)
            await self._worker.call(shut_down, about=DRIVER, within_s=CLOSE_S)
        self._worker.close()

    def _shut_down(self, listener: threading.Thread | None) -> None:
        """The library must stay open under a thread that is still inside of it."""
        if listener is not None:
            listener.join(CLOSE_S / 2)
        if listener is None or not listener.is_alive():
            self._library.close()


class _Deliverer:
    """Brings what the event thread found into the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        arrived: asyncio.Queue[Observation | None],
        look_again: asyncio.Event,
    ) -> None:
        self._loop = loop
        self._arrived = arrived
        self._look_again = look_again

    def __call__(self, observation: Observation | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be gone before the thread
            self._loop.call_soon_threadsafe(self._take, observation)

    def _take(self, observation: Observation | None) -> None:
        if observation is None:
            self._look_again.set()
        else:
            _push(self._arrived, observation)


def _push(queue: asyncio.Queue[Observation | None], item: Observation | None) -> None:
    if queue.full():
        dropped = queue.get_nowait()
        log.warning("nvml.event_dropped", card=dropped and dropped.card)
    queue.put_nowait(item)
