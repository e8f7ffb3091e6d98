"""What Sublet writes on a pod is safe from everybody but Sublet's scheduler."""

from collections.abc import Mapping

import pytest

from sublet.contract import keys
from tests.api.deployment import JANE, KUBE_SCHEDULER, REPLICASETS, SCHEDULER
from tests.api.pods import ADMIN, JSON_PATCH, STRATEGIC, Pods, annotations, claiming, labels
from tests.api.verdicts import assert_allowed, assert_denied_by
from tests.lab.controlplane import ControlPlane, User

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

OTHERS = pytest.mark.parametrize("who", [JANE, ADMIN, REPLICASETS], ids=lambda who: str(who.name))
CARDS = keys.cards_annotation("main")
FORGERIES = {
    "a decision changed": annotations(**{keys.DECISION: '{"node":"mine"}'}),
    "cards changed": annotations(**{CARDS: "GPU-9999"}),
    "cards of another container added": annotations(**{keys.cards_annotation("side"): "GPU-9999"}),
    "waiting removed": annotations(**{keys.WAITING: None}),
    "claimed changed": labels(**{keys.CLAIMED_LABEL: "false"}),
    "claimed removed": labels(**{keys.CLAIMED_LABEL: None}),
}
forgery = pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES.keys())


@OTHERS
@forgery
async def test_nobody_else_changes_what_the_scheduler_wrote(pods: Pods, who: User, change: object) -> None:
    path = await pods.given(claiming())
    assert_denied_by("sublet-reserved-keys", await pods.patch(path, change, as_=who))


@pytest.mark.parametrize("who", [JANE, ADMIN], ids=lambda who: str(who.name))
@forgery
async def test_nor_through_the_status(pods: Pods, who: User, change: object) -> None:
    path = await pods.given(claiming())
    assert_denied_by("sublet-reserved-keys", await pods.patch(f"{path}/status", change, as_=who))


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
@forgery
async def test_other_subresources_change_nothing_of_it(pods: Pods, subresource: str, change: object) -> None:
    """The API server drops what they do not own; this is what our policies build on."""
    path = await pods.given(claiming())
    before = (await pods.plane.call("GET", path)).body["metadata"]
    await pods.patch(f"{path}/{subresource}", change, as_=ADMIN)
    after = (await pods.plane.call("GET", path)).body["metadata"]
    assert (after["annotations"], after["labels"]) == (before["annotations"], before["labels"])


@OTHERS
async def test_nobody_else_lifts_the_gate(pods: Pods, who: User) -> None:
    path = await pods.given(claiming())
    lift = {"spec": {"schedulingGates": [{"$patch": "delete", "name": keys.GATE}]}}
    assert_denied_by("sublet-reserved-keys", await pods.patch(path, lift, as_=who, kind=STRATEGIC))


@OTHERS
async def test_everybody_may_change_everything_else(pods: Pods, who: User) -> None:
    path = await pods.given(claiming())
    change = {"metadata": {"annotations": {"team": "red", keys.CARD_MODELS: "A100"}, "labels": {"app": "x"}}}
    assert_allowed(await pods.patch(path, change, as_=who))


async def test_a_foreign_gate_is_anybodys_to_lift(pods: Pods) -> None:
    path = await pods.given(claiming(gates=(keys.GATE, "example.com/quota")))
    lift = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/quota"}]}}
    assert_allowed(await pods.patch(path, lift, as_=JANE, kind=STRATEGIC))


async def test_the_scheduler_pins_and_releases_a_pod_in_one_patch(pods: Pods) -> None:
    path = await pods.given(claiming())
    before = await pods.get(path)
    pin = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    release = [
        {"op": "test", "path": "/metadata/uid", "value": before["metadata"]["uid"]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": before["metadata"]["resourceVersion"]},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": keys.GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {
            "op": "add",
            "path": "/spec/affinity",
            "value": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchFields": [pin]}]
                    }
                }
            },
        },
        {"op": "add", "path": "/metadata/annotations/sublet.dev~1decision", "value": '{"node":"n1"}'},
        {"op": "remove", "path": "/metadata/annotations/sublet.dev~1waiting"},
    ]
    assert_allowed(await pods.patch(path, release, as_=SCHEDULER, kind=JSON_PATCH))
    assert "schedulingGates" not in (await pods.get(path))["spec"]


async def test_a_binding_smuggles_nothing_into_a_pod(pods: Pods, installed: ControlPlane) -> None:
    path = await pods.given(claiming(gates=(), node=None, limits={}, annotations={}, labels={}))

    def binding(metadata: Mapping[str, object]) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": path.rpartition("/")[2], **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }

    for smuggled in ({"annotations": {CARDS: "GPU-9999"}}, {"labels": {keys.CLAIMED_LABEL: "true"}}):
        for place in (f"{path}/binding", "/api/v1/namespaces/default/bindings"):
            answer = await installed.call("POST", place, binding(smuggled), as_=JANE)
            assert_denied_by("sublet-bindings", answer)
    assert_allowed(await installed.call("POST", f"{path}/binding", binding({}), as_=KUBE_SCHEDULER))
