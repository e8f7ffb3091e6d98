"""What the components of healthd do on a real cluster, with the rights and settings that they bring."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.api.deployment import apply
from tests.cluster.proofs import decided
from tests.cluster.stage import CARDS_A_NODE, Namespace, Stage, card_uuid, container, pod
from tests.lab.node import Node
from tests.manifests.rendering import reviewed, with_components

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

REPLICAS = ("sublet-healthd-a", "sublet-healthd-b")
COMPONENTS = ("ha", "evict", "device-taints", "health-marks")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/sublet-system/leases/sublet-healthd"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
DRIVER = "cards.example.dev"
POLICY = "ValidatingAdmissionPolicy"
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "MutatingWebhookConfiguration")


@pytest.fixture(scope="module")
def judges(stage: Stage) -> Iterator[Stage]:
    """Two replicas of healthd instead of the one, all components in force."""
    asyncio.run(_bring_in(stage))
    yield stage
    asyncio.run(_take_out(stage))


async def _bring_in(stage: Stage) -> None:
    objects = with_components(*COMPONENTS)
    await apply(stage.plane, [one for one in objects if one["kind"] not in WORKLOADS])
    [settings] = [one["data"] for one in objects if one["metadata"]["name"].startswith("healthd-defaults")]
    await stage.stop("sublet-healthd")
    for name in REPLICAS:
        stage.start_healthd(name, **settings)
    for name in REPLICAS:
        await stage.ready(name)


async def _take_out(stage: Stage) -> None:
    for name in REPLICAS:
        await stage.stop(name)
    await apply(stage.plane, [one for one in reviewed("default") if one["kind"] == POLICY])
    stage.start_healthd()
    await stage.ready("sublet-healthd")


@pytest.fixture
async def node(judges: Stage) -> AsyncIterator[Node]:
    """A node whose cards are all good before and after."""
    node = judges.nodes[1]
    yield node
    for at in range(CARDS_A_NODE):
        judges.signal(node, kind="reset", card=card_uuid(node, at))

    async def healed() -> bool:
        return await judges.slots(node) == CARDS_A_NODE * 16

    await judges.until(f"the cards of {node.name} are back", healed)


def ill(stage: Stage, node: Node, *cards: str) -> None:
    for card in cards:
        stage.signal(node, kind="xid", card=card, code=48, source="nvml")


def replica_set(name: str, node: Node) -> dict[str, Any]:
    template = pod(name, container(gpu=1), node=node)
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


async def pod_of(place: Namespace, name: str) -> str:
    """The name of the one pod of a ReplicaSet that is not being deleted."""
    found: list[str] = []

    async def one() -> bool:
        listed = (await place.stage.plane.call("GET", f"{place.path}?labelSelector=app%3D{name}")).body
        found[:] = [
            item["metadata"]["name"]
            for item in listed["items"]
            if "deletionTimestamp" not in item["metadata"]
        ]
        return len(found) == 1

    await place.stage.until(f"one pod of {name}", one)
    return found[0]


async def card_of(place: Namespace, name: str) -> str:
    [grant] = decided(await place.running(name))["main"]
    return str(grant["card"])


async def test_pods_are_evicted_from_a_condemned_card_as_far_as_their_budget_lets_them(
    judges: Stage, place: Namespace, node: Node
) -> None:
    for name in ("guarded", "free"):
        await judges.create(f"/apis/apps/v1/namespaces/{place.name}/replicasets", replica_set(name, node))
    budgets = f"/apis/policy/v1/namespaces/{place.name}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    await judges.create(budgets, {"metadata": {"name": "guard"}, "spec": spec})
    before = {name: await pod_of(place, name) for name in ("guarded", "free")}
    cards = {name: await card_of(place, one) for name, one in before.items()}
    ill(judges, node, *cards.values())
    await place.gone(before["free"], within_s=30)
    assert await card_of(place, await pod_of(place, "free")) not in cards.values()
    assert await pod_of(place, "guarded") == before["guarded"]
    await judges.plane.call("DELETE", f"{budgets}/guard")
    await place.gone(before["guarded"], within_s=30)
    assert await card_of(place, await pod_of(place, "guarded")) not in cards.values()
    for name in before:
        await judges.plane.call("DELETE", f"/apis/apps/v1/namespaces/{place.name}/replicasets/{name}")


@pytest.fixture
async def devices(judges: Stage) -> AsyncIterator[None]:
    """A DRA driver lists the second node's cards too."""
    node = judges.nodes[1]
    listed = [
        {"name": f"card-{at}", "attributes": {"uuid": {"string": card_uuid(node, at)}}}
        for at in range(CARDS_A_NODE)
    ]
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node.name, "pool": pool, "devices": listed}
    await judges.create(SLICES, {"metadata": {"name": "lab-cards"}, "spec": spec})
    yield
    await judges.plane.call("DELETE", f"{SLICES}/lab-cards")


async def shown(stage: Stage, node: Node) -> tuple[list[str], str, str]:
    """The devices that rules name, and what gpushare and Volcano are told."""
    rules = (await stage.plane.call("GET", RULES)).body["items"]
    named = sorted(rule["spec"]["deviceSelector"]["device"] for rule in rules)
    told = await stage.plane.call(
        "GET", f"/api/v1/namespaces/kube-system/configmaps/unhealthy-gpu-{node.name}"
    )
    found = (await stage.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
    annotated = found["metadata"].get("annotations", {}).get("volcano.sh/gpu-unhealthy-ids", "")
    return named, told.body["data"]["gpus"] if told.ok else "", annotated


async def become(stage: Stage, node: Node, wanted: tuple[list[str], str, str]) -> None:
    async def so() -> bool:
        return await shown(stage, node) == wanted

    await stage.until(f"rules and marks say {wanted}", so)


@pytest.mark.usefixtures("devices")
async def test_rules_and_marks_come_and_go_with_what_a_card_is_judged_and_another_replica_takes_over(
    judges: Stage, node: Node
) -> None:
    ill(judges, node, card_uuid(node, 1))
    await become(judges, node, (["card-1"], "1", "1"))
    [rule] = (await judges.plane.call("GET", RULES)).body["items"]
    taint = rule["spec"]["taint"]
    assert (taint["key"], taint["effect"]) == ("sublet.dev/health", "None")
    assert taint["value"] in ("condemned", "quarantined")
    holder = await leader(judges)
    await judges.kill(holder)
    judges.signal(node, kind="reset", card=card_uuid(node, 1))
    await become(judges, node, ([], "", ""))
    assert await leader(judges) != holder


async def leader(stage: Stage) -> str:
    """The replica that judges."""
    for name in REPLICAS:
        log = stage.plane.run.log_path(name)
        if stage.plane.run.alive(name) and "verdicts.restored" in log.read_text():
            return name
    raise AssertionError((await stage.plane.call("GET", LEASE)).text)
