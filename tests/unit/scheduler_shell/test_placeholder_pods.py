"""How placeholders are written and read, on an embedded API server."""

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
from sublet_scheduler.core.effects import MakePlaceholder, RemovePlaceholder
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.shell.placeholders import PlaceholderWrites, placeholder_pod
from sublet_scheduler.shell.podfacts import PodReader

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.demo.apiserver.faults import Answer
from sublet.kube.errors import NotFound
from sublet.kube.kind import NAMESPACES, PODS
from sublet.kube.port import Json
from sublet.model.claim import Requirement, Toleration, Wishes
from sublet.model.ids import PodRef, PodUid
from tests.unit.scheduler_shell.cluster import Cluster, cluster

ZONES = Requirement(key="zone", operator="In", values=("a", "b"))
SPOT = Requirement(key="spot", operator="DoesNotExist")
MAKE = MakePlaceholder(
    name="placeholder-u1",
    stands_for=(PodUid("u1"), PodUid("u2")),
    pods=(PodRef("team", "a"), PodRef("team", "b")),
    wishes=Wishes(
        node_selector={"pool": "a100"},
        affinity=((ZONES, SPOT), ()),
        tolerations=(Toleration(key="nvidia.com/gpu", operator="Exists"), Toleration(key="team", value="x")),
    ),
    cpu_milli=3500,
    memory_mib=2048,
    cards=2,
    resources={keys.GPU_MEMORY: 4096, keys.GPU_CORE: 0},
)


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        await built.kube.create(NAMESPACES, {"metadata": {"name": keys.PLACEHOLDER_NAMESPACE}})
        yield built


def writes(on: Cluster) -> PlaceholderWrites:
    return PlaceholderWrites(kube=on.kube, image="pause:1")


async def made(on: Cluster) -> PodFacts:
    outcome = await writes(on).perform(MAKE)
    assert outcome.done
    assert outcome.pod
    return outcome.pod


async def stored(on: Cluster) -> Json:
    return await on.kube.get(PODS, MAKE.name, namespace=keys.PLACEHOLDER_NAMESPACE)


def test_it_asks_for_what_its_pods_ask_where_they_could_go() -> None:
    spec = placeholder_pod(MAKE, "pause:1", "")["spec"]
    [container] = spec["containers"]
    assert container["resources"] == {
        "limits": {keys.GPU_MEMORY: "4096"},
        "requests": {keys.GPU_MEMORY: "4096", "cpu": "3500m", "memory": "2048Mi"},
    }
    assert spec["nodeSelector"] == {"pool": "a100"}
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "spot", "operator": "DoesNotExist"},
    ]
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "team", "operator": "Equal", "value": "x"},
    ]


def test_cards_are_asked_for_under_another_name_where_the_cluster_says_so() -> None:
    [container] = placeholder_pod(MAKE, "pause:1", "nvidia.com/gpu")["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_without_an_affinity_none_is_written() -> None:
    spec = placeholder_pod(replace(MAKE, wishes=Wishes()), "pause:1", "")["spec"]
    assert "nodeAffinity" not in spec["affinity"]


async def test_it_says_for_whom_it_stands(on: Cluster) -> None:
    pod = await made(on)
    assert pod.placeholder == ("u1", "u2")
    assert (await stored(on))["metadata"]["annotations"][keys.STANDS_FOR] == "team/a/u1,team/b/u2"


async def test_one_that_is_there_already_is_taken_as_it_is(on: Cluster) -> None:
    assert (await made(on)).uid == (await made(on)).uid


async def test_only_the_very_pod_is_deleted(on: Cluster) -> None:
    pod = await made(on)
    assert not (await writes(on).perform(RemovePlaceholder(PodUid("another"), pod.ref))).done
    assert (await writes(on).perform(RemovePlaceholder(pod.uid, pod.ref))).done
    with pytest.raises(NotFound):
        await stored(on)
    assert (await writes(on).perform(RemovePlaceholder(pod.uid, pod.ref))).done


async def test_an_api_server_that_fails_is_told_as_such(on: Cluster) -> None:
    on.faults.plan(Answer(code=500), path="/pods", times=10)
    outcome = await writes(on).perform(MAKE)
    assert (outcome.done, outcome.pod) == (False, None)


async def test_the_pod_watch_tells_placeholders_from_others(on: Cluster) -> None:
    reader = PodReader(options=Options(), key=b"k" * 32)
    await made(on)
    raw = await stored(on)
    assert reader.read(msgspec.json.encode(raw)).placeholder == ("u1", "u2")
    raw["metadata"]["labels"] = {}
    found = reader.read(msgspec.json.encode(raw))
    assert found.placeholder is None
    assert found.resources == {keys.GPU_MEMORY: 4096}
