"""A card is free again on evidence, whatever the API server still shows of the pod."""

import pytest

from sublet.model.placement import GrantState
from tests.api.deployment import JANE, KUBE_SCHEDULER
from tests.api.scheduler.stage import Json
from tests.api.scheduler.team import Team, gates
from tests.api.verdicts import assert_allowed
from tests.builders import container, pod
from tests.integration.schedulerstage import cards_of, uid_of, until

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

A_CARD = container(gpu=1)


async def bound(on: Team, node: str) -> Json:
    """A pod that kube-scheduler has bound to the only node, after the scheduler released it."""
    await on.create(pod("first", A_CARD))
    released = await on.released("first")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "first"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"{on.path('first')}/binding"
    assert_allowed(await on.stage.plane.call("POST", path, body, as_=KUBE_SCHEDULER))
    return released


def status(phase: str, **state: object) -> Json:
    one = {
        "name": "main",
        "image": "app",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
        "containerID": "containerd://1",
    }
    began = "2026-01-01T00:00:00Z"
    return {"status": {"phase": phase, "startTime": began, "containerStatuses": [one]}}


async def test_a_pod_whose_containers_ended_leaves_its_card_at_once(on: Team) -> None:
    node = await on.add_node(1)
    await bound(on, node)
    await on.create(pod("next", A_CARD))
    ended = status("Succeeded", terminated={"exitCode": 0, "reason": "Completed"})
    assert_allowed(await on.patch("first", ended, of="status"))
    assert cards_of(await on.released("next"))["main"] == (f"{node}-0",)


async def test_a_pod_that_is_deleted_while_it_runs_keeps_its_card_until_the_node_says_so(on: Team) -> None:
    node = await on.add_node(1)
    first = await bound(on, node)
    assert_allowed(await on.patch("first", status("Running", running={}), of="status"))
    await on.create(pod("next", A_CARD))
    gone = await on.stage.plane.call("DELETE", on.path("first"), {"gracePeriodSeconds": 0}, as_=JANE)
    assert_allowed(gone)

    async def ending() -> bool:
        grants = (await on.ledger(node)).grants
        return [(one.uid, one.state) for one in grants] == [(uid_of(first), GrantState.ENDING)]

    await until(ending)
    assert gates(await on.get("next"))
    await on.say_nothing_runs(node)
    assert cards_of(await on.released("next"))["main"] == (f"{node}-0",)
