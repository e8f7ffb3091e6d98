"""Another device plugin of `nvidia.com/gpu` on a real kubelet: Sublet keeps off, then takes over."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sublet.cli.migrate.live import read_cluster
from sublet.cli.migrate.report import document, report
from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.kube.access import Access
from sublet.kube.client import open_client
from tests.cluster import foreignplugin
from tests.cluster.proofs import proves
from tests.cluster.stage import CARD_MIB, CARDS_A_NODE, Namespace, Stage, agent_name, container, pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PLUGIN = "foreign-plugin"
DEVICES = 2


async def shown(stage: Stage) -> dict[str, int]:
    """Capacity of the first node, of resources that count cards."""
    body = (await stage.plane.call("GET", f"/api/v1/nodes/{stage.nodes[0].name}")).body
    capacity: dict[str, Any] = body["status"]["capacity"]
    return {
        key: int(value) for key, value in capacity.items() if key.startswith(("nvidia.com", "sublet.dev"))
    }


async def serving(stage: Stage) -> list[dict[str, Any]]:
    """What `sublet migrate` tells of the first node."""
    access = Access(url=stage.plane.url, tls=stage.plane.ssl_context())
    async with open_client(access) as kube:
        told = document(report(await read_cluster(kube), Options()))
    return [one for one in told["components"] if stage.nodes[0].name in one["nodes"]]


@pytest.fixture
async def node_of_another(stage: Stage) -> AsyncIterator[None]:
    """The first node without Sublet's agent, and with the other plugin."""
    node = stage.nodes[0]
    await stage.stop(agent_name(node))

    async def left() -> bool:
        body = (await stage.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
        return (
            keys.GPU_MEMORY not in await shown(stage) and keys.CARDS_LABEL not in body["metadata"]["labels"]
        )

    await stage.until("our totals and our label are taken away", left)
    command: list[str | Path] = [sys.executable, Path(foreignplugin.__file__)]
    folder = Path("/var/lib/kubelet/device-plugins")
    stage.plane.run.start(PLUGIN, node.on_node(*command, folder, keys.NVIDIA_GPU, str(DEVICES)))

    async def serves() -> bool:
        return (await shown(stage)).get(keys.NVIDIA_GPU) == DEVICES

    await stage.until("the other plugin's devices are shown", serves)
    yield
    if stage.plane.run.alive(PLUGIN):
        await stage.stop(PLUGIN)


@pytest.mark.usefixtures("node_of_another")
async def test_a_node_of_another_plugin_is_left_alone_and_taken_over_when_that_is_gone(
    stage: Stage, place: Namespace
) -> None:
    node = stage.nodes[0]
    stage.start_agent(node)
    await stage.ready(agent_name(node))
    await place.create(pod("share", container(gpu_memory=1024), node=node))
    await place.waits("share", "ForeignPlugin")
    before = await shown(stage)
    assert before[keys.NVIDIA_GPU] == DEVICES
    assert keys.GPU_MEMORY not in before
    [total] = await serving(stage)
    assert (total["system"], total["servesTwice"]) == (f"{keys.NVIDIA_GPU}={DEVICES}", True)

    await stage.stop(PLUGIN)
    # the kubelet would wait for it for five minutes
    await node.stop_kubelet()
    await node.start_kubelet()
    await proves(place, "share")
    after = await shown(stage)
    assert after[keys.GPU_MEMORY] == CARDS_A_NODE * CARD_MIB
    assert await serving(stage) == []
