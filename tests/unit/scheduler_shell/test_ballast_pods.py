"""How ballast pods are written and read, on an embedded API server."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from sublet_scheduler.core.effects import MakeBallast, RemoveBallast, ResizeBallast
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.size import Size
from sublet_scheduler.shell.ballast import BallastWrites, ballast_name, ballast_pod
from sublet_scheduler.shell.ballastfacts import read_ballast
from sublet_scheduler.shell.podfacts import PodReader

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.demo.apiserver.faults import Answer
from sublet.kube.errors import NotFound
from sublet.kube.kind import NAMESPACES, PODS
from sublet.kube.port import Json, MergePatch
from sublet.model.ids import NodeName, PodUid
from tests.unit.scheduler_shell.cluster import Cluster, cluster

N1 = NodeName("n1")
SMALL = Size(cpu_milli=1500, memory_bytes=10**9)
LARGE = Size(cpu_milli=4000, memory_bytes=4 * 10**9)
MAKE = MakeBallast(N1, "node-uid", LARGE)


@pytest.fixture
async def on() -> AsyncIterator[Cluster]:
    async with cluster() as built:
        await built.kube.create(NAMESPACES, {"metadata": {"name": keys.BALLAST_NAMESPACE}})
        yield built


def writes(on: Cluster) -> BallastWrites:
    return BallastWrites(kube=on.kube, image="pause:1")


async def made(on: Cluster) -> PodFacts:
    outcome = await writes(on).perform(MAKE)
    assert outcome.done
    assert outcome.pod
    return outcome.pod


def resize(pod: PodFacts, size: Size) -> ResizeBallast:
    return ResizeBallast(N1, pod.uid, pod.ref, pod.version, size)


async def stored(on: Cluster) -> Json:
    return await on.kube.get(PODS, ballast_name(N1), namespace=keys.BALLAST_NAMESPACE)


async def test_it_is_made_for_its_node_alone_and_asks_for_what_it_keeps(on: Cluster) -> None:
    pod = await made(on)
    assert pod.ballast
    assert (pod.ballast.node, pod.ballast.asked, pod.ballast.counted) == (N1, LARGE, LARGE)
    [owner] = (await stored(on))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n1", "node-uid")


async def test_one_that_is_there_already_is_taken_as_it_is(on: Cluster) -> None:
    before = await made(on)
    assert (await made(on)).uid == before.uid


async def test_it_is_resized_where_it_is(on: Cluster) -> None:
    pod = await made(on)
    outcome = await writes(on).perform(resize(pod, SMALL))
    assert outcome.done
    assert outcome.pod
    assert outcome.pod.ballast
    assert (outcome.pod.uid, outcome.pod.ballast.asked) == (pod.uid, SMALL)


async def test_a_resize_for_an_older_version_changes_nothing_and_tells_the_newer(on: Cluster) -> None:
    pod = await made(on)
    change = MergePatch({"metadata": {"labels": {"seen": "yes"}}})
    await on.kube.patch(PODS, pod.ref.name, change, namespace=pod.ref.namespace)
    outcome = await writes(on).perform(resize(pod, SMALL))
    assert outcome.done
    assert outcome.pod
    assert outcome.pod.version != pod.version
    assert outcome.pod.ballast
    assert outcome.pod.ballast.asked == LARGE


async def test_only_the_very_pod_is_deleted(on: Cluster) -> None:
    pod = await made(on)
    outcome = await writes(on).perform(RemoveBallast(N1, PodUid("another"), pod.ref))
    assert not outcome.done
    assert (await writes(on).perform(RemoveBallast(N1, pod.uid, pod.ref))).done
    with pytest.raises(NotFound):
        await stored(on)
    assert (await writes(on).perform(RemoveBallast(N1, pod.uid, pod.ref))).done
    assert (await writes(on).perform(resize(pod, SMALL))).done


async def test_an_api_server_that_fails_is_told_as_such(on: Cluster) -> None:
    on.faults.plan(Answer(code=500), path="/pods", times=10)
    outcome = await writes(on).perform(MAKE)
    assert (outcome.done, outcome.pod) == (False, None)


async def test_what_the_kubelet_still_has_in_force_counts(on: Cluster) -> None:
    pod = await made(on)
    in_force = {
        "name": "ballast",
        "allocatedResources": {"cpu": "5", "memory": "1G"},
        "resources": {"requests": {"cpu": "1", "memory": "5G"}},
    }
    status = {"status": {"phase": "Running", "containerStatuses": [in_force]}}
    raw = await on.kube.patch(
        PODS, pod.ref.name, MergePatch(status), namespace=pod.ref.namespace, subresource="status"
    )
    read = read_ballast(raw)
    assert read
    assert read.ballast
    assert read.ballast.asked == LARGE
    assert read.ballast.counted == Size(cpu_milli=5000, memory_bytes=5 * 10**9)


async def test_the_pod_watch_tells_ballast_pods_from_others(on: Cluster) -> None:
    reader = PodReader(options=Options(), key=b"k" * 32)
    await made(on)
    raw = await stored(on)
    assert reader.read(msgspec.json.encode(raw)).ballast
    raw["metadata"]["labels"] = {}
    assert reader.read(msgspec.json.encode(raw)).ballast is None
    raw = await stored(on)
    raw["metadata"]["namespace"] = "default"
    assert reader.read(msgspec.json.encode(raw)).ballast is None


def test_the_longest_node_name_still_makes_a_name() -> None:
    node = NodeName(".".join(["n" * 62] * 4))
    assert len(ballast_name(node)) <= 253
    assert ballast_name(node) != ballast_name(NodeName(node[:-1] + "m"))
    assert ballast_pod(MakeBallast(node, "u", LARGE), "pause:1")["metadata"]["name"] == ballast_name(node)
