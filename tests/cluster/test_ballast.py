"""CPU that is kept for idle cards, with a real kube-scheduler and a real kubelet that resizes in place."""

from collections.abc import AsyncIterator

import pytest

from sublet.contract import keys
from sublet.contract.quantity import cpu_milli
from tests.api.pods import MERGE
from tests.cluster.proofs import proves
from tests.cluster.stage import CARDS_A_NODE, Json, Namespace, container, pod
from tests.lab.node import Node
from tests.lab.programs import LabError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

A_CARD_MILLI = 300


@pytest.fixture(params=[0, 1], ids=["newest kubelet", "oldest kubelet"])
async def node(place: Namespace, request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """A node of the pool whose idle cards have CPU kept for them."""
    found = place.stage.nodes[request.param]
    await label(place, found, "cpu-for-cards")
    yield found
    await label(place, found, None)

    async def none() -> bool:
        return await ballast(place, found) is None

    await place.stage.until("no ballast", none)


async def label(place: Namespace, node: Node, value: str | None) -> None:
    body = {"metadata": {"labels": {"ratio": value}}}
    path = f"/api/v1/nodes/{node.name}"
    assert (await place.stage.plane.call("PATCH", path, body, content_type=MERGE)).ok


async def ballast(place: Namespace, node: Node) -> Json | None:
    path = f"/api/v1/namespaces/{keys.BALLAST_NAMESPACE}/pods/ballast-{node.name}"
    answer = await place.stage.plane.call("GET", path)
    return answer.body if answer.ok else None


async def keeps(place: Namespace, node: Node, milli: int) -> Json:
    """The ballast pod, once the kubelet has so much CPU in force for it."""

    async def so_much() -> bool:
        found = await ballast(place, node) or {}
        statuses = found.get("status", {}).get("containerStatuses", ())
        return any(
            cpu_milli((one.get("resources") or {}).get("requests") or {}) == milli
            and cpu_milli(one.get("allocatedResources") or {}) == milli
            for one in statuses
        )

    try:
        await place.stage.until(f"ballast of {milli}m", so_much, within_s=60)
    except LabError as error:
        raise LabError(f"{error}\n{await ballast(place, node)}") from None
    found = await ballast(place, node)
    assert found is not None
    return found


async def is_unschedulable(place: Namespace, name: str) -> bool:
    conditions = (await place.get(name) or {}).get("status", {}).get("conditions", ())
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


async def test_pods_without_cards_leave_idle_cards_their_cpu_and_pods_with_cards_get_it(
    place: Namespace, node: Node
) -> None:
    full = CARDS_A_NODE * A_CARD_MILLI
    before = await keeps(place, node, full)
    body = (await place.stage.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
    all_but = cpu_milli(body["status"]["allocatable"]) - full
    greedy = container(command="exec sleep 3600", cpu=f"{all_but + A_CARD_MILLI + 100}m")
    await place.create(pod("greedy", greedy, node=node))
    await place.stage.until("greedy finds no room", lambda: is_unschedulable(place, "greedy"))

    await place.create(pod("trained", container(gpu=1, cpu=f"{A_CARD_MILLI}m"), node=node))
    assert len(await proves(place, "trained")) == 1
    after = await keeps(place, node, full - A_CARD_MILLI)
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "resized, not evicted for the greedy pod"
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert await is_unschedulable(place, "greedy")

    await place.delete("trained")
    await keeps(place, node, full)
    await label(place, node, None)
    await place.running("greedy")
