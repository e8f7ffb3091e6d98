"""/healthz, /readyz and /metrics of a service, by asyncio alone: an HTTP library costs each agent 10 MiB."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Readiness = Callable[[], list[str]]
"""What still stands against being ready; empty = ready."""

CALL_S = 30.0
"""Longest that one caller may take, from its first byte to its last."""
CALLERS_MOST = 64
"""At the same time; more are hung up on."""
HEAD_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"
    body: bytes


Pages = Mapping[str, Callable[[], _Page]]


@asynccontextmanager
async def serve_probes(
    *,
    host: str,
    port: int,
    registry: CollectorRegistry,
    not_ready: Readiness,
    unhealthy: Readiness = list,
) -> AsyncIterator[int]:
    """Serve the probes while the context is open; yields the port (a free one for 0).

    `unhealthy` lists what only a restart of the process mends.
    """
    pages = {
        "/healthz": lambda: _verdict(unhealthy()),
        "/readyz": lambda: _verdict(not_ready()),
        "/metrics": lambda: _Page(kind=CONTENT_TYPE_LATEST, body=generate_latest(registry)),
    }
    callers: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        try:
            if task is not None and len(callers) < CALLERS_MOST:
                callers.add(task)
                task.add_done_callback(callers.discard)
                await _within_limits(_answer(reader, writer, pages))
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
        async with asyncio.timeout(CALL_S):
            await answering


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pages: Pages) -> None:
    """One request and its answer; the connection ends with it."""
    head = await reader.readuntil(b"\r\n\r\n")
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3:
        return
    method, target, _ = words
    page = _page(method, target.partition("?")[0], pages)
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.kind}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
    )
    writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii"))
    if method != "HEAD":
        writer.write(page.body)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def _page(method: str, path: str, pages: Pages) -> _Page:
    if method not in ("GET", "HEAD"):
        return _Page(status=HTTPStatus.METHOD_NOT_ALLOWED, body=b"only GET and HEAD\n")
    if path not in pages:
        return _Page(status=HTTPStatus.NOT_FOUND, body=f"one of {' '.join(pages)}\n".encode())
    return pages[path]()


def _verdict(against: list[str]) -> _Page:
    if against:
        text = "\n".join(against) + "\n"
        return _Page(status=HTTPStatus.SERVICE_UNAVAILABLE, body=text.encode())
    return _Page(body=b"ok\n")
