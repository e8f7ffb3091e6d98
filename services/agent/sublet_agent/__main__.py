"""``sublet-agent``: settings from the environment, then run until told to stop."""

import asyncio
import os
import sys

from sublet.model.errors import BadRequest
from sublet.runtime import log
from sublet.runtime.serve import stop_on_signals
from sublet_agent.app import run
from sublet_agent.settings import Settings


def main() -> int:
    """Exit 0 after a stop, 2 for settings that cannot be, 1 for a loop that failed."""
    try:
        settings = Settings.from_env(os.environ)
        log.configure("agent", level=settings.log_level)
        asyncio.run(_run(settings))
    except BadRequest as error:
        print(error, file=sys.stderr)
        return 2
    return 0


async def _run(settings: Settings) -> None:
    await run(settings, stop=stop_on_signals())


if __name__ == "__main__":
    sys.exit(main())
