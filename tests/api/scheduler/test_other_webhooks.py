"""Webhooks that run after ours may change the pod once more; it is still one pod with one decision."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sublet.contract import decision, keys
from tests.api.pods import STRATEGIC
from tests.api.scheduler.later import ALLOWED, adding, later, limiting, patching
from tests.api.scheduler.stage import Json
from tests.api.scheduler.team import Team, annotations, gates
from tests.api.verdicts import assert_allowed, assert_denied_by
from tests.builders import container, pod, verdict
from tests.integration.schedulerstage import cards_of, uid_of, until

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]


def env_names(one: Json) -> Counter[str]:
    return Counter(variable["name"] for variable in one.get("env") or ())


async def test_a_sidecar_added_after_us_changes_nothing_of_the_decision(on: Team, tmp_path: Path) -> None:
    node = await on.add_node(1)
    async with later(on, tmp_path, adding(container("proxy"))) as hook:
        created = await on.create(pod("p", container(gpu_memory=6144)))
        first = hook.asked[0]["object"]
    assert annotations(created)[keys.DECISION] == annotations(first)[keys.DECISION]
    assert gates(created) == [keys.GATE]
    main, proxy = created["spec"]["containers"]
    assert env_names(main)[keys.ENV_NVIDIA_VISIBLE] == 1
    assert main["resources"]["limits"][keys.SLOT] == "1"
    assert proxy.get("env") is None
    assert keys.SLOT not in (proxy["resources"].get("limits") or {})

    assert cards_of(await on.create(pod("beside", container(gpu_memory=4096))))["main"] == (f"{node}-0",)
    await on.released("p")
    assert len((await on.ledger(node)).grants) == 2


async def test_a_claim_added_after_us_is_decided_with_the_pods_own(on: Team, tmp_path: Path) -> None:
    node = await on.add_node(1)
    async with later(on, tmp_path, adding(container("proxy", gpu_memory=2048))):
        created = await on.create(pod("p", container(gpu_memory=6144)))
    assert gates(created) == [keys.GATE]
    assert cards_of(created) == {"main": (f"{node}-0",), "proxy": (f"{node}-0",)}
    for one in created["spec"]["containers"]:
        assert one["resources"]["limits"][keys.SLOT] == "1"
        assert set(env_names(one).values()) == {1}

    assert cards_of(await on.create(pod("beside", container(gpu_memory=2048))))["main"] == (f"{node}-0",)
    released = await on.released("p")
    taken = {
        (one.container, one.grant.memory_mib)
        for one in (await on.ledger(node)).grants
        if one.uid == uid_of(released)
    }
    assert taken == {("main", 6144), ("proxy", 2048)}


async def test_a_second_round_of_a_dry_run_reserves_nothing_either(on: Team, tmp_path: Path) -> None:
    node = await on.add_node(1)
    async with later(on, tmp_path, adding(container("proxy"))):
        for name in ("first", "second"):
            shown = await on.create(pod(name, container(gpu=1)), dry_run=True)
            assert cards_of(shown)["main"] == (f"{node}-0",)
        assert cards_of(await on.create(pod("real", container(gpu=1))))["main"] == (f"{node}-0",)


async def test_a_pod_on_a_named_node_goes_through_a_second_round(on: Team, tmp_path: Path) -> None:
    node = await on.add_node(1)
    async with later(on, tmp_path, adding(container("proxy"))):
        created = await on.create(pod("p", container(gpu=1), nodeName=node))
    assert gates(created) == []
    assert cards_of(created)["main"] == (f"{node}-0",)


async def test_a_pod_without_room_goes_through_a_second_round(on: Team, tmp_path: Path) -> None:
    async with later(on, tmp_path, adding(container("proxy"))):
        created = await on.create(pod("p", container(gpu=1)))
    assert gates(created) == [keys.GATE]
    await on.add_node(1)
    assert len((await on.released("p"))["spec"]["containers"]) == 2


async def test_a_gate_added_after_us_holds_the_pod_without_a_grant(on: Team, tmp_path: Path) -> None:
    node = await on.add_node(2)
    foreign = {"name": "example.com/quota"}

    def gating(review: Json) -> Json:
        found = review["object"]["spec"]["schedulingGates"]
        if foreign in found:
            return ALLOWED
        return patching({"op": "add", "path": "/spec/schedulingGates", "value": [*found, foreign]})

    async with later(on, tmp_path, gating):
        created = await on.create(pod("behind", container(gpu=1)))
    assert gates(created) == [keys.GATE, foreign["name"]]
    await on.create(pod("other", container(gpu=1)))
    other = await on.released("other")
    assert gates(await on.get("behind")) == [keys.GATE, foreign["name"]]
    assert [one.uid for one in (await on.ledger(node)).grants] == [uid_of(other)]

    lift = {"spec": {"schedulingGates": [{"$patch": "delete", **foreign}]}}
    assert_allowed(await on.patch("behind", lift, kind=STRATEGIC))
    await on.released("behind")


async def test_a_claim_changed_after_us_is_decided_as_it_is_stored(on: Team, tmp_path: Path) -> None:
    node = await on.add_node(1)
    async with later(on, tmp_path, limiting(**{keys.GPU_MEMORY: "9216"})):
        await on.create(pod("p", container(gpu_memory=6144)))
    await on.released("p")
    assert [one.grant.memory_mib for one in (await on.ledger(node)).grants] == [9216]


async def test_a_claim_that_only_a_later_webhook_adds_is_denied_clearly(on: Team, tmp_path: Path) -> None:
    await on.add_node(1)
    async with later(on, tmp_path, limiting(**{keys.GPU: "1"})):
        denied = await on.ask(pod("p", container()))
    assert_denied_by("sublet-claims", denied)
    assert "another webhook may add them" in denied.body["message"]


async def test_a_webhook_that_takes_our_gate_away_gets_no_pod_past_us(on: Team, tmp_path: Path) -> None:
    await on.add_node(1)

    def taking(review: Json) -> Json:
        return patching({"op": "add", "path": "/spec/schedulingGates", "value": []})

    async with later(on, tmp_path, taking):
        denied = await on.ask(pod("p", container(gpu=1)))
    assert_denied_by("sublet-claims", denied)


async def test_a_pod_that_was_decided_anew_shows_no_trace_of_its_first_proposal(
    managed: Team, tmp_path: Path
) -> None:
    node = await managed.add_node(2)
    proposed: list[str] = []

    async def overtake(review: Json) -> Json:
        """Between our answer and the pod's creation its card goes bad."""
        if review.get("dryRun") or proposed:
            return ALLOWED
        [card] = cards_of(review["object"])["main"]
        proposed.append(card)
        await managed.judge(verdict(node, card, bad=True))

        async def closed() -> bool:
            return card in (await managed.ledger(node)).closed

        await until(closed)
        return ALLOWED

    async with later(managed, tmp_path, overtake):
        created = await managed.create(pod("p", container(gpu_mem=8)))
    assert cards_of(created)["main"] == (f"{node}-0",)
    assert annotations(created)["ALIYUN_COM_GPU_MEM_IDX"] == "0"

    released: dict[str, Any] = await managed.released("p")
    found = annotations(released)
    assert cards_of(released)["main"] == (f"{node}-1",)
    assert decision.read(found[keys.DECISION]).uid == uid_of(released)
    assert found[keys.cards_annotation("main")] == f"{node}-1"
    assert found["ALIYUN_COM_GPU_MEM_IDX"] == "1"
    assert keys.WAITING not in found
    assert f"{node}-0" not in json.dumps(released)


