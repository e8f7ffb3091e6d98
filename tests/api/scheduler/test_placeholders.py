"""Placeholders on a real API server, with the rights and policies of their component.

There is no autoscaler here.
"""

from typing import Any

import pytest

from sublet.cli.explain import explanation
from sublet.contract import keys
from tests.api.scheduler.stage import Json, pods_path
from tests.api.scheduler.team import Team, gates
from tests.api.verdicts import assert_denied_by
from tests.builders import container, pod
from tests.integration.schedulerstage import until

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

HERE = pods_path(keys.PLACEHOLDER_NAMESPACE)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


async def placeholders(on: Team) -> list[Json]:
    """Those that stand for pods of this test."""
    listed = (await on.stage.plane.call("GET", HERE)).body["items"]
    return [one for one in listed if f"{on.name}/" in one["metadata"]["annotations"][keys.STANDS_FOR]]


async def stands_for_one(on: Team) -> Json:
    async def one() -> bool:
        return len(await placeholders(on)) == 1

    await until(one, within_s=15)
    [found] = await placeholders(on)
    return found


async def none_is_left(on: Team) -> None:
    async def none() -> bool:
        return not await placeholders(on)

    await until(none, within_s=15)


async def held_for_want_of_a_card(on: Team, **spec: Any) -> Json:
    """A pod that waits on a full node."""
    await on.add_node(1)
    await on.create(pod("first", container(gpu=1)))
    await on.released("first")
    return await on.create(pod("held", container(gpu=1, cpu=2, memory="1Gi"), **spec))


async def test_a_placeholder_asks_for_what_the_waiting_pod_asks_and_is_not_held(on: Team) -> None:
    held = await held_for_want_of_a_card(on, tolerations=[{"key": "team", "operator": "Exists"}])
    found = await stands_for_one(on)
    spec = found["spec"]
    assert spec["containers"][0]["resources"] == {
        "limits": {keys.GPU: "1"},
        "requests": {keys.GPU: "1", "cpu": "2", "memory": "1Gi"},
    }
    assert spec["priority"] == -10
    assert gates(found) == []
    assert keys.CLAIMED_LABEL not in found["metadata"]["labels"]
    assert keys.DECISION not in found["metadata"]["annotations"]
    keys_tolerated = {one.get("key") for one in spec["tolerations"]}
    assert {"team", "nvidia.com/gpu"} <= keys_tolerated
    assert len(spec["affinity"]["podAntiAffinity"][REQUIRED]) == 2
    told = explanation(held, managed=False, placeholders=[found])
    assert told["placeholder"]["name"] == f"{keys.PLACEHOLDER_NAMESPACE}/{found['metadata']['name']}"


async def test_it_goes_when_room_appears(on: Team) -> None:
    await held_for_want_of_a_card(on)
    await stands_for_one(on)
    await on.add_node(1)
    await on.released("held")
    await none_is_left(on)


async def test_it_goes_with_the_pod_it_stands_for(on: Team) -> None:
    await held_for_want_of_a_card(on)
    await stands_for_one(on)
    await on.delete("held")
    await none_is_left(on)


async def test_one_that_has_a_node_takes_nothing_there_and_leaves_before_a_pod_comes(on: Team) -> None:
    await held_for_want_of_a_card(on)
    found = await stands_for_one(on)
    node = await on.add_node(0, totals=False)
    name = found["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    assert (await on.stage.plane.call("POST", f"{HERE}/{name}/binding", body)).ok
    await on.add_node(1)
    await on.released("held")
    await none_is_left(on)


async def test_a_new_scheduler_knows_it_again(on: Team) -> None:
    await held_for_want_of_a_card(on)
    await stands_for_one(on)
    await on.stage.plane.run.kill("sublet-scheduler")
    on.stage.start_scheduler()
    await on.stage.ready()
    await on.delete("held")
    await none_is_left(on)


async def test_nobody_else_makes_pods_there(on: Team) -> None:
    await held_for_want_of_a_card(on)
    found = await stands_for_one(on)
    meta = {"name": "mine", "labels": found["metadata"]["labels"]}
    spec = {key: value for key, value in found["spec"].items() if key not in ("priority", "preemptionPolicy")}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    assert_denied_by("sublet-placeholders", await on.stage.plane.call("POST", HERE, body))
