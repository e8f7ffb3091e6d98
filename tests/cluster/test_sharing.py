"""A pod asks for part of a card and gets exactly that card, on a real kubelet."""

import asyncio

import pytest

from sublet.contract import keys
from tests.cluster.proofs import decided, proves
from tests.cluster.stage import CARD_MIB, Namespace, Stage, container, pod
from tests.lab.programs import LabError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


async def test_a_share_is_decided_released_and_handed_to_the_container(place: Namespace) -> None:
    await place.create(pod("one", container(gpu_memory=4096, gpu_core=30)))
    [card] = await proves(place, "one")
    assert card.startswith("GPU-")
    found = await place.get("one")
    assert found is not None
    assert "schedulingGates" not in found["spec"]
    assert found["metadata"]["labels"][keys.CLAIMED_LABEL] == "true"


async def test_the_plain_nvidia_example_runs_unchanged(place: Namespace) -> None:
    await place.create(pod("plain", container(nvidia=1)))
    assert len(await proves(place, "plain")) == 1


async def test_gpushare_pods_get_their_own_variables_and_annotations(place: Namespace) -> None:
    await place.create(pod("share", container(gpu_mem=2)))
    await proves(place, "share")
    env = await place.environ("share")
    found = await place.get("share")
    assert found is not None
    annotations = found["metadata"]["annotations"]
    assert annotations["ALIYUN_COM_GPU_MEM_POD"] == env["ALIYUN_COM_GPU_MEM_POD"] == "2"
    assert annotations["ALIYUN_COM_GPU_MEM_IDX"] == env["ALIYUN_COM_GPU_MEM_IDX"]
    assert env["ALIYUN_COM_GPU_MEM_DEV"] == str(CARD_MIB // 1024)
    assert env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "2"


async def test_a_users_own_visible_devices_never_beat_the_decision(place: Namespace) -> None:
    greedy = container(gpu_memory=1024) | {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    await place.create(pod("greedy", greedy))
    await proves(place, "greedy")


@pytest.mark.parametrize(
    ("limits", "requests"), [({"nvidia.com/gpu": "0.5"}, {}), ({}, {"nvidia.com/gpu": "1"})]
)
async def test_fractions_and_requests_alone_are_refused_by_the_api_server(
    place: Namespace, limits: dict[str, str], requests: dict[str, str]
) -> None:
    body = container()
    body["resources"] = {"limits": limits, "requests": requests}
    with pytest.raises(LabError, match=r"nvidia.com/gpu|Limit must be set"):
        await place.create(pod("wrong", body))


async def test_containers_init_containers_and_sidecars_each_get_their_own(place: Namespace) -> None:
    """Two containers, a plain init container, whose slot the first of them takes over, and a sidecar."""
    first = container("first", gpu_memory=2048)
    second = container("second", gpu_memory=3072)
    sidecar = container("sidecar", gpu_memory=1024) | {"restartPolicy": "Always"}
    before = container(
        "before", "cat /proc/1/environ | tr '\\0' '\\n' | grep VISIBLE; sleep 1", gpu_memory=2048
    )
    await place.create(pod("many", first, second, initContainers=[sidecar, before]))
    for name in ("first", "second", "sidecar"):
        await proves(place, "many", name)
    logged = await place.stage.plane.kubectl("-n", place.name, "logs", "many", "-c", "before")
    found = await place.get("many")
    assert found is not None
    cards = decided(found)
    assert logged.strip() == f"NVIDIA_VISIBLE_DEVICES={cards['first'][0]['card']}"


async def test_a_claim_of_an_init_container_alone_is_granted(place: Namespace) -> None:
    before = container(
        "before", "cat /proc/1/environ | tr '\\0' '\\n' | grep VISIBLE; sleep 1", gpu_memory=2048
    )
    await place.create(pod("init-only", container("main"), initContainers=[before]))
    found = await place.running("init-only")
    logged = await place.stage.plane.kubectl("-n", place.name, "logs", "init-only", "-c", "before")
    [grant] = decided(found)["before"]
    assert logged.strip() == f"NVIDIA_VISIBLE_DEVICES={grant['card']}"
    assert await place.devices("init-only") == []


async def test_twenty_pods_of_three_shapes_at_once_agree_everywhere(place: Namespace) -> None:
    shapes = [
        [container(gpu_memory=2048)],
        [container(gpu_memory=3072, gpu_core=20)],
        [container(gpu_memory=1024), container("other", gpu_memory=1024)],
    ]
    names = [f"p{at}" for at in range(20)]
    async with asyncio.TaskGroup() as group:
        for at, name in enumerate(names):
            group.create_task(place.create(pod(name, *shapes[at % 3])))
    used: dict[str, int] = {}
    for at, name in enumerate(names):
        for one in shapes[at % 3]:
            for card in await proves(place, name, one["name"]):
                used[card] = used.get(card, 0) + int(one["resources"]["limits"][keys.GPU_MEMORY])
    assert all(memory <= CARD_MIB for memory in used.values())


async def test_what_does_not_fit_waits_and_runs_when_there_is_room(stage: Stage, place: Namespace) -> None:
    for node in stage.nodes:
        await place.create(pod(f"whole-{node.name[-1]}", container(gpu=4), node=node))
        await place.running(f"whole-{node.name[-1]}")
    await place.create(pod("late", container(gpu=1)))
    await place.waits("late", "InUse")
    await place.delete("whole-1")
    assert len(await proves(place, "late")) == 1
