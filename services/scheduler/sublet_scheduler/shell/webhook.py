"""The HTTPS server that the API server asks about new pods.

Whatever goes wrong inside is no refusal: it is a 5xx, which the API server reports as ours.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import structlog
from aiohttp import web

from sublet.model.errors import Unavailable
from sublet_scheduler.shell.review import Request, read_review

log = structlog.get_logger()

LARGEST_BODY_BYTES = 8 * 2**20
"""Above the API server's own limit of 3 MiB an object, with room for the envelope."""
AT_ONCE = 256
"""Reviews in work; more wait for their turn, and the budget of a decision runs only then."""
CLOSE_WITHIN_S = 5.0
"""For reviews in flight when the server closes: the timeoutSeconds of the webhook."""

Answering = Callable[[Request], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    answer: Answering
    places: asyncio.Semaphore

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            review = read_review(body)
        except msgspec.DecodeError as error:
            log.warning("review.unreadable", error=str(error), size_bytes=len(body))
            return web.Response(status=400, text=f"not an AdmissionReview: {error}\n")
        try:
            async with self.places:
                answer = await self.answer(review)
        except Unavailable as error:
            return web.Response(status=503, text=f"{error}\n")
        # small and whole, so that headers and body go out in one write
        return web.Response(body=answer, content_type="application/json")


@asynccontextmanager
async def serve_webhook(
    *, host: str, port: int, tls: ssl.SSLContext, claims: Answering, elsewhere: Answering
) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port (a free one for 0). Closing lets reviews finish."""
    places = asyncio.Semaphore(AT_ONCE)
    app = web.Application(client_max_size=LARGEST_BODY_BYTES)
    app.add_routes(
        [
            web.post("/mutate", _Endpoint(claims, places).handle),
            web.post("/mutate-elsewhere", _Endpoint(elsewhere, places).handle),
        ]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_WITHIN_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
