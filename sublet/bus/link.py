"""Keeps one connection to the nats-server alive for ever and runs requests over whichever one is up.

nats-py's own reconnect is off: it buffers what is published while down, replays subscriptions that then miss
messages in silence, and needs minutes to notice a frozen server. Here every connection is a new client, what
reads from it is told when it is lost, and readers begin anew on the next one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import nats.errors
import structlog
from nats.aio.client import Client

from sublet.bus.server import raise_lost_cancel
from sublet.model.errors import SubletError, Unavailable

log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the bus waits for what."""

    reply_within_s: float = 2.5
    """A request without a time of its own; long enough to try twice."""
    attempt_within_s: float = 1.0
    """One attempt of a request; the next one carries the same id."""
    connect_within_s: float = 2.0
    probe_every_s: float = 2.0
    probe_within_s: float = 2.0
    """A server that does not answer a ping in this time is given up: a frozen one is noticed within 4 s."""
    retry_first_s: float = 0.05
    retry_most_s: float = 2.0
    """Pauses between attempts to connect; shortened at random, so that a fleet does not come at once."""
    close_within_s: float = 1.0
    pull_wait_s: float = 30.0
    """How long the server holds a request for messages open."""
    pull_heartbeat_s: float = 10.0
    """How often it says that it still knows the consumer; two missed and the reader begins anew."""
    missing_retry_s: float = 0.5
    """How often a reader looks for a stream or bucket that does not exist."""
    reconcile_every_s: float = 60.0
    """How often `follow` reads everything, whatever the hints said."""


class Link:
    """One connection after another; `run` is the loop that makes them."""

    def __init__(
        self, url: str, *, name: str, timing: Timing, prepare: Callable[[Client], Awaitable[None]]
    ) -> None:
        """`prepare` runs on each new connection before anybody may use it."""
        self.timing = timing
        self.made = 0
        self._url = url
        self._address = urlsplit(url).netloc.rpartition("@")[2]  # never log credentials
        self._name = name
        self._prepare = prepare
        self._client: Client | None = None
        self._changed = asyncio.Event()
        self._readers: set[Callable[[], None]] = set()

    @property
    def up(self) -> bool:
        return self._client is not None

    async def run(self) -> None:
        """Connect, watch, connect again; returns only by cancellation."""
        pause_s = self.timing.retry_first_s
        failed = 0
        while True:
            client = Client()
            lost = asyncio.Event()
            try:
                await self._connect(client, lost)
                self._set(client)
                pause_s, failed = self.timing.retry_first_s, 0
                await self._until_lost(client, lost)
                log.warning("bus.connection_lost", server=self._address)
            except (nats.errors.Error, OSError, TimeoutError, SubletError) as error:
                say = log.debug if failed else log.warning  # once an outage, not once an attempt
                say("bus.connect_failed", server=self._address, error=repr(error))
                failed += 1
            finally:
                self._set(None)
                await self._abandon(client)
            raise_lost_cancel()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, self.timing.retry_most_s)

    async def wait(self, *, up: bool) -> None:
        while self.up is not up:
            await self._changed.wait()

    async def states(self) -> AsyncGenerator[bool, None]:
        while True:
            told = self.up
            yield told
            await self.wait(up=not told)

    async def client(self, within_s: float | None) -> Client:
        """The connection that is up; `None` does not wait for one.

        Raises:
            Unavailable: none is up, or came up in time.
        """
        if self._client is None and within_s is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self.wait(up=True)
        if self._client is None:
            raise Unavailable(
                f"no connection to the bus at {self._address}",
                hint="Is the nats-server running and reachable?",
            )
        return self._client

    async def run_request(
        self, what: str, request: Callable[[Client, float], Awaitable[T]], *, within_s: float | None
    ) -> T:
        """Try `request` until it answers or the time is up; it must be safe to repeat."""
        clock = asyncio.get_running_loop().time
        ends = clock() + (self.timing.reply_within_s if within_s is None else within_s)
        while True:
            left_s = ends - clock()
            client = await self.client(None if within_s is None else max(left_s, 0))
            try:
                return await request(client, max(0.001, min(left_s, self.timing.attempt_within_s)))
            except (nats.errors.Error, OSError, Unavailable) as error:
                if clock() + self.timing.retry_first_s >= ends:
                    raise Unavailable(f"the bus did not {what} in time: {error!r}") from error
            await asyncio.sleep(self.timing.retry_first_s)

    def on_lost(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when the connection that is up now is lost; the result takes that back."""
        self._readers.add(wake)
        return lambda: self._readers.discard(wake)

    async def _connect(self, client: Client, lost: asyncio.Event) -> None:
        async def on_lost() -> None:
            lost.set()

        async def on_error(error: Exception) -> None:
            say = log.warning if "permission" in str(error).lower() else log.debug
            say("bus.client_reported", server=self._address, error=repr(error))

        async with asyncio.timeout(self.timing.connect_within_s):
            await client.connect(
                self._url,
                name=self._name,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                error_cb=on_error,
                disconnected_cb=on_lost,
                closed_cb=on_lost,
            )
        raise_lost_cancel()
        await self._prepare(client)

    async def _until_lost(self, client: Client, lost: asyncio.Event) -> None:
        while not lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.timing.probe_every_s):
                    await lost.wait()
                return
            try:
                async with asyncio.timeout(self.timing.probe_within_s):
                    await client.flush(timeout=3600)
            except (nats.errors.Error, OSError, TimeoutError):
                return
            raise_lost_cancel()

    def _set(self, client: Client | None) -> None:
        if client is not None:
            self.made += 1
            log.info("bus.connected", server=self._address, connections=self.made)
        self._client = client
        if client is None:
            for wake in tuple(self._readers):
                wake()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _abandon(self, client: Client) -> None:
        """Close without a drain, which would wait 30 s for messages that nobody will read."""
        with suppress(TimeoutError, OSError, nats.errors.Error):
            async with asyncio.timeout(self.timing.close_within_s):
                await client.close()
        if client._transport:  # still open where writing the last bytes to a dead server failed
            client._transport.close()  # type: ignore[no-untyped-call]
        for _ in range(3):  # the client's own tasks were cancelled: let them end
            await asyncio.sleep(0)
