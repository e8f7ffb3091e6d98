"""Scheduler and healthd change of a node what is theirs, and nothing else."""

from collections.abc import AsyncIterator

import pytest

from sublet.contract import keys
from tests.api.deployment import AGENT, HEALTHD, SCHEDULER
from tests.api.pods import ADMIN, STRATEGIC
from tests.api.verdicts import assert_allowed, assert_denied_by
from tests.lab.controlplane import ControlPlane, User

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
    ],
)
async def test_what_is_not(node: ControlPlane, who: User, path: str, change: object) -> None:
    answer = await node.call("PATCH", path, change, as_=who, content_type=STRATEGIC)
    assert_denied_by("sublet-node-writes", answer)


async def test_an_agent_touches_no_node(node: ControlPlane) -> None:
    for change in (CARDS, REPORT):
        assert (await node.call("PATCH", NODE, change, as_=AGENT, content_type=STRATEGIC)).status == 403
