"""Without the bus pods are held, without us they are refused; what waited is placed when all is back."""

import base64
from typing import Any

import pytest

from sublet.contract import keys
from tests.api.scheduler.stage import CONFIGURATIONS, NATS, SERVICE, Stage
from tests.api.scheduler.team import Team, annotations, gates
from tests.builders import container, pod
from tests.eventually import eventually
from tests.integration.schedulerstage import cards_of, uid_of

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

A_CARD = container(gpu=1)
AUTHORITY = "/api/v1/namespaces/sublet-system/secrets/sublet-webhook-ca"


async def bundles(stage: Stage) -> list[bytes]:
    configuration = (await stage.plane.call("GET", f"{CONFIGURATIONS}/sublet")).body
    return [base64.b64decode(webhook["clientConfig"]["caBundle"]) for webhook in configuration["webhooks"]]


async def test_pods_are_held_while_the_bus_is_dead_and_placed_when_it_is_back(on: Team) -> None:
    node = await on.add_node(2)
    await on.create(pod("before", A_CARD))
    before = await on.released("before")
    await on.stage.plane.run.kill(NATS)
    try:
        await eventually(lambda: not on.bus.state().connected)
        held = await on.create(pod("during", A_CARD))
        assert gates(held) == [keys.GATE]
        assert await on.stage.is_ready()
    finally:
        on.stage.start_nats()
    during = await on.released("during")
    assert cards_of(during) != cards_of(before)
    await eventually(lambda: on.bus.state().connected)
    assert {grant.uid for grant in (await on.ledger(node)).grants} == {uid_of(before), uid_of(during)}


async def test_a_scheduler_that_starts_without_the_bus_holds_pods(on: Team) -> None:
    await on.add_node(1)
    run = on.stage.plane.run
    await run.stop(SERVICE)
    await run.kill(NATS)
    try:
        on.stage.start_scheduler()
        await on.stage.ready()
        held = await on.create(pod("p", A_CARD))
        assert gates(held) == [keys.GATE]
        assert "no decision was made in time" in annotations(held)[keys.WAITING]
    finally:
        on.stage.start_nats()
    await on.released("p")


async def test_pods_that_waited_before_a_restart_are_placed_after_it_without_any_word_of_theirs(
    on: Team,
) -> None:
    for name in ("a", "b", "c"):
        await on.create(pod(name, A_CARD))
    await on.stage.plane.run.kill(SERVICE)
    try:
        node = await on.add_node(3, totals=False)
        refused = await on.ask(pod("late", A_CARD))
        assert refused.status == 500
        assert 'failed calling webhook "claims.sublet.dev"' in refused.body["message"]
        assert (await on.ask(pod("plain", container()))).ok
    finally:
        on.stage.start_scheduler()
        await on.stage.ready()
    used = [cards_of(await on.released(name))["main"] for name in ("a", "b", "c")]
    assert sorted(used) == [(f"{node}-{at}",) for at in range(3)]


async def test_the_scheduler_outlives_the_api_server(on: Team) -> None:
    plane = on.stage.plane
    await on.create(pod("p", A_CARD))
    before = plane.run.pid(SERVICE)
    await plane.run.kill("apiserver")
    await plane.start_apiserver()
    node = await on.add_node(1)
    assert cards_of(await on.released("p"))["main"] == (f"{node}-0",)
    assert plane.run.pid(SERVICE) == before
    assert plane.run.alive(SERVICE)


async def test_the_next_scheduler_serves_with_the_same_authority(on: Team) -> None:
    await on.add_node(1)
    stage = on.stage
    secret: dict[str, Any] = (await stage.plane.call("GET", AUTHORITY)).body
    before = await bundles(stage)
    ours = base64.b64decode(secret["data"]["bundle.crt"])
    assert [bundle[: len(ours)] for bundle in before] == [ours] * 3
    assert base64.b64decode(secret["data"]["ca.crt"]) in ours

    await stage.plane.run.stop(SERVICE)
    stage.start_scheduler()
    await stage.ready()
    after = (await stage.plane.call("GET", AUTHORITY)).body
    assert after["data"] == secret["data"]
    assert after["metadata"]["resourceVersion"] == secret["metadata"]["resourceVersion"]
    assert [bundle[: len(ours)] for bundle in await bundles(stage)] == [ours] * 3
    await on.create(pod("p", A_CARD))
    await on.released("p")
