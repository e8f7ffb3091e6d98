"""A DaemonSet's pod that names cards in a variable alone, on its way through the webhook to its card."""

from pathlib import Path
from typing import Any

import yaml

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import keys
from sublet.kube.kind import MUTATING_WEBHOOKS
from sublet.kube.port import Json, MergePatch
from tests.builders import cards, pod
from tests.integration.schedulerstage import Stage, cards_of, stage

COMPONENT = Path(__file__).parents[2] / "deploy/kustomize/components/daemonset-cards/kustomization.yaml"
COMPONENT_PATCH = yaml.safe_load(yaml.safe_load(COMPONENT.read_text())["patches"][0]["patch"])


async def install(on: Stage) -> None:
    """The component's entry of the webhook; this API server evaluates no conditions, so all pods go there."""
    [operation] = COMPONENT_PATCH
    hook: dict[str, Any] = {**operation["value"], "matchConditions": []}
    hook["namespaceSelector"] = {"matchExpressions": hook["namespaceSelector"]["matchExpressions"][1:]}
    configuration = await on.kube.get(MUTATING_WEBHOOKS, "sublet")
    change = {"webhooks": [*configuration["webhooks"], hook]}
    await on.kube.patch(MUTATING_WEBHOOKS, "sublet", MergePatch(change))


def made_for(node: str) -> Json:
    env = [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]
    manifest = pod(
        f"agent-{node}",
        {"name": "main", "image": "app", "env": env},
        namespace="given",
        owner=("DaemonSet", "ds-1"),
    )
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    manifest["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    return manifest


async def test_it_gets_the_card_of_a_node_that_has_one_and_is_left_alone_elsewhere() -> None:
    async with stage(MemoryBus(LAYOUT)) as on:
        await on.add_namespace("given", manage="true")
        await on.add_node("one", *cards("one", 1))
        await on.add_node("two", *cards("two", 2))
        await install(on)
        async with on.scheduler(daemonset_cards=True):
            for name in ("one", "two"):
                await on.until_totals(name)
            created = await on.create(made_for("one"))
            released = await on.released("agent-one", "given")
            other = await on.create(made_for("two"))
    assert keys.GATE in [gate["name"] for gate in created["spec"]["schedulingGates"]]
    assert cards_of(released) == {"main": ("one-0",)}
    [main] = released["spec"]["containers"]
    assert main["resources"]["limits"] == {keys.NVIDIA_GPU: "1", keys.SLOT: "1"}
    assert [one["name"] for one in main["env"]] == ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"]
    assert not other["spec"].get("schedulingGates")
    assert "limits" not in other["spec"]["containers"][0].get("resources", {})
