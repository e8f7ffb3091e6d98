"""A real nats-server for tests: ``pytest_plugins = ["tests.natsserver"]`` gives the fixture `nats_server`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from sublet.demo.natsserver import NatsServer


@pytest_asyncio.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A running server of this test's own, on a free port, with an empty store."""
    server = NatsServer(tmp_path / "nats")
    await server.start()
    yield server
    await server.stop()
