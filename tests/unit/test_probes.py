"""The probes' answers, to well-behaved callers and others."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from sublet.runtime.probes import HEAD_BYTES, NO_STREAMS, Streams, serve_probes


@asynccontextmanager
async def probes(
    *against: str, unhealthy: tuple[str, ...] = (), streams: Streams = NO_STREAMS
) -> AsyncIterator[int]:
    registry = CollectorRegistry()
    Gauge("sublet_things", "Things", registry=registry).set(3)
    async with (
        asyncio.timeout(5),
        serve_probes(
            host="127.0.0.1",
            port=0,
            registry=registry,
            not_ready=lambda: list(against),
            unhealthy=lambda: list(unhealthy),
            streams=streams,
        ) as port,
    ):
        yield port


async def ask(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, answer.content_type, await answer.text()


async def said(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.fixture(autouse=True)
async def no_task_is_left_over() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


async def test_a_service_is_ready_and_healthy_when_nothing_stands_against_it() -> None:
    async with probes() as port:
        assert await ask(port, "/readyz") == (200, "text/plain", "ok\n")
        assert await ask(port, "/healthz?verbose") == (200, "text/plain", "ok\n")


async def test_what_stands_against_it_is_named() -> None:
    async with probes("no bus", "no cards", unhealthy=("stuck",)) as port:
        assert await ask(port, "/readyz") == (503, "text/plain", "no bus\nno cards\n")
        assert await ask(port, "/healthz") == (503, "text/plain", "stuck\n")


async def test_metrics_are_what_the_registry_has() -> None:
    async with probes() as port:
        status, kind, text = await ask(port, "/metrics")
        assert (status, kind) == (200, "text/plain")
        assert "sublet_things 3.0" in text


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/readyz", 405), ("HEAD", "/readyz", 200)]
)
async def test_other_paths_and_methods_are_answered_as_http_has_it(
    method: str, path: str, status: int
) -> None:
    async with probes() as port:
        assert (await ask(port, path, method))[0] == status


NONSENSE = (
    b"\r\n\r\n",
    b"\xff\xff\xff\r\n\r\n",
    b"GET /readyz HTTP/1.1 and more\r\n\r\n",
    b"GET /" + b"x" * (2 * HEAD_BYTES) + b" HTTP/1.1\r\n\r\n",
)


@pytest.mark.parametrize("request_", NONSENSE)
async def test_nonsense_is_hung_up_on_and_the_next_caller_is_served(request_: bytes) -> None:
    async with probes() as port:
        assert await said(port, request_) == b""
        assert (await ask(port, "/readyz"))[0] == 200


async def test_a_caller_that_never_asks_does_not_hold_up_the_end() -> None:
    async with probes() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await ask(port, "/readyz"))[0] == 200
    writer.close()
    await writer.wait_closed()


async def test_a_stream_is_sent_line_by_line_while_others_are_answered() -> None:
    made: list[int] = []
    wide = "x" * 2_000  # together more than the sockets between them hold

    def lines() -> Iterator[str]:
        for number in range(5_000):
            made.append(number)
            yield f"{number} {wide}"

    async with probes(streams={"/lines": lines}) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /lines HTTP/1.1\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await ask(port, "/healthz") == (200, "text/plain", "ok\n")
        assert len(made) < 5_000
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        assert body.splitlines() == [f"{number} {wide}".encode() for number in range(5_000)]
        writer.close()
        assert await ask(port, "/lines", "HEAD") == (200, "application/x-ndjson", "")
        assert await ask(port, "/lines", "POST") == (405, "text/plain", "only GET and HEAD\n")
