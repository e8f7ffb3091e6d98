"""Amounts are read as the API server passes them on; those that mean nothing to us are refused by name."""

import pytest

from sublet.contract import keys
from sublet.model.reasons import Reason
from tests.api.scheduler.team import Team, annotations, gates
from tests.builders import container, pod
from tests.integration.schedulerstage import uid_of

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]


async def test_a_round_number_that_the_api_server_shortens_is_granted_as_written(on: Team) -> None:
    node = await on.add_node(1, gib=80)
    created = await on.create(pod("p", container(gpu_memory=50000)))
    assert created["spec"]["containers"][0]["resources"]["limits"][keys.GPU_MEMORY] == "50k"
    released = await on.released("p")
    [grant] = (await on.ledger(node)).grants
    assert (grant.uid, grant.grant.memory_mib) == (uid_of(released), 50000)


@pytest.mark.parametrize(
    "limits",
    [{"sublet.dev/gpu-mem": "4096"}, {keys.GPU: "1", "sublet.dev/gpu-cores": "30"}],
    ids=["alone", "beside a claim"],
)
async def test_an_unknown_resource_of_ours_is_refused_by_name(on: Team, limits: dict[str, str]) -> None:
    refused = await on.ask(pod("p", container(**limits)))
    assert refused.status == 403
    [unknown] = limits.keys() - {keys.GPU}
    for words in ("UnknownResource", unknown, keys.GPU_MEMORY, keys.GPU_CORE):
        assert words in refused.body["message"]


async def test_what_the_pod_asks_as_a_whole_is_asked_of_the_node(on: Team) -> None:
    await on.add_node(2, cpu="4")
    for cpu, held in (("3", False), ("2", True)):
        name = f"p{cpu}"
        created = await on.create(pod(name, container(gpu=1), resources={"requests": {"cpu": cpu}}))
        assert (Reason.INSUFFICIENT_CPU in annotations(created).get(keys.WAITING, "")) is held
        if not held:
            await on.released(name)
    assert gates(await on.get("p2")) == [keys.GATE]


async def test_a_pod_of_others_counts_with_what_it_asks_as_a_whole(on: Team) -> None:
    node = await on.add_node(1, cpu="4")
    theirs = pod("theirs", container(), nodeName=node, resources={"requests": {"cpu": "3"}})
    await on.create(theirs)
    held = await on.create(pod("p", container(gpu=1, cpu="2")))
    assert Reason.INSUFFICIENT_CPU in annotations(held)[keys.WAITING]
    await on.delete("theirs")
    await on.released("p")
