"""Scheduler and healthd change of a node what is theirs, and nothing else."""

from collections.abc import AsyncIterator

import jsonpatch
import pytest
import yaml

from sublet.contract import keys
from tests.api.deployment import AGENT, HEALTHD, SCHEDULER, apply
from tests.api.pods import ADMIN, MERGE, STRATEGIC
from tests.api.verdicts import assert_allowed, assert_denied_by
from tests.lab.controlplane import ControlPlane, User
from tests.manifests.rendering import KUSTOMIZE, reviewed

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

NODE = "/api/v1/nodes/written-to"
TOTALS = {"status": {"capacity": {keys.GPU: "32"}, "allocatable": {keys.GPU: "32"}}}
HEALTH = {"status": {"conditions": [{"type": keys.NODE_CONDITION, "status": "False", "reason": "x"}]}}
READY = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}}
CPU = {"status": {"capacity": {"cpu": "999"}}}
MANY = {"status": {"capacity": {"nvidia.com/mig-1g.5gb": "2", keys.VCUDA_CORE: "200"}}}
CARDS = {"metadata": {"labels": {keys.CARDS_LABEL: "2"}}}
REPORT = {"metadata": {"annotations": {keys.HEALTH_ANNOTATION: "{}"}}}
ZONE = {"metadata": {"labels": {"topology.kubernetes.io/zone": "mine"}}}
NOTE = {"metadata": {"annotations": {"note": "mine"}}}
GFD = {"metadata": {"labels": {keys.GFD_PRODUCT: "NVIDIA-L4", "nvidia.com/mig-1g.5gb.count": "2"}}}
UNHEALTHY = {"metadata": {"annotations": {keys.VOLCANO_UNHEALTHY: "0"}}}
TAINT = {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}


@pytest.fixture
async def node(installed: ControlPlane) -> AsyncIterator[ControlPlane]:
    wanted = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "written-to"},
        "status": {"capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert_allowed(await installed.call("POST", "/api/v1/nodes", wanted))
    yield installed
    await installed.call("DELETE", NODE)


@pytest.mark.parametrize(
    ("who", "path", "change"),
    [
        (SCHEDULER, f"{NODE}/status", TOTALS),
        (SCHEDULER, f"{NODE}/status", MANY),
        (SCHEDULER, NODE, CARDS),
        (HEALTHD, f"{NODE}/status", HEALTH),
        (HEALTHD, NODE, REPORT),
        (ADMIN, f"{NODE}/status", READY),
        (ADMIN, NODE, TAINT),
        (ADMIN, NODE, ZONE),
    ],
)
async def test_what_is_theirs(node: ControlPlane, who: User, path: str, change: object) -> None:
    assert_allowed(await node.call("PATCH", path, change, as_=who, content_type=STRATEGIC))


@pytest.mark.parametrize(
    ("who", "path", "change"),
    [
        (HEALTHD, f"{NODE}/status", MANY),
        (SCHEDULER, f"{NODE}/status", HEALTH),
        (SCHEDULER, f"{NODE}/status", READY),
        (SCHEDULER, f"{NODE}/status", CPU),
        (SCHEDULER, NODE, TAINT),
        (SCHEDULER, NODE, ZONE),
        (SCHEDULER, NODE, NOTE),
        (HEALTHD, f"{NODE}/status", TOTALS),
        (HEALTHD, f"{NODE}/status", READY),
        (HEALTHD, f"{NODE}/status", CPU),
        (HEALTHD, NODE, TAINT),
        (HEALTHD, NODE, ZONE),
        (HEALTHD, NODE, NOTE),
        (HEALTHD, NODE, GFD),
        (HEALTHD, NODE, UNHEALTHY),
        (SCHEDULER, NODE, GFD),
    ],
)
async def test_what_is_not(node: ControlPlane, who: User, path: str, change: object) -> None:
    answer = await node.call("PATCH", path, change, as_=who, content_type=STRATEGIC)
    assert_denied_by("sublet-node-writes", answer)


GONE = {
    "metadata": {
        "labels": {keys.GFD_PRODUCT: None, "nvidia.com/mig-1g.5gb.count": None},
        "annotations": {keys.VOLCANO_UNHEALTHY: None},
    }
}


async def test_marks_of_other_systems_may_always_be_taken_away_and_only_by_who_writes_them(
    node: ControlPlane,
) -> None:
    for change in (GFD, UNHEALTHY):
        assert_allowed(await node.call("PATCH", NODE, change, content_type=STRATEGIC))
    assert_denied_by(
        "sublet-node-writes", await node.call("PATCH", NODE, GONE, as_=SCHEDULER, content_type=MERGE)
    )
    assert_allowed(await node.call("PATCH", NODE, GONE, as_=HEALTHD, content_type=MERGE))


@pytest.mark.parametrize(
    ("component", "change", "other"), [("card-labels", GFD, UNHEALTHY), ("health-marks", UNHEALTHY, GFD)]
)
async def test_a_component_lets_healthd_write_its_marks_and_no_others(
    node: ControlPlane, component: str, change: object, other: object
) -> None:
    [policy] = [
        one
        for one in reviewed("default")
        if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"] == "sublet-node-writes"
    ]
    folder = KUSTOMIZE / "components" / component
    [patch] = yaml.safe_load((folder / "kustomization.yaml").read_text())["patches"]
    widened = jsonpatch.apply_patch(policy, yaml.safe_load(patch["patch"]))
    await apply(node, [widened])
    tried = f"{NODE}?dryRun=All"

    async def allowed() -> bool:
        return (await node.call("PATCH", tried, change, as_=HEALTHD, content_type=STRATEGIC)).ok

    async def denied() -> bool:
        return not await allowed()

    try:
        await node.run.until("policy in force", allowed, within_s=30, of="apiserver")
        for who, what in ((HEALTHD, other), (HEALTHD, NOTE), (SCHEDULER, change), (SCHEDULER, ZONE)):
            answer = await node.call("PATCH", tried, what, as_=who, content_type=STRATEGIC)
            assert_denied_by("sublet-node-writes", answer)
    finally:
        await apply(node, [policy])
        await node.run.until("policy in force", denied, within_s=30, of="apiserver")


async def test_an_agent_touches_no_node(node: ControlPlane) -> None:
    for change in (CARDS, REPORT):
        assert (await node.call("PATCH", NODE, change, as_=AGENT, content_type=STRATEGIC)).status == 403
