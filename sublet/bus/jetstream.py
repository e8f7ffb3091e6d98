"""The bus on a real nats-server; `open_bus` is how a service gets one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from sublet.bus import feed, server
from sublet.bus.feed import Feed, FeedEnded, open_feed
from sublet.bus.keys import Keys
from sublet.bus.layout import Layout
from sublet.bus.link import Link, Timing
from sublet.bus.port import BusState, Change, Entry, Handler, Message, Outcome
from sublet.model.errors import Unavailable

log = structlog.get_logger()


class NatsBus:
    """See `sublet.bus.port.Bus`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._keys = Keys(link)
        self._lag: dict[str, int] = {}
        self._poisoned: Counter[str] = Counter()

    def state(self) -> BusState:
        return BusState(
            connected=self._link.up,
            connections=self._link.made,
            lag=dict(self._lag),
            poisoned=dict(self._poisoned),
        )

    def connections(self) -> AsyncGenerator[bool, None]:
        return self._link.states()

    async def ensure_layout(self, layout: Layout, *, within_s: float | None = None) -> None:
        async def ensure(client: Client, within_s: float) -> None:
            await server.ensure_layout(client, layout, within_s=within_s)

        await self._link.run_request("take the layout", ensure, within_s=within_s)

    async def publish(
        self,
        subject: str,
        body: bytes,
        *,
        once_id: str,
        headers: Mapping[str, str] | None = None,
        within_s: float | None = None,
    ) -> None:
        sent = {**(headers or {}), "Nats-Msg-Id": once_id}

        async def publish(client: Client, within_s: float) -> None:
            answer = await server.request(client, subject, body, within_s=within_s, headers=sent)
            server.checked(answer.data, what=subject)

        await self._link.run_request(f"store a message of {subject}", publish, within_s=within_s)

    async def consume(
        self, stream: str, subjects: Sequence[str], *, name: str, handler: Handler, later_s: float = 1.0
    ) -> None:
        while True:
            await self._link.wait(up=True)
            try:
                client = await self._link.client(None)
                async with open_feed(self._link, client, stream, feed.durable(name, subjects)) as messages:
                    self._lag[name] = messages.waiting
                    while True:
                        await self._handle_next(messages, name, handler, later_s)
            except (server.StreamMissing, server.Refused) as refusal:
                log.warning("consumer.refused", consumer=name, stream=stream, error=str(refusal))
                await asyncio.sleep(self._link.timing.missing_retry_s)
            except (FeedEnded, Unavailable) as end:
                log.debug("consumer.ended", consumer=name, stream=stream, error=str(end))
                await asyncio.sleep(self._link.timing.retry_first_s)

    async def _handle_next(self, messages: Feed, name: str, handler: Handler, later_s: float) -> None:
        message = await messages.next()
        if message is None:
            return
        self._lag[name] = message.metadata.num_pending
        taken = _message(message)
        try:
            outcome = await handler(taken)
        except Unavailable as error:
            log.info("message.postponed", consumer=name, subject=taken.subject, error=str(error))
            outcome = Outcome.LATER
        if outcome is Outcome.POISON:
            self._poisoned[name] += 1
            log.warning(
                "message.poisoned",
                consumer=name,
                subject=taken.subject,
                sequence=taken.sequence,
                size_bytes=len(taken.body),
            )
        try:
            await _answer(message, outcome, later_s)
        except nats.errors.Error as error:
            raise FeedEnded(repr(error)) from error

    async def subscribe(
        self,
        stream: str,
        subjects: Sequence[str],
        *,
        since: int | datetime | None = None,
        follow: bool = True,
    ) -> AsyncGenerator[Message, None]:
        place = _Place(since)
        while True:
            if follow:
                await self._link.wait(up=True)
            try:
                client = await self._link.client(None if follow else self._link.timing.reply_within_s)
                facts = await server.stream_facts(client, stream, within_s=self._link.timing.attempt_within_s)
                config = feed.reader(subjects, place.start(facts))
                async with (
                    open_feed(self._link, client, stream, config) as messages,
                    aclosing(_read(messages, endless=follow)) as stored,
                ):
                    async for message in stored:
                        place.sequence = message.sequence
                        yield message
                    return
            except (FeedEnded, Unavailable, server.StreamMissing, nats.errors.Error, OSError) as end:
                if not follow:
                    raise Unavailable(f"reading {stream} was cut short: {end}") from end
                log.debug("subscription.ended", stream=stream, error=str(end))
                missing = isinstance(end, server.StreamMissing)
                timing = self._link.timing
                await asyncio.sleep(timing.missing_retry_s if missing else timing.retry_first_s)

    async def get(self, bucket: str, key: str, *, within_s: float | None = None) -> Entry | None:
        return await self._keys.get(bucket, key, within_s=within_s)

    async def put(self, bucket: str, key: str, value: bytes, *, within_s: float | None = None) -> int:
        return await self._keys.put(bucket, key, value, within_s=within_s)

    async def create(self, bucket: str, key: str, value: bytes, *, within_s: float | None = None) -> int:
        return await self._keys.create(bucket, key, value, within_s=within_s)

    async def update(
        self, bucket: str, key: str, value: bytes, revision: int, *, within_s: float | None = None
    ) -> int:
        return await self._keys.update(bucket, key, value, revision, within_s=within_s)

    async def delete(
        self, bucket: str, key: str, *, revision: int | None = None, within_s: float | None = None
    ) -> None:
        await self._keys.delete(bucket, key, revision=revision, within_s=within_s)

    async def entries(
        self, bucket: str, keys: str = ">", *, within_s: float | None = None
    ) -> dict[str, Entry]:
        return await self._keys.entries(bucket, keys, within_s=within_s)

    def follow(self, bucket: str, keys: str = ">") -> AsyncGenerator[Change, None]:
        return self._keys.follow(bucket, keys)


