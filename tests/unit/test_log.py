"""Every line says which service wrote it, from wherever in the process it comes."""

import asyncio
import json
import logging
import threading

import pytest
import structlog

from sublet.runtime import log
from sublet.runtime.serve import serve


async def test_lines_of_loops_threads_and_foreign_loggers_all_carry_the_service(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log.configure("agent", json=True)
    ours, stop = structlog.get_logger(), asyncio.Event()

    async def loop() -> None:
        ours.info("loop.spoke")
        await asyncio.to_thread(ours.info, "thread.spoke")
        await asyncio.get_running_loop().run_in_executor(None, ours.info, "executor.spoke")
        bare = threading.Thread(target=ours.info, args=("bare_thread.spoke",))
        bare.start()
        bare.join()
        logging.getLogger("aiohttp").warning("foreign")
        stop.set()
        await asyncio.Event().wait()

    await serve({"one": loop}, stop=stop)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [
        "service.started",
        *("loop.spoke", "thread.spoke", "executor.spoke", "bare_thread.spoke", "foreign"),
        "service.stopping",
        "service.stopped",
    ]
    assert {line["service"] for line in lines} == {"agent"}
