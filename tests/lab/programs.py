"""The outside programs of one lab run: started in a folder of their own and stopped with it.

A run holds a lock on its folder for as long as this process lives, and every program carries the folder's
name in its environment; `clearing` goes by both when it clears away after a run that was killed.
"""

import asyncio
import contextlib
import os
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tests.lab.clearing import MARK, PREFIX, ROOT, clear, reap_dead_runs, take_lock


class LabError(Exception):
    """The lab could not do what a test asked of it; the message ends with the log of the program at fault."""


class Run:
    """One lab run: its folder, its programs, and their end."""

    def __init__(self) -> None:
        reap_dead_runs()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=ROOT))
        self.name = self.folder.name
        self._lock = take_lock(self.folder)
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> int:
        """Start a program in the background, its output in NAME.log of the run's folder; returns its pid."""
        if self.alive(name):
            raise LabError(f"{name} already runs")
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SUBLET_")}
        with self.log_path(name).open("ab") as log:
            program = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cwd or self.folder,
                env=kept | dict(env or {}) | {MARK: str(self.folder)},
                start_new_session=True,
            )
        self._programs[name] = program
        return program.pid

    def alive(self, name: str) -> bool:
        return name in self._programs and self._programs[name].poll() is None

    def pid(self, name: str) -> int:
        return self._programs[name].pid

    def log_path(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    async def stop(self, name: str, *, grace_s: float = 10) -> None:
        """TERM, then KILL after the grace; nothing happens where the program is not running."""
        program = self._programs.pop(name, None)
        if program is None:
            return
        program.terminate()
        try:
            await asyncio.to_thread(program.wait, grace_s)
        except subprocess.TimeoutExpired:
            program.kill()
            await asyncio.to_thread(program.wait)

    async def kill(self, name: str) -> None:
        """KILL at once, as a crash would."""
        program = self._programs.pop(name)
        program.kill()
        await asyncio.to_thread(program.wait)

    async def until(
        self, what: str, condition: Callable[[], Awaitable[bool]], *, within_s: float, of: str | None = None
    ) -> None:
        """Wait for a condition outside; give up early when the program it depends on has ended."""
        late_at = time.monotonic() + within_s
        while not await condition():
            ended = of is not None and not self.alive(of)
            if ended or time.monotonic() > late_at:
                why = f"{of} ended" if ended else f"not within {within_s} s"
                raise LabError(f"{what}: {why}\n{self._log_tail(of)}")
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Stop everything that was started, the newest first, and remove the folder."""
        for name in reversed(list(self._programs)):
            await self.stop(name)
        await asyncio.to_thread(clear, self.folder)
        os.close(self._lock)

    def _log_tail(self, name: str | None) -> str:
        if name is None or not self.log_path(name).exists():
            return ""
        return "\n".join(self.log_path(name).read_text(errors="replace").splitlines()[-15:])


async def finish(*command: str | Path, within_s: float = 30, stdin: str = "") -> str:
    """Run a short command to its end and return what it printed.

    Raises:
        LabError: it ended with another code than 0, or not in time.
    """
    program = await asyncio.create_subprocess_exec(
        *[str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within_s):
            out, err = await program.communicate(stdin.encode())
    except TimeoutError:
        program.kill()
        await program.communicate()
        raise LabError(f"{Path(command[0]).name} {command[1:]} not done within {within_s} s") from None
    if program.returncode != 0:
        raise LabError(
            f"{Path(command[0]).name} {command[1:]} ended with {program.returncode}: {err.decode()}"
        )
    return out.decode()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free now, outside the range from which the kernel lends ports to everybody else."""
    for port in random.sample(range(20_000, 30_000), 100):
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.bind((host, port))
            return port
    raise LabError(f"no free port on {host}")
