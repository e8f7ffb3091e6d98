"""What a pod looks like after we have had it in hand: all that its user wrote, and ours beside it."""

import copy
import json

import pytest

from sublet.contract import decision, keys
from tests.api.deployment import JANE
from tests.api.pods import Object
from tests.api.scheduler.team import Team, annotations, gates, required_terms
from tests.api.verdicts import assert_allowed
from tests.builders import container, pod
from tests.integration.schedulerstage import cards_of, uid_of

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

ZONE = {"key": "example.com/zone", "operator": "NotIn", "values": ["b"]}
NOT_THAT_NODE = {"key": "metadata.name", "operator": "NotIn", "values": ["that-node"]}
TOLERATION = {"key": "example.com/lab", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
FOREIGN = container(nvidia=1)


async def test_the_pin_stands_in_every_term_that_can_match_and_all_else_of_the_affinity_stays(
    on: Team,
) -> None:
    node = await on.add_node(1)
    labels = {"matchLabels": {"app": "p"}}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [ZONE]}}]
    required = {
        "nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {}, {"matchFields": [NOT_THAT_NODE]}],
    }
    affinity: Object = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": labels, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    }
    await on.create(pod("p", container(gpu=1), affinity=affinity))
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    expected = copy.deepcopy(affinity)
    expected["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = [
        {"matchExpressions": [ZONE], "matchFields": [pin]},
        {},
        {"matchFields": [NOT_THAT_NODE, pin]},
    ]
    assert (await on.released("p"))["spec"]["affinity"] == expected


async def test_a_users_tolerations_stay_and_those_for_cards_come_once(on: Team) -> None:
    await on.add_node(1)
    own = {"key": keys.NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"}
    created = await on.create(pod("p", container(gpu=1), tolerations=[TOLERATION, own]))
    found = created["spec"]["tolerations"]
    assert TOLERATION in found
    assert own in found
    assert {"key": "amd.com/gpu", "operator": "Exists"} in found
    assert (await on.released("p"))["spec"]["tolerations"] == found


async def test_a_slot_stands_in_limits_and_requests_of_claiming_containers_alone(on: Team) -> None:
    await on.add_node(1)
    created = await on.create(
        pod(
            "p",
            container(gpu_memory=1024, cpu="1"),
            container("web", cpu="1"),
            init=(container("load", gpu_memory=512), container("wait")),
        )
    )
    spec = created["spec"]
    found = {one["name"]: one["resources"] for one in (*spec["initContainers"], *spec["containers"])}
    assert found["main"]["limits"] == {keys.GPU_MEMORY: "1024", "cpu": "1", keys.SLOT: "1"}
    assert found["load"]["limits"] == {keys.GPU_MEMORY: "512", keys.SLOT: "1"}
    assert found["web"]["limits"] == {"cpu": "1"}
    for name in ("main", "load", "web"):
        assert found[name]["requests"] == found[name]["limits"]
    assert found["wait"] == {}


async def test_variables_name_the_annotation_that_the_release_writes(on: Team) -> None:
    node = await on.add_node(1)
    await on.create(pod("p", {**container(gpu=1), "env": [{"name": "TEAM", "value": "blue"}]}))
    released = await on.released("p")
    env = {one["name"]: one for one in released["spec"]["containers"][0]["env"]}
    field = env[keys.ENV_NVIDIA_VISIBLE]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == f"metadata.annotations['{keys.cards_annotation('main')}']"
    assert annotations(released)[keys.cards_annotation("main")] == f"{node}-0"
    assert env["TEAM"] == {"name": "TEAM", "value": "blue"}


async def test_a_released_pod_carries_the_decision_with_its_own_uid(on: Team) -> None:
    await on.add_node(1)
    created = await on.create(pod("p", container(gpu=1), annotations={"team": "blue"}))
    proposed = decision.read(annotations(created)[keys.DECISION])
    assert proposed.uid is None
    released = await on.released("p")
    final = decision.read(annotations(released)[keys.DECISION])
    assert (final.id, final.uid) == (proposed.id, uid_of(released))
    assert annotations(released)["team"] == "blue"
    assert keys.WAITING not in annotations(released)
    assert gates(released) == []


@pytest.mark.parametrize("how", ["--server-side=false", "--server-side"])
async def test_a_manifest_that_is_applied_again_changes_nothing(on: Team, how: str) -> None:
    await on.add_node(1)
    manifest = pod("p", {**container(gpu=1), "env": [{"name": "TEAM", "value": "blue"}]}, namespace=on.name)
    words = ("apply", how, "-f", "-")
    await on.stage.plane.kubectl(*words, stdin=json.dumps(manifest))
    before = await on.released("p")
    await on.stage.plane.kubectl(*words, stdin=json.dumps(manifest))
    after = await on.get("p")
    assert after["spec"] == before["spec"]
    assert annotations(after) == annotations(before)


async def test_a_pod_with_as_many_annotations_as_fit_costs_no_policy_too_much(on: Team) -> None:
    await on.add_node(1)
    notes = {f"example.com/note-{at:05}": "x" * 20 for at in range(5000)}
    await on.create(pod("p", container(gpu=1), annotations=notes))
    released = await on.released("p")
    assert annotations(released).items() >= notes.items()
    changed = {"metadata": {"annotations": {"example.com/note-00000": "y"}}}
    assert_allowed(await on.patch("p", changed, as_=JANE))
    assert_allowed(await on.patch("p", {"status": {"message": "kubelet's"}}, of="status"))


async def test_foreign_names_are_a_claim_in_a_managed_namespace(managed: Team) -> None:
    node = await managed.add_node(1)
    created = await managed.create(pod("p", FOREIGN))
    assert gates(created) == [keys.GATE]
    assert cards_of(await managed.released("p"))["main"] == (f"{node}-0",)


async def test_foreign_names_elsewhere_only_keep_the_pod_off_our_nodes(on: Team) -> None:
    await on.add_node(1)
    created = await on.create(pod("p", FOREIGN))
    off = {"key": keys.CARDS_LABEL, "operator": "DoesNotExist"}
    assert required_terms(created) == [{"matchExpressions": [off]}]
    assert gates(created) == []
    assert annotations(created) == {}
    assert created["metadata"].get("labels") is None
    [main] = created["spec"]["containers"]
    assert main["resources"]["limits"] == {keys.NVIDIA_GPU: "1"}
    assert main.get("env") is None
    assert not {keys.NVIDIA_GPU, "amd.com/gpu"} & {one["key"] for one in created["spec"]["tolerations"]}


async def test_foreign_names_in_an_excluded_namespace_are_left_alone(on: Team) -> None:
    plane = on.stage.plane
    path = "/api/v1/namespaces/kube-system/pods?dryRun=All"
    created = (await plane.call("POST", path, pod("p", FOREIGN, namespace="kube-system"))).body
    assert created["spec"].get("affinity") is None
    assert gates(created) == []
