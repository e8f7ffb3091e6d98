"""Containers and pods that the node itself ends: out of memory, evicted, gone with a reboot."""

from collections.abc import AsyncIterator

import pytest

from sublet.contract import keys
from tests.cluster.proofs import cgroups_of, proves
from tests.cluster.stage import CARDS_A_NODE, Namespace, Stage, agent_name, container, pod
from tests.lab.node import Node

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

STATE = {"name": "state", "mountPath": "/state"}
OUT_OF_MEMORY_ONCE = (
    "if [ -e /state/card ]; then exec sleep 3600; fi; "
    f"echo ${keys.ENV_NVIDIA_VISIBLE} > /state/card; exec tail /dev/zero"
)
TOO_MUCH = "head -c 8000000 /dev/zero > /much; exec sleep 3600"


async def test_a_container_that_ran_out_of_memory_restarts_on_its_card(place: Namespace) -> None:
    main = container("main", OUT_OF_MEMORY_ONCE, gpu_memory=1024, memory="64Mi")
    volumes = [{"name": "state", "emptyDir": {}}]
    await place.create(pod("hungry", {**main, "volumeMounts": [STATE]}, volumes=volumes))

    async def restarted() -> bool:
        return await place.restarts("hungry") == 1

    await place.stage.until("hungry was restarted", restarted)
    cards = await proves(place, "hungry")
    found = await place.running("hungry")
    [status] = found["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
    first = await place.stage.plane.kubectl("-n", place.name, "exec", "hungry", "--", "cat", "/state/card")
    assert first.split() == cards


async def test_a_pod_that_the_kubelet_evicts_leaves_its_cards_when_nothing_of_it_runs(
    stage: Stage, place: Namespace
) -> None:
    node = stage.nodes[0]
    limits = {"gpu": CARDS_A_NODE, "ephemeral-storage": "1Mi"}
    await place.create(pod("full", container("main", TOO_MUCH, **limits), node=node))
    found = await place.running("full")
    await place.create(pod("next", container(gpu=CARDS_A_NODE), node=node))

    async def released() -> bool:
        gates = ((await place.get("next")) or {})["spec"].get("schedulingGates", ())
        return not gates

    await stage.until("next is released", released)
    assert not cgroups_of(found["metadata"]["uid"])
    evicted = await place.get("full")
    assert evicted is not None
    assert (evicted["status"]["phase"], evicted["status"]["reason"]) == ("Failed", "Evicted")
    await proves(place, "next")


@pytest.fixture
async def rebooting(stage: Stage) -> AsyncIterator[Node]:
    """A node whose agent starts after its kubelet, as on every boot."""
    node = stage.nodes[0]
    yield node
    if not stage.plane.run.alive(agent_name(node)):
        stage.start_agent(node)
        await stage.ready(agent_name(node))


async def test_a_pod_that_goes_down_with_its_node_leaves_its_cards_to_its_successor(
    stage: Stage, place: Namespace, rebooting: Node
) -> None:
    """The kubelet cannot start it again: nobody serves its slot yet when it looks."""
    template = pod("whole", container(gpu=CARDS_A_NODE), node=rebooting)
    labels = {"app": "whole"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
    }
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "whole"}, "spec": spec}
    sets = f"/apis/apps/v1/namespaces/{place.name}/replicasets"
    await stage.create(sets, body)
    first = await running_pod(place)
    await proves(place, first)
    await stage.stop(agent_name(rebooting))
    await rebooting.reboot()
    stage.start_agent(rebooting)
    second = await running_pod(place, but=first)
    assert len(await proves(place, second)) == CARDS_A_NODE
    failed = await place.get(first)
    assert failed is None or failed["status"]["reason"] == "UnexpectedAdmissionError"
    await stage.plane.call("DELETE", f"{sets}/whole")


async def running_pod(place: Namespace, *, but: str = "") -> str:
    """The name of the pod that runs, another one than `but`."""
    names: list[str] = []

    async def one() -> bool:
        items = (await place.stage.plane.call("GET", place.path)).body["items"]
        names[:] = [
            item["metadata"]["name"]
            for item in items
            if item["metadata"]["name"] != but and item["status"]["phase"] == "Running"
        ]
        return len(names) == 1

    await place.stage.until("the pod runs", one, within_s=60)
    return names[0]
