"""How live commands reach the cluster: the API server by kubeconfig, the bus by URL.

What they need beyond this package is imported when they run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublet.bus.port import Bus
    from sublet.kube.port import Kube

NATS_ENV = "SUBLET_NATS_URL"
NATS_URL = "nats://127.0.0.1:4222"
NATS_HINT = "Pass --nats URL; the default works beside kubectl -n sublet-system port-forward svc/nats 4222"
EXTRA = "client"


def add_nats(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(extra=EXTRA)
    parser.add_argument(
        "--nats",
        metavar="URL",
        default=os.environ.get(NATS_ENV, NATS_URL),
        help=f"the bus; default: ${NATS_ENV}, else {NATS_URL}",
    )


def add_kube(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(extra=EXTRA)
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: $KUBECONFIG, else as kubectl"
    )
    parser.add_argument("--context", metavar="NAME", help="the context of the kubeconfig")


@asynccontextmanager
async def open_bus(arguments: argparse.Namespace) -> AsyncIterator[Bus]:
    from sublet.bus import jetstream

    async with jetstream.open_bus(arguments.nats, name="sublet-cli") as bus:
        yield bus


@asynccontextmanager
async def open_kube(arguments: argparse.Namespace) -> AsyncIterator[Kube]:
    from sublet.kube.client import connect

    async with connect(arguments.kubeconfig, context=arguments.context) as kube:
        yield kube


def quiet_log() -> None:
    """Libraries speak on standard error, and only of what went wrong."""
    from sublet.runtime import log

    log.configure("cli", level="error")