async def test_a_proposal_that_is_used_for_many_pods_gives_no_card_twice(on: Team, tmp_path: Path) -> None:
    node = await on.add_node(2)
    proposals: list[Json] = []

    def keep(review: Json) -> Json:
        if not review["dryRun"]:
            proposals.append(review["object"])
        return {"allowed": bool(review["dryRun"])}

    async with later(on, tmp_path, keep):
        assert not (await on.ask(pod("p", container(gpu=1)))).ok
    [proposal] = proposals
    kept = {part: proposal["metadata"][part] for part in ("annotations", "labels")}
    copies = [{**proposal, "metadata": {"name": f"copy-{at}", **kept}} for at in range(5)]
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(on.ask(one)) for one in copies]
    made = [one.result().body["metadata"]["name"] for one in asked if one.result().ok]
    assert made

    async def granted() -> bool:
        return len((await on.ledger(node)).grants) == min(2, len(made))

    await until(granted)

    async def all_let_go() -> bool:
        uids = {one.uid for one in (await on.ledger(node)).grants}
        free = [found for found in [await on.get(name) for name in made] if not gates(found)]
        return {uid_of(found) for found in free} == uids

    await until(all_let_go)
    grants = (await on.ledger(node)).grants
    assert len({one.grant.card for one in grants}) == len(grants)
