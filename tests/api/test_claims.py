"""A pod that claims cards has been through the webhook, or it is not admitted."""

import pytest

from sublet.contract import keys
from tests.api.deployment import JANE, REPLICASETS, SCHEDULER
from tests.api.pods import ADMIN, Pods, claiming, pod
from tests.api.verdicts import assert_allowed, assert_denied_by
from tests.lab.controlplane import ControlPlane, User

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

CREATORS = pytest.mark.parametrize("who", [JANE, ADMIN, REPLICASETS], ids=lambda who: str(who.name))
A_GPU = {keys.GPU: "1"}
A_SLOT = {keys.SLOT: "1"}
EXCLUDED = "kube-system"

UNSEEN = {
    "a claim without a slot": pod(limits=A_GPU, gates=(keys.GATE,)),
    "a claim in an init container without a slot": pod(init_limits=A_GPU, limits=A_SLOT, gates=(keys.GATE,)),
    "an unknown resource of ours": pod(limits={"sublet.dev/gpu-hours": "1"}),
    "a slot without the gate": pod(limits=A_SLOT),
    "a slot with another gate": pod(limits=A_SLOT, gates=("example.com/quota",)),
    "the gate without a slot": pod(gates=(keys.GATE,)),
    "a decision without a slot": pod(annotations={keys.DECISION: "{}"}),
    "cards without a slot": pod(annotations={keys.cards_annotation("main"): "GPU-0001"}),
    "claimed without a slot": pod(labels={keys.CLAIMED_LABEL: "true"}),
    "a claim on a named node without a slot": pod(limits=A_GPU, node="n1"),
}
SEEN = {
    "a claim with slot and gate": claiming(),
    "a claim with slot on a named node": claiming(gates=(), node="n1"),
    "a foreign claim with slot and gate": claiming(limits={keys.NVIDIA_GPU: "1"} | A_SLOT),
    "a foreign claim alone": pod(limits={keys.NVIDIA_GPU: "1"}),
    "no claim": pod(limits={"cpu": "1"}),
    "a wish without a claim": pod(annotations={keys.CARD_MODELS: "A100"}),
}


@CREATORS
@pytest.mark.parametrize("wanted", UNSEEN.values(), ids=UNSEEN.keys())
async def test_what_the_webhook_did_not_make_is_denied(
    pods: Pods, who: User, wanted: dict[str, object]
) -> None:
    assert_denied_by("sublet-claims", await pods.create(wanted, as_=who))


@CREATORS
@pytest.mark.parametrize("wanted", SEEN.values(), ids=SEEN.keys())
async def test_what_the_webhook_made_is_admitted(pods: Pods, who: User, wanted: dict[str, object]) -> None:
    assert_allowed(await pods.create(wanted, as_=who))


@CREATORS
@pytest.mark.parametrize(
    "wanted",
    [
        claiming(),
        claiming(gates=(), node="n1"),
        pod(limits=A_GPU),
        pod(annotations={keys.DECISION: "{}"}),
        pod(labels={keys.CLAIMED_LABEL: "true"}),
        pod(gates=(keys.GATE,)),
    ],
    ids=["as by the webhook", "on a named node", "a claim", "a decision", "the label", "the gate"],
)
async def test_nothing_of_ours_appears_in_an_excluded_namespace(
    pods: Pods, who: User, wanted: dict[str, object]
) -> None:
    answer = await pods.create(wanted, as_=who, namespace=EXCLUDED)
    assert_denied_by("sublet-excluded-namespaces", answer)


@CREATORS
async def test_an_excluded_namespace_takes_every_other_pod(pods: Pods, who: User) -> None:
    foreign = pod(limits={keys.NVIDIA_GPU: "1"}, annotations={"team": "blue"})
    assert_allowed(await pods.create(foreign, as_=who, namespace=EXCLUDED))


async def test_a_mirror_pod_is_never_held_up(pods: Pods, installed: ControlPlane) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mirror-node"}}
    uid = (await installed.call("POST", "/api/v1/nodes", node)).body["metadata"]["uid"]
    mirror = pod(limits=A_GPU, node="mirror-node", annotations={"kubernetes.io/config.mirror": "x"})
    mirror["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": "mirror-node", "uid": uid, "controller": True}
    ]
    kubelet = User("system:node:mirror-node", ("system:nodes",))
    assert_allowed(await pods.create(mirror, as_=kubelet))
    assert_allowed(await pods.create(mirror, as_=kubelet, namespace=EXCLUDED))
    assert_denied_by("sublet-claims", await pods.create(mirror, as_=JANE))


async def test_not_even_the_scheduler_makes_a_pod(pods: Pods) -> None:
    assert (await pods.create(pod(), as_=SCHEDULER)).status == 403
