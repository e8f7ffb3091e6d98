"""Pods a second from CREATE to ungated on a real API server, with nodes that are objects only.

The scheduler is its real process behind its real webhook, the bus a real nats-server; all share this machine
with the API server.
"""

import asyncio
import json
from time import perf_counter

import aiohttp

from bench.figure import Figure, Skipped, spread
from sublet.contract import keys
from tests import builders
from tests.api.deployment import install
from tests.api.scheduler.stage import Stage
from tests.api.scheduler.team import Team, gates, team
from tests.lab import binaries
from tests.lab.controlplane import ADMIN, ControlPlane

NODES = 20
CARDS_A_NODE = 8
PODS = 600
AT_ONCE = 16
WITHIN_S = 120.0


def measure() -> list[Figure] | Skipped:
    missing = [name for name in binaries.API_SERVER if not binaries.binary(name).exists()]
    if missing:
        return Skipped(f"not built: {', '.join(missing)}; run `make lab-build`")
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    plane = ControlPlane()
    await plane.start("apiserver")
    try:
        await install(plane)
        stage = Stage(plane)
        await stage.start()
        async with team(stage, managed=True) as made:
            for _ in range(NODES):
                await made.add_node(CARDS_A_NODE, gib=80)
            return await _create_all(made)
    finally:
        await plane.stop()


async def _create_all(made: Team) -> list[Figure]:
    created: dict[str, float] = {}
    released: dict[str, float] = {}
    pods_url = f"{made.stage.plane.url}/api/v1/namespaces/{made.name}/pods"
    trust = made.stage.plane.ssl_context(ADMIN)
    connector = aiohttp.TCPConnector(limit=AT_ONCE + 1, ssl=trust)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**22) as session:

        async def watch() -> None:
            async with session.get(
                pods_url, params={"watch": "1"}, timeout=aiohttp.ClientTimeout()
            ) as answer:
                async for line in answer.content:
                    pod = json.loads(line)["object"]
                    if keys.GATE not in gates(pod):
                        released.setdefault(pod["metadata"]["name"], perf_counter())
                    if len(released) == PODS:
                        return

        async def create() -> None:
            for number in numbers:
                name = f"p{number}"
                pod = builders.pod(name, builders.container(gpu_memory=4096), namespace=made.name)
                created[name] = perf_counter()
                async with session.post(pods_url, json=pod) as answer:
                    assert answer.status == 201, await answer.text()

        numbers = iter(range(PODS))
        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
            group.create_task(watch())
            for _ in range(AT_ONCE):
                group.create_task(create())
    wall_s = max(released.values()) - min(created.values())
    taken_ms = [(released[name] - created[name]) * 1000 for name in created]
    return [
        Figure(
            what=f"pods from CREATE to ungated on a real API server, {NODES} nodes × {CARDS_A_NODE} cards",
            value=PODS / wall_s,
            unit="/s",
            aim="≥ 100 /s",
        ),
        *spread(f"from CREATE to ungated, {AT_ONCE} at once", taken_ms, "ms"),
    ]
