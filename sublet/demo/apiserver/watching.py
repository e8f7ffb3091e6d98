"""Serves one watch: what is there, what happens, bookmarks, and an end that tests may choose."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from aiohttp import web

from sublet.demo.apiserver.answers import Refused, expired
from sublet.demo.apiserver.faults import Faults, OpenWatch, WatchEnd
from sublet.demo.apiserver.selectors import Predicate
from sublet.demo.apiserver.store import Happened, Store, Stored
from sublet.kube.kind import Kind
from sublet.kube.port import Json

Shown = Callable[[Sequence[Json], Json], Json]
"""From objects and the metadata of their list to a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What one watch is about."""

    kind: Kind
    namespace: str | None
    matches: Predicate
    since: int | None
    """The version seen last; None begins with everything that is there."""
    within_s: float
    bookmarks: bool
    shown: Shown | None = None
    """Makes the table that is sent in place of an object; None sends the object."""

    def line(self, what: str, stored: Stored) -> bytes:
        return _line(what, self.shown([stored.obj], {}) if self.shown else stored.raw)

    def concerns(self, stored: Stored | None) -> bool:
        if stored is None:
            return False
        namespace = stored.obj["metadata"].get("namespace", "")
        return self.namespace in (None, namespace) and self.matches(stored.obj)


async def serve_watch(
    request: web.Request, watched: Watched, store: Store, faults: Faults, *, bookmark_every_s: float
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    watch = OpenWatch()
    faults.watches.add(watch)
    store.wakers.add(watch.wake)
    try:
        await response.prepare(request)
        await _send_until_end(response, watched, store, watch, bookmark_every_s)
    except ConnectionResetError:  # the reader has left, which is its right
        pass
    finally:
        faults.watches.discard(watch)
        store.wakers.discard(watch.wake)
    if watch.end is WatchEnd.CUT and request.transport:
        request.transport.abort()
    return response


async def _send_until_end(
    response: web.StreamResponse, watched: Watched, store: Store, watch: OpenWatch, bookmark_every_s: float
) -> None:
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + watched.within_s
    version = watched.since
    if version is None:
        version = store.version
        for stored in list(store.select(watched.kind, watched.namespace, watched.matches)):
            await response.write(watched.line("ADDED", stored))
    while watch.end is None:
        watch.wake.clear()
        try:
            news = store.since(version)
        except Refused as refused:
            await response.write(_line("ERROR", refused.status()))
            return
        for happened in news:
            version = happened.version
            for line in _lines(watched, happened):
                await response.write(line)
        left_s = ends_s - loop.time()
        if left_s <= 0:
            return
        try:
            async with asyncio.timeout(min(left_s, bookmark_every_s)):
                await watch.wake.wait()
        except TimeoutError:
            if watched.bookmarks:
                await response.write(_line("BOOKMARK", _bookmark(watched, version)))
    await _end(response, watch)


async def _end(response: web.StreamResponse, watch: OpenWatch) -> None:
    while watch.end is WatchEnd.MUTE:
        watch.wake.clear()
        await watch.wake.wait()
    if watch.end is WatchEnd.CUT:
        await response.write(b'{"type":"ADDED","object":{"kind"')
    elif watch.end is WatchEnd.EXPIRE:
        refused = expired("The resourceVersion for the provided watch is too old.")
        await response.write(_line("ERROR", refused.status()))


def _lines(watched: Watched, happened: Happened) -> Iterator[bytes]:
    """A watch tells of its selection: what leaves it is deleted, what enters it is added."""
    if happened.key.kind != watched.kind:
        return
    before, after = watched.concerns(happened.old), watched.concerns(happened.new)
    if after:
        yield watched.line("MODIFIED" if before else "ADDED", happened.last)
    elif before:
        yield watched.line("DELETED", happened.left())


def _bookmark(watched: Watched, version: int) -> Json:
    kind, meta = watched.kind, {"resourceVersion": str(version)}
    if watched.shown:
        return watched.shown([], meta)
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}


def _line(what: str, obj: msgspec.Raw | Json) -> bytes:
    return msgspec.json.encode({"type": what, "object": obj}) + b"\n"
