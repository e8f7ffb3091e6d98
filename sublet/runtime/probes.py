"""/healthz, /readyz and /metrics of a service."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Readiness = Callable[[], list[str]]
"""What still stands against being ready; empty = ready."""


@asynccontextmanager
async def serve_probes(
    *,
    host: str,
    port: int,
    registry: CollectorRegistry,
    not_ready: Readiness,
    unhealthy: Readiness = list,
    routes: tuple[web.RouteDef, ...] = (),
) -> AsyncIterator[int]:
    """Serve the probes while the context is open; yields the port (a free one for 0).

    `unhealthy` lists what only a restart of the process mends.
    """

    async def healthz(_: web.Request) -> web.Response:
        return _answer(unhealthy())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(not_ready())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes(
        [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics), *routes]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _answer(against: list[str]) -> web.Response:
    if against:
        return web.Response(status=503, text="\n".join(against) + "\n")
    return web.Response(text="ok\n")
