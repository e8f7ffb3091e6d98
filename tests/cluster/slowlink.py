"""A TCP link to the bus that delays everything the server says, to show what a slow watch does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def slow_link(port: int, *, delay_s: float) -> AsyncIterator[int]:
    """Forward a free local port to `port`; yields it. What the server sends arrives `delay_s` later."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while data := await reader.read(65_536):
                if wait_s:
                    await asyncio.sleep(wait_s)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        server_in, server_out = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(forward(client_in, server_out, 0))
                group.create_task(forward(server_in, client_out, delay_s))
        finally:
            client_out.close()
            server_out.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