class _Place:
    """Where a subscriber is in a stream that may be lost and created anew."""

    def __init__(self, since: int | datetime | None) -> None:
        self._since = since
        self._created: str | None = None
        self.sequence: int | None = since if isinstance(since, int) else None

    def start(self, facts: server.StreamFacts) -> int | datetime:
        """Where to go on; what is new in a stream made anew is all of it."""
        known, self._created = self._created, facts.created
        if known not in (None, facts.created) or (self.sequence or 0) > facts.last_sequence:
            log.warning("stream.created_anew", created=facts.created)
            self.sequence = 0
        elif self.sequence is not None:
            pass
        elif isinstance(self._since, datetime):
            return self._since
        else:
            self.sequence = facts.last_sequence
        return self.sequence + 1


async def _read(messages: Feed, *, endless: bool) -> AsyncGenerator[Message, None]:
    if not endless and messages.waiting == 0:
        return
    while True:
        message = await messages.next()
        if message is None:
            continue
        yield _message(message)
        if not endless and message.metadata.num_pending == 0:
            return


def _message(message: Msg) -> Message:
    return Message(
        subject=message.subject,
        body=message.data,
        headers=dict(message.headers or {}),
        sequence=message.metadata.sequence.stream,
        deliveries=message.metadata.num_delivered,
    )


async def _answer(message: Msg, outcome: Outcome, later_s: float) -> None:
    match outcome:
        case Outcome.DONE:
            await message.ack()
        case Outcome.LATER:
            await message.nak(delay=later_s)
        case Outcome.POISON:
            await message.term()


class open_bus:  # noqa: N801 - used like a function
    """Open the bus: ``async with open_bus(url, name="healthd", layout=LAYOUT) as bus``.

    Returns at once, whether or not the server is up, and keeps connecting until the block ends. With a
    `layout` the streams and buckets are made on every new connection before it counts as one, so that a
    server that lost its data is laid out again by itself; a client without the right to do so passes none.

    Args:
        url: ``nats://[user:password@]host:port``.
        name: how the server's monitoring calls this client.
    """

    def __init__(
        self, url: str, *, name: str, layout: Layout | None = None, timing: Timing | None = None
    ) -> None:
        self._layout = layout
        self._link = Link(url, name=name, timing=timing or Timing(), prepare=self._prepare)
        self._group = asyncio.TaskGroup()
        self._loop: asyncio.Task[None] | None = None

    async def __aenter__(self) -> NatsBus:
        await self._group.__aenter__()
        self._loop = self._group.create_task(self._link.run(), name="bus-link")
        return NatsBus(self._link)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the connection; an error of the block passes through as it is, never wrapped in a group."""
        if self._loop is not None:
            self._loop.cancel()
        if isinstance(error, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, trace)
        else:
            await self._group.__aexit__(None, None, None)

    async def _prepare(self, client: Client) -> None:
        if self._layout is None:
            return
        try:
            await server.ensure_layout(client, self._layout, within_s=self._link.timing.reply_within_s)
        except server.Refused as refusal:
            log.error("bus.layout_refused", error=str(refusal))
