"""What is kept for idle cards, on a real API server and with the rights of the component.

Nobody binds and no kubelet runs here: a test does in their place what it needs of them.
"""

from typing import Any

import pytest

from sublet.contract import keys
from tests.api.pods import MERGE
from tests.api.scheduler.stage import BALLAST_IMAGE, Json, pods_path
from tests.api.scheduler.team import Team, gates
from tests.builders import container, pod
from tests.integration.schedulerstage import until

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

FOUR = {"ratio": "four"}


async def ballast(on: Team, node: str) -> Json | None:
    answer = await on.stage.plane.call("GET", f"{pods_path(keys.BALLAST_NAMESPACE)}/ballast-{node}")
    return answer.body if answer.ok else None


def asks(found: Json | None) -> dict[str, str]:
    resources = found["spec"]["containers"][0]["resources"] if found else {}
    return dict(resources.get("requests") or {})


async def asks_for(on: Team, node: str, cpu: str) -> Json:
    """The node's ballast pod, once it asks for so much."""

    async def is_so() -> bool:
        return asks(await ballast(on, node)).get("cpu") == cpu

    await until(is_so, within_s=10)
    found = await ballast(on, node)
    assert found
    return found


async def bind(on: Team, node: str) -> None:
    """The part of kube-scheduler and of the kubelet: the pod runs with what it asks for."""
    found = await ballast(on, node)
    assert found
    path = f"{pods_path(keys.BALLAST_NAMESPACE)}/ballast-{node}"
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"ballast-{node}"}, "target": target}
    assert (await on.stage.plane.call("POST", f"{path}/binding", body)).ok
    await in_force(on, node, asks(found))


async def in_force(on: Team, node: str, requests: dict[str, str]) -> None:
    """The kubelet says what of the ballast pod's requests is in force."""
    status: dict[str, Any] = {
        "name": "ballast",
        "image": BALLAST_IMAGE,
        "imageID": "x",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "allocatedResources": requests,
        "resources": {"requests": requests},
    }
    path = f"{pods_path(keys.BALLAST_NAMESPACE)}/ballast-{node}/status"
    body = {"status": {"phase": "Running", "containerStatuses": [status]}}
    answer = await on.stage.plane.call("PATCH", path, body, content_type=MERGE)
    assert answer.ok, answer.text


async def test_a_ballast_pod_is_admitted_and_belongs_to_its_node(on: Team) -> None:
    node = await on.add_node(2, labels=FOUR)
    found = await asks_for(on, node, "8")
    assert asks(found) == {"cpu": "8", "memory": str(2 * 2**30)}
    [owner] = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Node", node)
    assert found["spec"]["priority"] == 0
    assert found["spec"]["preemptionPolicy"] == "Never"
    assert gates(found) == []


async def test_a_node_outside_the_pool_has_none(on: Team) -> None:
    outside, inside = await on.add_node(1), await on.add_node(1, labels=FOUR)
    await asks_for(on, inside, "4")
    assert await ballast(on, outside) is None


async def test_it_is_resized_in_place_before_a_pod_with_a_card_is_released(on: Team) -> None:
    node = await on.add_node(2, cpu="8", labels=FOUR)
    before = await asks_for(on, node, "8")
    await bind(on, node)
    await on.create(pod("one", container(gpu=1, cpu=4)))
    after = await asks_for(on, node, "4")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert keys.GATE in gates(await on.get("one")), "the kubelet has not made room yet"
    await in_force(on, node, asks(after))
    await on.released("one")


async def test_it_grows_again_when_a_card_is_idle(on: Team) -> None:
    node = await on.add_node(1, labels=FOUR)
    await asks_for(on, node, "4")
    await bind(on, node)
    await on.create(pod("one", container(gpu=1)))
    small = await asks_for(on, node, "1m")
    await in_force(on, node, asks(small))
    await on.released("one")
    await on.delete("one")
    large = await asks_for(on, node, "4")
    assert large["metadata"]["uid"] == small["metadata"]["uid"]


async def test_it_goes_when_its_node_leaves_the_pool(on: Team) -> None:
    node = await on.add_node(1, labels=FOUR)
    await asks_for(on, node, "4")
    path = f"/api/v1/nodes/{node}"
    body = {"metadata": {"labels": {"ratio": None}}}
    assert (await on.stage.plane.call("PATCH", path, body, content_type=MERGE)).ok

    async def is_gone() -> bool:
        return await ballast(on, node) is None

    await until(is_gone, within_s=10)


async def test_a_new_scheduler_knows_it_again(on: Team) -> None:
    node = await on.add_node(2, labels=FOUR)
    before = await asks_for(on, node, "8")
    await bind(on, node)
    await on.stage.plane.run.kill("sublet-scheduler")
    on.stage.start_scheduler()
    await on.stage.ready()
    await on.create(pod("one", container(gpu=1)))
    await on.released("one", within_s=20)
    after = await asks_for(on, node, "4")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
