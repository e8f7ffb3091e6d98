"""Resident memory: the scheduler's state of a large cluster, and an agent that has nothing to do.

`python -m bench.memory pods` and `shares` are the child processes in which a state is built.
"""

import asyncio
import gc
import subprocess
import sys
import tempfile
import venv
from dataclasses import replace
from pathlib import Path

import sublet_scheduler.app  # what a scheduler has loaded before it knows anything
from sublet_scheduler.core.effects import Effect, ReleasePod, WriteLedger
from sublet_scheduler.core.events import Event, LedgerWritten, PodPatched, PodSeen
from sublet_scheduler.core.facts import PodFacts

from bench.beginning import NOW
from bench.cluster import SHAPES, Cluster, ask_for
from bench.figure import Figure
from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.contract import decision
from sublet.demo.natsserver import NatsServer
from sublet.model.ids import PodRef, PodUid
from sublet.model.placement import Placement
from tests.integration.agentstage import agent_stage
from tests.integration.test_agent_process import agent_process, registered

ROOT = Path(__file__).parent.parent
NODES = 5_000
PODS = 20_000
LARGE_NODES, SHARES = 20_000, 200_000
IDLE_S = 3.0


def measure() -> list[Figure]:
    return [
        Figure(
            what=f"resident memory of a scheduler that knows {NODES:,} nodes × 8 cards and {PODS:,} pods",
            value=_child("pods"),
            unit="MiB",
        ),
        Figure(
            what=f"memory of the cards of {LARGE_NODES:,} nodes × 8, {SHARES:,} shares and rankings of "
            f"{len(SHAPES)} shapes",
            value=_child("shares"),
            unit="MiB",
            aim="≤ 200 MiB",
        ),
        Figure(
            what="resident memory of an idle agent with 4 cards, with what its image holds",
            value=asyncio.run(_idle_agent()),
            unit="MiB",
            aim="≤ 64 MiB",
        ),
    ]


def _child(what: str) -> float:
    child = subprocess.run(
        [sys.executable, "-m", "bench.memory", what], check=True, capture_output=True, text=True, timeout=900
    )
    return float(child.stdout)


def _image_python(folder: Path) -> str:
    """An interpreter that can import what the agent's image holds, and no more."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    for lock in ("build-requirements.txt", "agent/requirements.txt"):
        subprocess.run([*install, "--require-hashes", "-r", ROOT / "services" / lock], check=True)
    subprocess.run([*install, "--no-build-isolation", ROOT], check=True)
    return python


async def _idle_agent() -> float:
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as folder:
        python = await asyncio.to_thread(_image_python, Path(folder) / "venv")
        server = NatsServer(Path(folder) / "nats")
        await server.start()
        try:
            async with (
                agent_stage() as stage,
                open_bus(server.url, name="bench", layout=LAYOUT) as bus,
                agent_process(stage, server.url, python=python) as agent,
            ):
                await registered(bus)
                await asyncio.sleep(IDLE_S)
                return resident_mib(str(agent.pid))
        finally:
            await server.stop()


def resident_mib(pid: str = "self") -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no resident memory")


def _state() -> Cluster:
    cluster = Cluster(NODES, fill=False, looks=NODES)
    for number in range(PODS):
        _create(cluster, number)
    return cluster


def _create(cluster: Cluster, number: int) -> None:
    """One pod from its review to its release."""
    name = f"training-run-{number:05d}"
    ask = ask_for(SHAPES[number % len(SHAPES)], name)
    id_, outcome = cluster.ask(ask)
    assert isinstance(outcome, Placement)
    text = decision.write(id_, outcome, uid=None, key=b"key")
    pod = PodFacts(
        uid=PodUid(f"8d3f3f7e-0000-4000-8000-{number:012d}"),
        ref=PodRef("team", name),
        version=str(number),
        ask=ask,
        gated=True,
        decision=decision.read(text),
        decision_text=text,
        proposed=True,
    )
    events: list[Event] = [PodSeen(pod)]
    while events:
        for effect in cluster.engine.handle(events.pop(0), now=NOW):
            events += _outcome(cluster, pod, effect)


def _outcome(cluster: Cluster, pod: PodFacts, effect: Effect) -> list[Event]:
    if isinstance(effect, WriteLedger):
        return [LedgerWritten(effect.entry.node, cluster.next_revision())]
    if isinstance(effect, ReleasePod):
        text = decision.write(effect.decision, effect.placement, uid=effect.uid, key=b"key")
        released = replace(
            pod, gated=False, signed=True, proposed=False, decision=decision.read(text), decision_text=text
        )
        return [PodPatched(effect.uid, done=True, pod=released)]
    return []


def _shares() -> Cluster:
    cluster = Cluster(LARGE_NODES, fill=False)
    cluster.share(SHARES)
    for limits in SHAPES:
        cluster.ask(ask_for(limits))
    return cluster


if __name__ == "__main__":
    before_mib = resident_mib() if sys.argv[1] == "shares" else 0.0
    known = (_shares() if sys.argv[1] == "shares" else _state(), sublet_scheduler.app)
    gc.collect()
    print(resident_mib() - before_mib)
