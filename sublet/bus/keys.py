"""Keys and values on a JetStream bucket: compare-and-set, complete snapshots, and following changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from sublet.bus import feed, server
from sublet.bus.feed import FeedEnded, open_feed
from sublet.bus.link import Link
from sublet.bus.port import BucketMissing, Change, Entry
from sublet.bus.view import Heard, Snapshot, View
from sublet.model.errors import BadRequest, Conflict, Unavailable

log = structlog.get_logger()

_FEW: Final = 8  # below this many keys, single reads are cheaper than a consumer
_TOMBSTONE_LIVES: Final = "1h"  # longer than any follower sleeps between two full reads
_WRITE_ID: Final = "Nats-Msg-Id"
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"


@dataclass(frozen=True, slots=True)
class Keys:
    """The key-value half of the bus."""

    link: Link

    async def get(self, bucket: str, key: str, *, within_s: float | None) -> Entry | None:
        async def read(client: Client, within_s: float) -> Entry | None:
            return _living(await _newest(client, bucket, key, within_s=within_s))

        return await self.link.run_request(f"read {bucket}/{key}", read, within_s=within_s)

    async def put(self, bucket: str, key: str, value: bytes, *, within_s: float | None) -> int:
        return await self._write(bucket, key, value, {}, within_s=within_s)

    async def create(self, bucket: str, key: str, value: bytes, *, within_s: float | None) -> int:
        try:
            return await self._write(bucket, key, value, {_EXPECTED: "0"}, within_s=within_s)
        except Conflict:
            tombstone = await self._tombstone(bucket, key, within_s=within_s)
            if tombstone is None:
                raise
        return await self.update(bucket, key, value, tombstone, within_s=within_s)

    async def update(
        self, bucket: str, key: str, value: bytes, revision: int, *, within_s: float | None
    ) -> int:
        return await self._write(bucket, key, value, {_EXPECTED: str(revision)}, within_s=within_s)

    async def delete(self, bucket: str, key: str, *, revision: int | None, within_s: float | None) -> None:
        headers = {"KV-Operation": "DEL", "Nats-TTL": _TOMBSTONE_LIVES}
        if revision is not None:
            headers[_EXPECTED] = str(revision)
        await self._write(bucket, key, b"", headers, within_s=within_s)

    async def entries(self, bucket: str, keys: str, *, within_s: float | None) -> dict[str, Entry]:
        async def read(client: Client, within_s: float) -> dict[str, Entry]:
            return dict((await self._snapshot(client, bucket, keys, within_s=within_s)).entries)

        return await self.link.run_request(f"read all of {bucket}", read, within_s=within_s)

    async def follow(self, bucket: str, keys: str) -> AsyncGenerator[Change, None]:
        view = View()
        missing = False
        while True:
            client = await self._connected()
            try:
                within_s = self.link.timing.reply_within_s
                snapshot = await self._snapshot(client, bucket, keys, within_s=within_s)
            except BucketMissing:
                if not missing:
                    log.warning("bucket.missed", bucket=bucket)
                missing = True
                await asyncio.sleep(self.link.timing.missing_retry_s)
                continue
            except (Unavailable, nats.errors.Error, OSError) as error:
                log.debug("bucket.unread", bucket=bucket, error=repr(error))
                await asyncio.sleep(self.link.timing.retry_first_s)
                continue
            missing = False
            for change in view.take(snapshot):
                yield change
            async with aclosing(self._hints(client, bucket, keys, view)) as hints:
                async for change in hints:
                    yield change

    async def _hints(
        self, client: Client, bucket: str, keys: str, view: View
    ) -> AsyncGenerator[Change, None]:
        """Changes after the view's snapshot, until it is time for the next one."""
        clock = asyncio.get_running_loop().time
        ends = clock() + self.link.timing.reconcile_every_s
        config = feed.reader([server.key_subject(bucket, keys)], view.floor + 1)
        try:
            async with open_feed(self.link, client, server.bucket_stream(bucket), config) as hints:
                while clock() < ends:
                    message = await hints.next(within_s=ends - clock())
                    change = None if message is None else view.hint(_heard(message, bucket))
                    if change is not None:
                        yield change
        except (FeedEnded, Unavailable, server.StreamMissing) as end:
            log.debug("bucket.watch_ended", bucket=bucket, error=str(end))
            await asyncio.sleep(self.link.timing.retry_first_s)

    async def _connected(self) -> Client:
        await self.link.wait(up=True)
        return await self.link.client(None)

    async def _write(
        self, bucket: str, key: str, value: bytes, headers: dict[str, str], *, within_s: float | None
    ) -> int:
        """The id makes a second attempt find the first one, when that was stored and its answer lost.

        The server compares the revision before it looks at the id, so the first attempt can look like
        somebody else's write.
        """
        write_id = uuid4().hex
        headers = headers | {_WRITE_ID: write_id}
        unclear = False

        async def write(client: Client, within_s: float) -> int:
            nonlocal unclear
            subject = server.key_subject(bucket, _checked(key))
            before, unclear = unclear, True
            try:
                answer = await server.request(client, subject, value, within_s=within_s, headers=headers)
            except nats.errors.NoRespondersError:
                await _require(client, bucket, within_s=within_s)
                raise
            try:
                revision: int = server.checked(answer.data, what=f"{bucket}/{key}")["seq"]
            except Conflict:
                newest = await _newest(client, bucket, key, within_s=within_s) if before else None
                if newest is None or newest.write_id != write_id:
                    raise
                return newest.revision
            return revision

        return await self.link.run_request(f"write {bucket}/{key}", write, within_s=within_s)

    async def _tombstone(self, bucket: str, key: str, *, within_s: float | None) -> int | None:
        """The revision of a delete marker; 0 where the key has left no trace; `None` while it exists."""

        async def read(client: Client, within_s: float) -> int | None:
            found = await _newest(client, bucket, key, within_s=within_s)
            if found is None:
                return 0
            return found.revision if found.deleted else None

        return await self.link.run_request(f"read {bucket}/{key}", read, within_s=within_s)

    async def _snapshot(self, client: Client, bucket: str, keys: str, *, within_s: float) -> Snapshot:
        """List the keys, read them through one consumer, and one by one what that did not bring.

        A consumer alone is not complete: a key that is rewritten while it reads moves behind its end.
        """
        stream, subject = server.bucket_stream(bucket), server.key_subject(bucket, keys)
        try:
            facts = await server.stream_facts(client, stream, subjects=subject, within_s=within_s)
        except server.StreamMissing as error:
            raise _missing(bucket) from error
        prefix = server.key_subject(bucket, "")
        absent = {name.removeprefix(prefix) for name in facts.subjects}
        found: dict[str, Heard] = {}
        if len(absent) > _FEW:
            await self._read_newest(client, bucket, subject, absent, found)
        for key in absent:
            newest = await _newest(client, bucket, key, within_s=within_s)
            if newest is not None:
                found[key] = newest
        living = {key: entry for key, heard in sorted(found.items()) if (entry := _living(heard)) is not None}
        return Snapshot(created=facts.created, sequence=facts.last_sequence, entries=living)

    async def _read_newest(
        self, client: Client, bucket: str, subject: str, absent: set[str], found: dict[str, Heard]
    ) -> None:
        """Move keys from `absent` to `found` until the consumer brings no more."""
        stream = server.bucket_stream(bucket)
        try:
            async with open_feed(self.link, client, stream, feed.newest_of_each([subject])) as values:
                while absent:
                    message = await values.next(within_s=self.link.timing.attempt_within_s)
                    if message is None:
                        return
                    heard = _heard(message, bucket)
                    found[heard.key] = heard
                    absent.discard(heard.key)
                    if message.metadata.num_pending == 0:
                        return
        except (FeedEnded, server.StreamMissing) as end:
            raise Unavailable(f"reading {bucket} was cut short: {end}") from end


