"""From the publishing of a public event to its subscriber, over a real nats-server."""

import asyncio
import tempfile
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench.figure import Figure, spread
from sublet.bus.events import publish_event
from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.client import Client
from sublet.contract import cloudevents, subjects
from sublet.demo.natsserver import NatsServer

EVENTS = 500
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    taken_ms: list[float] = []
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as folder:
        server = NatsServer(Path(folder))
        await server.start()
        try:
            async with (
                open_bus(server.url, name="bench", layout=LAYOUT) as bus,
                aclosing(Client(server.url).events(since=0)) as events,
            ):
                for number in range(EVENTS):
                    event = cloudevents.describe(
                        "share",
                        "started",
                        event_id=f"e{number}",
                        node="n1",
                        about="GPU-1",
                        time=THEN,
                        sequence=number + 1,
                    )
                    since = perf_counter()
                    subject = subjects.subject("share", "n1", "GPU-1")
                    await publish_event(bus, subject, event, b'{"card":"GPU-1"}', within_s=5)
                    await anext(events)
                    taken_ms.append((perf_counter() - since) * 1000)
        finally:
            await server.stop()
    return spread("event, from publish until its subscriber has it", taken_ms[50:], "ms")
