"""Answers of the webhook over TLS with kept connections: decode, claims, decision on 100 × 8, patch.

The scheduler is a process of its own, between a real nats-server and the embedded API server; each review is
as large as that of a usual pod.
"""

import asyncio
import base64
import json
import os
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp

from bench.cluster import SHAPES, manifest
from bench.figure import Figure, spread
from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.demo.child import start_child
from sublet.demo.natsserver import NatsServer
from sublet.demo.stage import free_port
from sublet.kube.kind import MUTATING_WEBHOOKS
from tests import builders
from tests.eventually import eventually
from tests.integration.schedulerstage import stage

NODES = 100
NAMESPACE = "team"
WARM_UP = 400
ANSWERS = 4_000
AT_ONCE = 8
REVIEW_BYTES = 6_500
START_WITHIN_S = 60.0
RESERVATION_S = 1.0
"""None of the pods appears; in a cluster each is seen within a second."""


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    async with _scheduler() as (pid, port, trust):
        connector = aiohttp.TCPConnector(limit=AT_ONCE, ssl=trust)
        url = f"https://127.0.0.1:{port}/mutate"
        async with aiohttp.ClientSession(connector=connector) as session:
            await _ask(session, url, WARM_UP)
            cpu_s, since = _cpu_s(pid), perf_counter()
            taken_ms, patched = await _ask(session, url, ANSWERS)
            wall_s, used_s = perf_counter() - since, _cpu_s(pid) - cpu_s
    assert patched == ANSWERS
    where = f"{NODES} nodes × 8 cards, {REVIEW_BYTES / 1000:.1f} KB reviews, {AT_ONCE} connections"
    return [
        Figure(what=f"webhook answers, {where}", value=ANSWERS / wall_s, unit="/s"),
        Figure(
            what="webhook answers a core, by the scheduler's CPU time",
            value=ANSWERS / used_s,
            unit="/s",
            aim="≥ 800 /s",
        ),
        Figure(what="CPU of one webhook answer", value=used_s / ANSWERS * 1000, unit="ms CPU"),
        *spread("webhook answer, as the client sees it", taken_ms, "ms"),
    ]


@asynccontextmanager
async def _scheduler() -> AsyncIterator[tuple[int, int, ssl.SSLContext]]:
    """Its process, its port, and how to trust it."""
    async with AsyncExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="sublet-bench-")))
        nats = NatsServer(folder / "nats")
        await nats.start()
        held.push_async_callback(nats.stop)
        bus = await held.enter_async_context(open_bus(nats.url, name="bench", layout=LAYOUT))
        await eventually(lambda: bus.state().connected)
        cluster = await held.enter_async_context(stage(bus))
        cluster.api.write_kubeconfig(folder / "kubeconfig")
        port = free_port()
        settings = {
            "NATS_URL": nats.url,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PROBE_HOST": "127.0.0.1",
            "PROBE_PORT": "0",
            "WEBHOOK_HOST": "127.0.0.1",
            "WEBHOOK_PORT": str(port),
            "WEBHOOK_NAMES": "127.0.0.1",
            "RESERVATION_S": str(RESERVATION_S),
            "HEARTBEAT_FRESH_S": "600",
            "DRAIN_S": "0",
        }
        scheduler = await held.enter_async_context(
            start_child("scheduler", "sublet_scheduler", settings, logs=folder)
        )
        await cluster.add_namespace(NAMESPACE, manage="true")
        names = [f"node-{at:03d}" for at in range(NODES)]
        for name in names:
            await cluster.add_node(name, *builders.cards(name, 8, gib=80), slots=128)
        for name in names:
            await cluster.until_totals(name, within_s=START_WITHIN_S)
        configuration = await cluster.kube.get(MUTATING_WEBHOOKS, "sublet")
        ca = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]).decode()
        yield scheduler.process.pid, port, ssl.create_default_context(cadata=ca)


async def _ask(session: aiohttp.ClientSession, url: str, count: int) -> tuple[list[float], int]:
    """Milliseconds of each answer, and how many carried a patch."""
    bodies = iter([_review(at) for at in range(count)])
    taken_ms: list[float] = []
    patched = 0

    async def one_connection() -> None:
        nonlocal patched
        for body in bodies:
            since = perf_counter()
            async with session.post(url, data=body, headers={"content-type": "application/json"}) as answer:
                text = await answer.read()
            taken_ms.append((perf_counter() - since) * 1000)
            patched += b"JSONPatch" in text

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_connection())
    return taken_ms, patched


def _review(at: int) -> bytes:
    pod = manifest(SHAPES[at % len(SHAPES)], f"pod-{at}")
    request: dict[str, Any] = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{at:012d}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": NAMESPACE,
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    environment: list[dict[str, str]] = []
    pod["spec"]["containers"][0]["env"] = environment
    while len(json.dumps(review)) < REVIEW_BYTES:
        environment.append({"name": f"SETTING_{len(environment)}", "value": "a value of usual length"})
    return json.dumps(review).encode()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
