"""`sublet demo`: all of Sublet on this machine: pods share cards, two cards break, and what follows."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sublet.cli.commands import Commands
from sublet.cli.reaching import quiet_log

if TYPE_CHECKING:
    from sublet.demo.stage import Stage

INTERRUPTED = 130


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "demo", help="Sublet on this machine, without a cluster", description=__doc__
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="also prove, container by container, that pod, ledger and kubelet agree",
    )
    parser.add_argument("--keep", action="store_true", help="stay up until Ctrl-C")
    parser.set_defaults(run=run, extra="demo")


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(check=arguments.check, keep=arguments.keep))


async def _run(*, check: bool, keep: bool) -> int:
    from sublet.cli.story import Story
    from sublet.demo.child import DemoFailed
    from sublet.demo.stage import open_stage
    from sublet.runtime.serve import stop_on_signals

    quiet_log()
    stop = stop_on_signals()
    step = "start"
    code = 0

    async def play(stage: Stage) -> None:
        nonlocal step
        story = Story(stage, check=check)
        async for step in story.tell():
            print(f"\n== {step}", flush=True)
        if keep:
            print(_invitation(stage), flush=True)
            await stop.wait()

    try:
        async with open_stage() as stage, asyncio.TaskGroup() as group:
            playing = group.create_task(play(stage), name="story")
            stopping = group.create_task(stop.wait(), name="stop")
            await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            code = 0 if playing.done() or keep else INTERRUPTED
            playing.cancel()
            stopping.cancel()
    except* DemoFailed as failed:
        for error in _leaves(failed):
            print(f"sublet demo: failed at {step!r}: {error}", file=sys.stderr)
        code = 1
    return code


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _invitation(stage: Stage) -> str:
    return (
        f"\nIt stays up until Ctrl-C. In another shell:\n"
        f"  export KUBECONFIG={stage.kubeconfig} SUBLET_NATS_URL={stage.nats_url}\n"
        f"  sublet cards; sublet events -f; kubectl get pods -n demo"
    )