def _living(heard: Heard | None) -> Entry | None:
    if heard is None or heard.deleted:
        return None
    return Entry(key=heard.key, value=heard.value, revision=heard.revision)


def _heard(message: Msg, bucket: str) -> Heard:
    return Heard(
        key=message.subject.removeprefix(server.key_subject(bucket, "")),
        value=message.data,
        revision=message.metadata.sequence.stream,
        deleted=_is_tombstone(message.headers),
        write_id=(message.headers or {}).get(_WRITE_ID, ""),
    )


def _is_tombstone(headers: Mapping[str, str] | None) -> bool:
    return headers is not None and ("KV-Operation" in headers or "Nats-Marker-Reason" in headers)


async def _newest(client: Client, bucket: str, key: str, *, within_s: float) -> Heard | None:
    """Read one key directly; the server itself says whether it or the bucket is missing."""
    subject = server.key_subject(bucket, _checked(key))
    api = f"$JS.API.DIRECT.GET.{server.bucket_stream(bucket)}.{subject}"
    try:
        answer = await server.request(client, api, b"", within_s=within_s)
    except nats.errors.NoRespondersError:
        await _require(client, bucket, within_s=within_s)
        raise
    headers = answer.headers or {}
    if headers.get("Status") == "404":
        return None
    if "Nats-Sequence" not in headers:
        raise Unavailable(f"{bucket}/{key}: {headers.get('Status')} {headers.get('Description')}")
    return Heard(
        key=key,
        value=answer.data,
        revision=int(headers["Nats-Sequence"]),
        deleted=_is_tombstone(headers),
        write_id=headers.get(_WRITE_ID, ""),
    )


async def _require(client: Client, bucket: str, *, within_s: float) -> None:
    try:
        await server.stream_facts(client, server.bucket_stream(bucket), within_s=within_s)
    except server.StreamMissing as error:
        raise _missing(bucket) from error


def _missing(bucket: str) -> BucketMissing:
    return BucketMissing(f"there is no bucket {bucket}", hint="Was it lost with the server's data?")


def _checked(key: str) -> str:
    parts = key.split(".")
    if not all(part and all(c.isalnum() or c in "-_=/" for c in part) and part.isascii() for part in parts):
        raise BadRequest(f"{key!r} is not a key", hint="Words of A-Z a-z 0-9 - _ = / joined by dots")
    return key
