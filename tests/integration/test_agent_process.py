"""The agent as the process that an image starts, on a real nats-server."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest_asyncio

from sublet.bus.jetstream import NatsBus, open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.port import Upserted
from sublet.contract import keys, subjects
from sublet.demo.natsserver import NatsServer
from sublet.model.placement import LedgerMeta
from sublet.runtime.settings import env_name
from sublet.wire.ledger import ledger_meta_out, node_ledger_out
from sublet.wire.node import inventory_in
from tests.integration.agentstage import CARDS, NODE, Stage, agent_stage, grant, pod, uid_of

pytest_plugins = ["tests.natsserver"]

META = LedgerMeta(epoch="e1", complete=True, term=1)


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    async with agent_stage() as made:
        yield made


def environment(stage: Stage, url: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SUBLET_")}
    settings = stage.settings()
    chosen = {
        field: str(getattr(settings, field))
        for field in (
            *("node", "cards", "inventory", "signals", "kubelet_dir", "cdi_dir", "state_dir"),
            *("cgroup_root", "boot_id_file", "dev_root", "probe_host", "probe_port", "grant_wait_s"),
        )
    }
    chosen |= {"nats_url": url, "heartbeat_s": "0.2", "poll_s": "0.5"}
    return plain | {env_name(field): value for field, value in chosen.items()}


@asynccontextmanager
async def agent_process(
    stage: Stage, url: str, *, python: str = sys.executable
) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        python, "-m", "sublet_agent", env=environment(stage, url), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def registered(bus: NatsBus) -> None:
    async with asyncio.timeout(8):
        async for change in bus.follow(subjects.INVENTORY_BUCKET, subjects.inventory_key(NODE)):
            if isinstance(change, Upserted) and inventory_in(change.entry.value).registered:
                return


async def test_the_process_serves_a_pod_through_a_real_bus_and_stops_cleanly(
    stage: Stage, nats_server: NatsServer
) -> None:
    async with open_bus(nats_server.url, name="test", layout=LAYOUT) as bus:
        entry = stage.ledger.entry
        await bus.put(
            subjects.LEDGER_BUCKET,
            subjects.LEDGER_META_KEY,
            ledger_meta_out(META),
            within_s=5,
        )
        async with agent_process(stage, nats_server.url) as child:
            await registered(bus)
            granted = node_ledger_out(replace(entry, grants=grant("p", CARDS[0])))
            await bus.put(subjects.LEDGER_BUCKET, subjects.ledger_key(NODE), granted, within_s=5)
            await stage.kubelet.until(lambda _: stage.allocatable > 0)  # the first list comes after the word
            await stage.kubelet.run(pod("p"))
            assert stage.sees("p")[keys.ENV_NVIDIA_VISIBLE] == CARDS[0]

            await nats_server.kill()
            assert (await stage.kubelet.start_container(uid_of("p"), "main")).starts == 2

            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(8):
                assert await child.wait() == 0
            await stage.kubelet.until(lambda _: stage.allocatable == 0)


async def test_a_setting_that_nobody_knows_ends_the_process_with_2(stage: Stage) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sublet_agent"),
        env=environment(stage, "nats://127.0.0.1:1") | {"SUBLET_TYPO": "1"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await asyncio.wait_for(child.communicate(), 8)
    assert child.returncode == 2
    assert b"SUBLET_TYPO" in said


async def test_a_path_that_no_socket_can_have_is_named_with_its_length_and_the_way_out(
    stage: Stage, tmp_path: Path
) -> None:
    folder = tmp_path / ("long" * 25)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sublet_agent"),
        env=environment(stage, "nats://127.0.0.1:1") | {"SUBLET_KUBELET_DIR": str(folder)},
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    _, told = await child.communicate()
    assert child.returncode == 2
    socket = folder / "pod-resources" / "kubelet.sock"
    expected = f"the socket {socket} would have a path of {len(str(socket))} bytes, and Linux takes 107"
    assert expected in told.decode()
    assert "Set SUBLET_KUBELET_DIR to a shorter path" in told.decode()
    assert "Traceback" not in told.decode()
