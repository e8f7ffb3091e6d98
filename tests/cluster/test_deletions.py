"""Pods that go before, while and after they hold cards: each card is free exactly when nothing can use it."""

import asyncio
import random
from typing import Any

import pytest

from sublet.contract import keys
from tests.cluster.proofs import cgroups_of, proves
from tests.cluster.stage import CARDS_A_NODE, Namespace, Stage, container, pod
from tests.lab.programs import LabError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

KEEP = "example.dev/keep"
SLOW_TO_END = "trap 'sleep 3; exit 0' TERM; while true; do sleep 0.1; done"


def whole_node(name: str, stage: Stage, command: str = "exec sleep 3600", **spec: Any) -> dict[str, Any]:
    return pod(name, container("main", command, gpu=CARDS_A_NODE), node=stage.nodes[0], **spec)


def kept(body: dict[str, Any]) -> dict[str, Any]:
    """With a finalizer, which keeps its object after it was deleted."""
    return body | {"metadata": body["metadata"] | {"finalizers": [KEEP]}}


async def let_go(place: Namespace, name: str) -> None:
    patch = {"metadata": {"finalizers": None}}
    path = f"{place.path}/{name}"
    await place.stage.plane.call("PATCH", path, patch, content_type="application/merge-patch+json")


async def holders(stage: Stage) -> set[str]:
    """The pods which the ledger names on the first node."""
    entry = await stage.ledger(stage.nodes[0])
    return {str(one.pod.name) for one in entry.grants} if entry else set()


async def nobody_holds(stage: Stage) -> None:
    async def free() -> bool:
        return not await holders(stage)

    await stage.until("the ledger grants nothing", free)


async def test_a_finalizer_keeps_the_object_and_not_the_card(stage: Stage, place: Namespace) -> None:
    """Gated: free at once. Running: not before its last container has ended, and then at once."""
    await place.create(kept(whole_node("runs", stage, SLOW_TO_END, terminationGracePeriodSeconds=20)))
    await proves(place, "runs")
    await place.create(kept(whole_node("gated", stage)))
    await place.waits("gated", "InUse")
    await place.delete("gated")
    await place.create(whole_node("next", stage))
    await place.waits("next", "InUse")

    found = await place.get("runs")
    assert found is not None
    await place.delete("runs", grace_s=20)

    async def released() -> bool:
        return keys.GATE not in gates(await place.get("next"))

    await stage.until("next is released", released)
    assert not cgroups_of(found["metadata"]["uid"])
    await proves(place, "next")
    for name in ("runs", "gated"):
        still = await place.get(name)
        assert still is not None
        assert still["metadata"]["deletionTimestamp"]
        await let_go(place, name)
        await place.gone(name)
    assert await holders(stage) == {"next"}


def gates(found: dict[str, Any] | None) -> list[str]:
    assert found is not None
    return [gate["name"] for gate in found["spec"].get("schedulingGates", ())]


async def test_a_released_pod_that_is_deleted_before_it_has_a_node_is_free_at_once(
    stage: Stage, place: Namespace
) -> None:
    """kube-scheduler cannot place it, so it stays without a node, as a finalizer keeps its object."""
    ports = [{"containerPort": 80, "hostPort": 18_080}]
    await place.create(pod("port", {**container(), "resources": {}, "ports": ports}, node=stage.nodes[0]))
    await place.running("port")
    body = whole_node("unbound", stage)
    body["spec"]["containers"][0]["ports"] = ports
    await place.create(kept(body))

    async def released() -> bool:
        return not gates(await place.get("unbound")) and await holders(stage) == {"unbound"}

    await stage.until("unbound is released", released)
    await place.delete("unbound")
    await place.create(whole_node("next", stage))
    await proves(place, "next")
    assert await place.get("unbound") is not None
    await let_go(place, "unbound")


async def test_pods_that_are_deleted_while_they_are_decided_leave_nothing_in_the_ledger(
    stage: Stage, place: Namespace
) -> None:
    """Some are gated yet, some released, some about to start; half of them have finalizers."""
    dice = random.Random(0)

    async def come_and_go(at: int) -> None:
        name, late_s = f"p{at}", dice.uniform(0, 0.3)
        body = whole_node(name, stage)
        await place.create(kept(body) if at % 2 else body)
        await asyncio.sleep(late_s)
        await place.delete(name)

    for _ in range(2):
        async with asyncio.TaskGroup() as group:
            for at in range(8):
                group.create_task(come_and_go(at))
        await nobody_holds(stage)
        for at in range(8):
            await let_go(place, f"p{at}")
            await place.gone(f"p{at}")
    await place.create(whole_node("after", stage))
    await proves(place, "after")
    assert await holders(stage) == {"after"}


async def test_a_namespace_goes_with_its_gated_and_its_running_pods(stage: Stage, place: Namespace) -> None:
    doomed = await stage.namespace()
    await doomed.create(whole_node("runs", stage))
    await proves(doomed, "runs")
    for at in range(5):
        await doomed.create(whole_node(f"gated-{at}", stage))
    await doomed.waits("gated-4", "InUse")
    await place.create(whole_node("elsewhere", stage))
    await stage.plane.call("DELETE", f"/api/v1/namespaces/{doomed.name}")
    with pytest.raises(LabError, match="being terminated"):
        await doomed.create(whole_node("late", stage))
    await proves(place, "elsewhere")
    assert await holders(stage) == {"elsewhere"}
