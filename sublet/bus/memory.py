"""The bus in memory: the twin of the real one for tests and for everything that runs in one process.

One `MemoryBus` stands for the server and all its clients. What it leaves out: limits of age and size, the
dedupe window (an id is remembered for ever), and time to answer.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from sublet.bus.layout import Layout
from sublet.bus.port import BucketMissing, BusState, Change, Entry, Handler, Message, Outcome
from sublet.bus.view import Snapshot, View
from sublet.model.errors import Conflict, Unavailable


@dataclass(slots=True)
class _Consumer:
    sequence: int = 0
    again: list[tuple[float, int]] = field(default_factory=list)  # due time, sequence
    deliveries: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class _Stream:
    subjects: tuple[str, ...]
    created: str
    messages: list[tuple[datetime, Message]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    consumers: dict[str, _Consumer] = field(default_factory=dict)


@dataclass(slots=True)
class _Bucket:
    created: str
    sequence: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)


class MemoryBus:
    """See `sublet.bus.port.Bus`; `go_down` and `come_back` play an outage."""

    def __init__(self, layout: Layout | None = None) -> None:
        self._streams: dict[str, _Stream] = {}
        self._buckets: dict[str, _Bucket] = {}
        self._layout = layout
        self._up = True
        self._connections = 1
        self._incarnations = count(1)
        self._changed = asyncio.Event()
        self._lag: dict[str, int] = {}
        self._poisoned: Counter[str] = Counter()
        self._lay_out(layout)

    def go_down(self) -> None:
        self._up = False
        self._tell()

    def come_back(self, *, data_lost: bool = False) -> None:
        if data_lost:
            self._streams.clear()
            self._buckets.clear()
        self._lay_out(self._layout)
        self._up = True
        self._connections += 1
        self._tell()

    def state(self) -> BusState:
        return BusState(
            connected=self._up,
            connections=self._connections,
            lag=dict(self._lag),
            poisoned=dict(self._poisoned),
        )

    async def connections(self) -> AsyncGenerator[bool, None]:
        while True:
            told = self._up
            yield told
            while self._up is told:
                await self._changed.wait()

    async def ensure_layout(self, layout: Layout, *, within_s: float | None = None) -> None:
        await self._reach(within_s)
        self._lay_out(layout)
        self._tell()

    async def publish(
        self,
        subject: str,
        body: bytes,
        *,
        once_id: str,
        headers: Mapping[str, str] | None = None,
        within_s: float | None = None,
    ) -> None:
        await self._reach(within_s)
        stream = next((s for s in self._streams.values() if _matches(s.subjects, subject)), None)
        if stream is None:
            raise Unavailable(f"no stream takes {subject}")
        if once_id in stream.ids:
            return
        stream.ids.add(once_id)
        message = Message(
            subject=subject,
            body=body,
            headers={**(headers or {}), "Nats-Msg-Id": once_id},
            sequence=len(stream.messages) + 1,
        )
        stream.messages.append((_now(), message))
        self._tell()

    async def consume(
        self, stream: str, subjects: Sequence[str], *, name: str, handler: Handler, later_s: float = 1.0
    ) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            store = await self._stream(stream)
            place = store.consumers.setdefault(name, _Consumer())
            message = self._due(store, place, subjects, clock())
            if message is None:
                self._lag[name] = 0
                await self._wait(min((due for due, _ in place.again), default=None))
                continue
            self._lag[name] = sum(1 for _ in _after(store, place.sequence, subjects))
            try:
                outcome = await handler(message)
            except Unavailable:
                outcome = Outcome.LATER
            if outcome is Outcome.LATER:
                place.again.append((clock() + later_s, message.sequence))
            elif outcome is Outcome.POISON:
                self._poisoned[name] += 1

    async def subscribe(
        self,
        stream: str,
        subjects: Sequence[str],
        *,
        since: int | datetime | None = None,
        follow: bool = True,
    ) -> AsyncGenerator[Message, None]:
        if not follow:
            await self._reach(None)
            if stream not in self._streams:
                raise Unavailable(f"there is no stream {stream}")
        store = await self._stream(stream)
        last = len(store.messages)
        sequence = since if isinstance(since, int) else last
        if isinstance(since, datetime):
            sequence = sum(stored < since for stored, _ in store.messages)
        elif sequence > last:
            sequence = 0
        while True:
            current = await self._stream(stream)
            if current.created != store.created:
                store, sequence = current, 0
            message = next(_after(store, sequence, subjects), None)
            if message is not None and (follow or message.sequence <= last):
                sequence = message.sequence
                yield message
            elif follow:
                await self._wait(None)
            else:
                return

    async def get(self, bucket: str, key: str, *, within_s: float | None = None) -> Entry | None:
        return (await self._bucket(bucket, within_s)).entries.get(key)

    async def put(self, bucket: str, key: str, value: bytes, *, within_s: float | None = None) -> int:
        return self._write(await self._bucket(bucket, within_s), key, value)

    async def create(self, bucket: str, key: str, value: bytes, *, within_s: float | None = None) -> int:
        store = await self._bucket(bucket, within_s)
        _expect(store, key, None)
        return self._write(store, key, value)

    async def update(
        self, bucket: str, key: str, value: bytes, revision: int, *, within_s: float | None = None
    ) -> int:
        store = await self._bucket(bucket, within_s)
        _expect(store, key, revision)
        return self._write(store, key, value)

    async def delete(
        self, bucket: str, key: str, *, revision: int | None = None, within_s: float | None = None
    ) -> None:
        store = await self._bucket(bucket, within_s)
        if revision is not None:
            _expect(store, key, revision)
        store.sequence += 1
        store.entries.pop(key, None)
        self._tell()

    async def entries(
        self, bucket: str, keys: str = ">", *, within_s: float | None = None
    ) -> dict[str, Entry]:
        return _matching(await self._bucket(bucket, within_s), keys)

    async def follow(self, bucket: str, keys: str = ">") -> AsyncGenerator[Change, None]:
        view = View()
        while True:
            changed = self._changed
            store = self._buckets.get(bucket)
            if self._up and store is not None:
                snapshot = Snapshot(
                    created=store.created, sequence=store.sequence, entries=_matching(store, keys)
                )
                for change in view.take(snapshot):
                    yield change
            await changed.wait()

    def _lay_out(self, layout: Layout | None) -> None:
        if layout is None:
            return
        for stream in layout.streams:
            self._streams.setdefault(stream.name, _Stream(stream.subjects, self._incarnation()))
        for bucket in layout.buckets:
            self._buckets.setdefault(bucket.name, _Bucket(self._incarnation()))

    def _incarnation(self) -> str:
        return str(next(self._incarnations))

    def _write(self, store: _Bucket, key: str, value: bytes) -> int:
        store.sequence += 1
        store.entries[key] = Entry(key=key, value=value, revision=store.sequence)
        self._tell()
        return store.sequence

    def _due(self, store: _Stream, place: _Consumer, subjects: Sequence[str], now: float) -> Message | None:
        """The next message for a consumer: one that comes again, or a new one."""
        for due, sequence in sorted(place.again):
            if due <= now:
                place.again.remove((due, sequence))
                return self._deliver(place, store.messages[sequence - 1][1])
        message = next(_after(store, place.sequence, subjects), None)
        if message is None:
            return None
        place.sequence = message.sequence
        return self._deliver(place, message)

    def _deliver(self, place: _Consumer, message: Message) -> Message:
        place.deliveries[message.sequence] += 1
        return Message(
            subject=message.subject,
            body=message.body,
            headers=message.headers,
            sequence=message.sequence,
            deliveries=place.deliveries[message.sequence],
        )

    async def _stream(self, name: str) -> _Stream:
        while not self._up or name not in self._streams:
            await self._wait(None)
        return self._streams[name]

    async def _bucket(self, name: str, within_s: float | None) -> _Bucket:
        await self._reach(within_s)
        if name not in self._buckets:
            raise BucketMissing(f"there is no bucket {name}", hint="Was it lost with the server's data?")
        return self._buckets[name]

    async def _reach(self, within_s: float | None) -> None:
        try:
            async with asyncio.timeout(within_s or 0):
                while not self._up:
                    await self._changed.wait()
        except TimeoutError:
            raise Unavailable("the bus in memory is down") from None

    async def _wait(self, until: float | None) -> None:
        """Until something changed, or that time of the loop's clock."""
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            return

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _expect(store: _Bucket, key: str, revision: int | None) -> None:
    entry = store.entries.get(key)
    found = None if entry is None else entry.revision
    if found != revision:
        raise Conflict(f"{key} is at revision {found}, not {revision}", hint="Read again and decide anew")


def _after(store: _Stream, sequence: int, subjects: Sequence[str]) -> Iterator[Message]:
    return (message for _, message in store.messages[sequence:] if _matches(subjects, message.subject))


def _matching(store: _Bucket, keys: str) -> dict[str, Entry]:
    return {key: entry for key, entry in sorted(store.entries.items()) if _matches([keys], key)}


def _matches(patterns: Sequence[str], subject: str) -> bool:
    """Whether a subject fits one of the patterns: ``*`` is one word, a last ``>`` all that follow."""
    return any(re.fullmatch(_expression(pattern), subject) for pattern in patterns)


def _expression(pattern: str) -> str:
    words = {"*": r"[^.]+", ">": r".+"}
    return r"\.".join(words.get(word) or re.escape(word) for word in pattern.split("."))


def _now() -> datetime:
    """The server's clock, of which this is the server."""
    return datetime.fromtimestamp(time.time_ns() / 1e9, UTC)
