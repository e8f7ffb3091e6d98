"""``sublet-scheduler``: runs the scheduler until SIGTERM."""

import asyncio
import os
import sys

from sublet.model.errors import BadRequest
from sublet.runtime import log
from sublet.runtime.serve import stop_on_signals
from sublet.runtime.settings import read_settings
from sublet_scheduler.app import run
from sublet_scheduler.settings import Settings


def main() -> None:
    try:
        settings = read_settings(Settings, os.environ)
        log.configure("scheduler", level=settings.log_level)
        asyncio.run(_main(settings))
    except BadRequest as error:
        sys.exit(f"sublet-scheduler: {error}")


async def _main(settings: Settings) -> None:
    await run(settings, stop=stop_on_signals())


if __name__ == "__main__":
    main()
