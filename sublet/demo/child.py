"""One of the real services as a child process of the demo."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sublet.demo.deathsignal import ending_with_us
from sublet.model.errors import SubletError

STOP_WITHIN_S = 5.0
LAST_LINES = 5
LONGEST_LINE = 300


class DemoFailed(SubletError):
    """Something that the demo shows did not come true."""


class ChildEnded(DemoFailed):
    """A service ended though nobody told it to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """`name` is what people call it; everything it says is in `log`."""

    name: str
    log: Path
    process: asyncio.subprocess.Process

    async def watch(self) -> None:
        """Never returns while the service runs.

        Raises:
            ChildEnded: it ended.
        """
        code = await self.process.wait()
        raise ChildEnded(f"{self.name} ended with {code}\n{self.last_lines()}")

    def last_lines(self) -> str:
        """What it said last, each line marked with its name."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:] or ["(it said nothing)"]
        return "\n".join(f"  {self.name} | {line[:LONGEST_LINE]}" for line in lines)

    def ask_to_stop(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()

    async def stop(self) -> None:
        """Wait until it has stopped, or kill it."""
        self.ask_to_stop()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def start_child(
    name: str, module: str, settings: Mapping[str, str], *, logs: Path
) -> AsyncIterator[Child]:
    """Run `python -m module` with `settings` as ``SUBLET_<NAME>`` and no other setting of ours."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SUBLET_")}
    log = logs / f"{name}.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *ending_with_us((sys.executable, "-m", module)),
            env=inherited | {f"SUBLET_{key.upper()}": value for key, value in settings.items()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C is for the demo, which then stops its children in order
        )
    child = Child(name=name, log=log, process=process)
    try:
        yield child
    finally:
        await child.stop()
