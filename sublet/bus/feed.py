"""Reads one consumer of a stream by pulling, message by message, and says at once when it is over.

Own requests instead of nats-py's `fetch` (which leaves status messages behind) and its ordered consumer
(which goes on from an old sequence after the server lost its data, or never again).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from sublet.bus import server
from sublet.bus.link import Link
from sublet.model.errors import SubletError

BATCH: Final = 100  # pulls of 500 were slower than pulls of 100
_SECOND_NS: Final = 1_000_000_000
_FORGOTTEN_AFTER_S: Final = 60  # the server removes a consumer that nobody reads
_ACK_WITHIN_S: Final = 60
_UNACKED_MOST: Final = 1000


class FeedEnded(SubletError):
    """The connection or the consumer is gone: look at the stream anew and open another feed."""


@dataclass(slots=True)
class Feed:
    """Messages of one consumer over one connection; at most `BATCH` are under way."""

    stream: str
    consumer: str
    client: Client
    link: Link
    waiting: int = 0
    """Messages that waited on the server when the feed was opened."""
    _queue: asyncio.Queue[Msg | None] = field(default_factory=lambda: asyncio.Queue(maxsize=4 * BATCH))
    _asked: int = 0
    _lost: bool = False
    _inbox: str = ""

    async def next(self, *, within_s: float | None = None) -> Msg | None:
        """The next message, or `None` if none came in time.

        Raises:
            FeedEnded: nothing can come any more.
        """
        clock = asyncio.get_running_loop().time
        ends = None if within_s is None else clock() + within_s
        while True:
            if self._asked == 0:
                await self._pull()
            silent_s = 2.5 * self.link.timing.pull_heartbeat_s
            left_s = silent_s if ends is None else max(0.0, min(silent_s, ends - clock()))
            try:
                async with asyncio.timeout(left_s):
                    message = await self._take()
            except TimeoutError:
                if left_s < silent_s:
                    return None
                raise FeedEnded(f"no heartbeat of {self.consumer} on {self.stream}") from None
            if not self._is_status(message):
                self._asked -= 1
                return message

    async def _take(self) -> Msg:
        if self._lost or self.client.is_closed:
            raise FeedEnded("the connection is lost")
        message = await self._queue.get()
        if message is None:
            raise FeedEnded("the connection is lost")
        return message

    async def _pull(self) -> None:
        timing = self.link.timing
        wanted = {
            "batch": BATCH,
            "expires": int(timing.pull_wait_s * _SECOND_NS),
            "idle_heartbeat": int(timing.pull_heartbeat_s * _SECOND_NS),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{self.consumer}"
        try:
            await self.client.publish(subject, json.dumps(wanted).encode(), reply=self._inbox)
        except nats.errors.Error as error:
            raise FeedEnded(repr(error)) from error
        self._asked = BATCH

    def _is_status(self, message: Msg) -> bool:
        """Whether it is the server's word about the pull; 404 and 408 end the pull, others the feed."""
        headers = message.headers or {}
        status = headers.get("Status") if not message.reply or not message.data else None
        if status is None:
            return False
        if status in ("404", "408"):
            self._asked = 0
        elif status != "100":
            raise FeedEnded(f"{self.consumer} on {self.stream}: {status} {headers.get('Description', '')}")
        return True


@asynccontextmanager
async def open_feed(
    link: Link, client: Client, stream: str, config: dict[str, Any]
) -> AsyncGenerator[Feed, None]:
    """Make the consumer, read it, and remove it again unless it is durable.

    Raises:
        server.StreamMissing: there is no such stream.
        FeedEnded: the connection was lost meanwhile.
    """
    name = config.get("durable_name") or f"r{uuid4().hex}"
    body = {"stream_name": stream, "config": {**config, "name": name}, "action": ""}
    feed = Feed(stream=stream, consumer=name, client=client, link=link)

    async def arrived(message: Msg) -> None:
        await feed._queue.put(message)

    def lost() -> None:
        feed._lost = True
        with suppress(asyncio.QueueFull):
            feed._queue.put_nowait(None)

    try:
        made = await server.call(
            client, f"CONSUMER.CREATE.{stream}.{name}", body, within_s=link.timing.reply_within_s
        )
        feed.waiting = made["num_pending"]
        feed._inbox = client.new_inbox()
        subscription = await client.subscribe(feed._inbox, cb=arrived)
    except (nats.errors.Error, OSError) as error:
        raise FeedEnded(repr(error)) from error
    forget = link.on_lost(lost)
    try:
        yield feed
    finally:
        forget()
        with suppress(nats.errors.Error, OSError, SubletError):
            await subscription.unsubscribe()
            if "durable_name" not in config:
                await server.call(
                    client, f"CONSUMER.DELETE.{stream}.{name}", {}, within_s=link.timing.close_within_s
                )


def reader(subjects: Sequence[str], start: int | datetime | None) -> dict[str, Any]:
    """A consumer for one reader that keeps its own place: no acknowledgements, forgotten when unread."""
    config: dict[str, Any] = {
        "filter_subjects": list(subjects),
        "ack_policy": "none",
        "deliver_policy": "new",
        "inactive_threshold": _FORGOTTEN_AFTER_S * _SECOND_NS,
        "mem_storage": True,
        "num_replicas": 1,
    }
    if isinstance(start, datetime):
        config |= {"deliver_policy": "by_start_time", "opt_start_time": start.isoformat()}
    elif start is not None:
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": max(1, start)}
    return config


def newest_of_each(subjects: Sequence[str]) -> dict[str, Any]:
    return reader(subjects, None) | {"deliver_policy": "last_per_subject"}


def durable(name: str, subjects: Sequence[str]) -> dict[str, Any]:
    """A consumer whose place the server keeps."""
    return {
        "durable_name": name,
        "filter_subjects": list(subjects),
        "ack_policy": "explicit",
        "ack_wait": _ACK_WITHIN_S * _SECOND_NS,
        "deliver_policy": "all",
        "max_deliver": -1,
        "max_ack_pending": _UNACKED_MOST,
    }
