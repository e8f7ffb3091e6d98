"""`sublet release NODE`: a person's word that a machine is off, so that what still ends there is freed."""

from __future__ import annotations

import argparse
import asyncio
import getpass
from datetime import UTC, datetime

from sublet.cli import reaching
from sublet.cli.commands import Commands
from sublet.cli.output import add_output, print_json
from sublet.contract import keys
from sublet.contract.podspec import Json
from sublet.model.errors import BadRequest, NotFound


def register(commands: Commands) -> None:
    parser = commands.add_parser("release", help="say that a machine is off", description=__doc__)
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--by", default="", help="who says so; default: the user of this shell")
    parser.add_argument(
        "--force", action="store_true", help="although the Node is Ready: containers may still run there"
    )
    reaching.add_kube(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    word = asyncio.run(_release(arguments))
    if arguments.output == "json":
        print_json({"node": arguments.node, "releaseRequested": word})
    else:
        print(f"{arguments.node}: asked the scheduler to free what still ends there ({word})")
    return 0


async def _release(arguments: argparse.Namespace) -> str:
    from sublet.kube.errors import NotFound as KubeNotFound
    from sublet.kube.kind import NODES
    from sublet.kube.port import MergePatch
    from sublet.runtime.clock import unix_ms

    reaching.quiet_log()
    now = datetime.fromtimestamp(unix_ms() // 1000, UTC)
    word = f"{arguments.by or getpass.getuser()} {now:%Y-%m-%dT%H:%M:%SZ}"
    async with reaching.open_kube(arguments) as kube:
        try:
            node = await kube.get(NODES, arguments.node)
        except KubeNotFound:
            raise NotFound(f"no node {arguments.node}", hint="`kubectl get nodes` lists them") from None
        if _is_ready(node) and not arguments.force:
            raise BadRequest(
                f"node {arguments.node} is Ready: its agent will prove what has ended",
                hint="Pass --force only where nothing of its pods runs any more",
            )
        patch = MergePatch({"metadata": {"annotations": {keys.RELEASE_REQUESTED: word}}})
        await kube.patch(NODES, arguments.node, patch)
    return word


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
