"""/healthz, /readyz and /metrics of a service, by asyncio alone: an HTTP library costs each agent 10 MiB."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Readiness = Callable[[], list[str]]
"""What still stands against being ready; empty = ready."""

CALL_S = 30.0
"""Longest that one caller may take to ask, and to be answered."""
CALLERS_MOST = 64
"""At the same time; more are hung up on."""
HEAD_BYTES = 16_384
STREAM_S = 300.0
"""Longest that a caller may take for a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"
    body: bytes


Pages = Mapping[str, Callable[[], _Page]]
Streams = Mapping[str, Callable[[], Iterator[str]]]
"""Path -> lines that are made while they are sent."""


NO_STREAMS: Streams = {}


@asynccontextmanager
async def serve_probes(
    *,
    host: str,
    port: int,
    registry: CollectorRegistry,
    not_ready: Readiness,
    unhealthy: Readiness = list,
    streams: Streams = NO_STREAMS,
) -> AsyncIterator[int]:
    """Serve the probes while the context is open; yields the port (a free one for 0).

    `unhealthy` lists what only a restart of the process mends; a stream is served to one caller at a time.
    """
    pages = {
        "/healthz": lambda: _verdict(unhealthy()),
        "/readyz": lambda: _verdict(not_ready()),
        "/metrics": lambda: _Page(kind=CONTENT_TYPE_LATEST, body=generate_latest(registry)),
    }
    callers: set[asyncio.Task[None]] = set()
    turn = asyncio.Lock()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        try:
            if task is not None and len(callers) < CALLERS_MOST:
                callers.add(task)
                task.add_done_callback(callers.discard)
                await _within_limits(_answer(reader, writer, pages, streams, turn))
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port, limit=HEAD_BYTES)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = set(callers)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


async def _within_limits(answering: Coroutine[None, None, None]) -> None:
    """A caller that hangs up, dawdles or says nonsense is no concern of ours."""
    with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
        await answering


async def _answer(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    pages: Pages,
    streams: Streams,
    turn: asyncio.Lock,
) -> None:
    """One request and its answer; the connection ends with it."""
    async with asyncio.timeout(CALL_S):
        head = await reader.readuntil(b"\r\n\r\n")
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3:
        return
    method, target, _ = words
    path = target.partition("?")[0]
    if method == "GET" and path in streams:
        async with asyncio.timeout(STREAM_S), turn:
            await _send_lines(writer, streams[path]())
    else:
        async with asyncio.timeout(CALL_S):
            await _send_page(writer, _page(method, path, pages, streams), body=method != "HEAD")


async def _send_page(writer: asyncio.StreamWriter, page: _Page, *, body: bool) -> None:
    _begin(writer, page.status, page.kind, f"Content-Length: {len(page.body)}")
    if body:
        writer.write(page.body)
    await _end(writer)


async def _send_lines(writer: asyncio.StreamWriter, lines: Iterator[str]) -> None:
    """Their number is not known beforehand: the end of the connection is the end. Others get a turn after
    every line, since making one may take some milliseconds."""
    _begin(writer, HTTPStatus.OK, "application/x-ndjson")
    for line in lines:
        writer.write(f"{line}\n".encode())
        await writer.drain()
        await asyncio.sleep(0)
    await _end(writer)


def _begin(writer: asyncio.StreamWriter, status: HTTPStatus, kind: str, *more: str) -> None:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}", f"Content-Type: {kind}", *more, "Connection: close", ""
    )  # fmt: skip
    writer.write("".join(f"{line}\r\n" for line in lines).encode("ascii"))


async def _end(writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def _page(method: str, path: str, pages: Pages, streams: Streams) -> _Page:
    if method not in ("GET", "HEAD"):
        return _Page(status=HTTPStatus.METHOD_NOT_ALLOWED, body=b"only GET and HEAD\n")
    if path in streams:
        return _Page(kind="application/x-ndjson", body=b"")
    if path not in pages:
        return _Page(status=HTTPStatus.NOT_FOUND, body=f"one of {' '.join((*pages, *streams))}\n".encode())
    return pages[path]()


def _verdict(against: list[str]) -> _Page:
    if against:
        text = "\n".join(against) + "\n"
        return _Page(status=HTTPStatus.SERVICE_UNAVAILABLE, body=text.encode())
    return _Page(body=b"ok\n")
