"""The bus as the services see it: bytes under subjects and keys, and honest words for what went wrong.

Implemented by `sublet.bus.jetstream` (a real nats-server) and `sublet.bus.memory` (its twin); both pass
`tests/contract/test_bus.py`. Every trap of the server and its client library is handled behind this port.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from sublet.bus.layout import Layout
from sublet.model.errors import NotFound


class BucketMissing(NotFound):
    """The whole bucket is gone, which says nothing about any key in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a stream.

    `sequence` is its place in the stream and starts anew when the stream is created anew; `deliveries`
    counts from 1 and is above 1 for a message that comes again.
    """

    subject: str
    body: bytes
    headers: Mapping[str, str]
    sequence: int
    deliveries: int = 1


class Outcome(StrEnum):
    """What a handler answers for a message."""

    DONE = "done"
    LATER = "later"  # deliver it again after a pause
    POISON = "poison"  # never deliver it again: counted and logged


Handler = Callable[[Message], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a key holds; `revision` goes into `update` and `delete` to fence the next write."""

    key: str
    value: bytes
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """The key has this value now; values in between may have been skipped, the newest never is."""

    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The key is gone; `revision` is at or after the one that deleted it."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Reset:
    """The bucket was created anew: forget every revision; until `Synced`, absence means unknown."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The snapshot is complete: a key not reported so far does not exist."""


Change = Upserted | Deleted | Reset | Synced


@dataclass(frozen=True, slots=True, kw_only=True)
class BusState:
    """For probes, metrics and degraded modes.

    `connections` counts how often a connection was made; `lag` is, per consumer name, how many messages
    wait; `poisoned` how many were given up.
    """

    connected: bool
    connections: int
    lag: Mapping[str, int] = field(default_factory=dict)
    poisoned: Mapping[str, int] = field(default_factory=dict)


class Bus(Protocol):
    """One connection to the bus; safe for any number of tasks of one event loop.

    `within_s` everywhere: `None` means fail at once with `Unavailable` while there is no connection, and wait
    a short default for the reply otherwise; a number is the whole time to wait, for a connection too.
    """

    def state(self) -> BusState: ...

    def connections(self) -> AsyncGenerator[bool, None]:
        """Yield whether the bus is reachable, now and at each change, for ever; quick flaps may be merged."""
        ...

    async def ensure_layout(self, layout: Layout, *, within_s: float | None = None) -> None:
        """Create or adapt the streams and buckets of `layout`; does nothing where they are already so."""
        ...

    async def publish(
        self,
        subject: str,
        body: bytes,
        *,
        once_id: str,
        headers: Mapping[str, str] | None = None,
        within_s: float | None = None,
    ) -> None:
        """Store a message in the stream of its subject; returns once the server has it.

        Tries again under the same `once_id`, which the server stores once within the stream's dedupe window.

        Raises:
            Unavailable: no answer in time; it may be stored all the same, so try again with the same id.
            BadRequest: the message is larger than its stream allows.
        """
        ...

    async def consume(
        self, stream: str, subjects: Sequence[str], *, name: str, handler: Handler, later_s: float = 1.0
    ) -> None:
        """Hand every message of `stream` that matches `subjects` to `handler`, for ever.

        `name` names the durable place in the stream: a consumer that comes back goes on where it was, and
        makes its place anew when the server lost it. Messages are handled one after another, in stream
        order, at least once; one answered `LATER`, or whose handler raised `Unavailable`, comes again after
        `later_s`, possibly behind newer ones of its subject.
        """
        ...

    def subscribe(
        self,
        stream: str,
        subjects: Sequence[str],
        *,
        since: int | datetime | None = None,
        follow: bool = True,
    ) -> AsyncGenerator[Message, None]:
        """Yield messages of `stream` in order, each once, without leaving a trace on the server.

        `since`: `None` only new ones, a number those after that sequence (0 all that are stored), a time
        those from then on. Survives reconnects without loss or repetition; a stream created anew is read
        from its start. With `follow=False` it ends after what was stored, and raises `Unavailable` where
        the server cannot be reached in a short time or has no such stream.
        """
        ...

    async def get(self, bucket: str, key: str, *, within_s: float | None = None) -> Entry | None:
        """Read a key; `None` if it does not exist.

        Raises:
            BucketMissing: there is no such bucket; says nothing about the key.
        """
        ...

    async def put(self, bucket: str, key: str, value: bytes, *, within_s: float | None = None) -> int:
        """Write a key whatever it held; returns its revision. For keys with one writer."""
        ...

    async def create(self, bucket: str, key: str, value: bytes, *, within_s: float | None = None) -> int:
        """Write a key that must not exist; returns its revision. Raises as `update`."""
        ...

    async def update(
        self, bucket: str, key: str, value: bytes, revision: int, *, within_s: float | None = None
    ) -> int:
        """Write a key that must still be at `revision`; returns the new one.

        Raises:
            Conflict: somebody else wrote or deleted it since.
            BucketMissing: there is no such bucket.
            Unavailable: no answer in time; it may be written all the same: read before deciding anew.
        """
        ...

    async def delete(
        self, bucket: str, key: str, *, revision: int | None = None, within_s: float | None = None
    ) -> None:
        """Delete a key, with `revision` only if it is still there. Raises as `update`."""
        ...

    async def entries(
        self, bucket: str, keys: str = ">", *, within_s: float | None = None
    ) -> dict[str, Entry]:
        """Read every key that matches `keys`, for example ``heartbeat.*``.

        Complete also under concurrent writes: every key that existed when the call began and was not deleted
        since is there, with a value at least as new as that moment.
        """
        ...

    def follow(self, bucket: str, keys: str = ">") -> AsyncGenerator[Change, None]:
        """Yield the state of the keys that match and then every change, for ever.

        Begins with an `Upserted` for each key and `Synced`. Waits while the server is down or the bucket is
        missing, reads everything again after each reconnect and at intervals, and yields only what differs.
        When the bucket was created anew it yields `Reset` and begins again. Revisions of a key only rise
        between two `Reset`.
        """
        ...
