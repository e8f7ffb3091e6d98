"""Nobody talks the running scheduler into cards that it did not give."""

import pytest

from sublet.contract import keys
from tests.api.deployment import JANE, REPLICASETS, SCHEDULER
from tests.api.pods import ADMIN, STRATEGIC, Object
from tests.api.pods import annotations as annotating
from tests.api.pods import labels as labelling
from tests.api.scheduler.team import Team, annotations
from tests.api.verdicts import assert_denied_by
from tests.builders import container, pod
from tests.integration.schedulerstage import seen_again
from tests.lab.controlplane import User

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

WHO = pytest.mark.parametrize("who", [JANE, ADMIN], ids=lambda who: str(who.name))
CARDS = keys.cards_annotation("main")
A_CARD = container(gpu=1)


def labelled() -> Object:
    made = pod("p", A_CARD)
    made["metadata"]["labels"] = {keys.CLAIMED_LABEL: "true"}
    return made


FORGED: dict[str, tuple[Object, str]] = {
    "a decision": (pod("p", A_CARD, annotations={keys.DECISION: "{}"}), keys.DECISION),
    "cards": (pod("p", A_CARD, annotations={CARDS: "GPU-0"}), CARDS),
    "cards without a claim": (pod("p", container(), annotations={CARDS: "GPU-0"}), CARDS),
    "waiting": (pod("p", A_CARD, annotations={keys.WAITING: "x"}), keys.WAITING),
    "the label": (labelled(), keys.CLAIMED_LABEL),
    "the gate": (pod("p", A_CARD, schedulingGates=[{"name": keys.GATE}]), keys.GATE),
    "a slot": (pod("p", container(**{keys.GPU: "1", keys.SLOT: "1"})), keys.SLOT),
}
CHANGED: dict[str, object] = {
    "a decision": annotating(**{keys.DECISION: "{}"}),
    "cards": annotating(**{CARDS: "GPU-0"}),
    "cards gone": annotating(**{CARDS: None}),
    "the label gone": labelling(**{keys.CLAIMED_LABEL: None}),
}


@WHO
@pytest.mark.parametrize(("forged", "named"), FORGED.values(), ids=FORGED.keys())
async def test_a_new_pod_brings_nothing_that_only_we_write(
    on: Team, who: User, forged: Object, named: str
) -> None:
    refused = await on.ask(forged, as_=who)
    assert refused.status == 403
    assert 'admission webhook "claims.sublet.dev" denied the request: Reserved' in refused.body["message"]
    assert named in refused.body["message"]


async def test_a_dialects_results_are_ours_to_write_too(managed: Team) -> None:
    forged = pod("p", container(gpu_mem=2), annotations={"ALIYUN_COM_GPU_MEM_IDX": "0"})
    refused = await managed.ask(forged, as_=JANE)
    assert "ALIYUN_COM_GPU_MEM_IDX='0' is written by the scheduler only" in refused.body["message"]


async def test_a_copy_of_a_released_pod_does_not_get_its_cards(on: Team) -> None:
    await on.add_node(2)
    await on.create(pod("p", A_CARD))
    copied = seen_again(await on.released("p"))
    refused = await on.ask(copied, as_=JANE)
    assert refused.status == 403
    assert "a copied pod gets a decision of its own" in refused.body["message"]


@pytest.mark.parametrize("who", [JANE, ADMIN, REPLICASETS], ids=lambda who: str(who.name))
async def test_what_a_released_pod_carries_is_changed_by_nobody(on: Team, who: User) -> None:
    await on.add_node(1)
    await on.create(pod("p", A_CARD))
    before = annotations(await on.released("p"))
    places = ("", "status") if who is not REPLICASETS else ("",)
    for change in CHANGED.values():
        for place in places:
            assert_denied_by("sublet-reserved-keys", await on.patch("p", change, as_=who, of=place))
    assert annotations(await on.get("p")) == before


@WHO
async def test_a_held_pod_is_let_go_by_nobody(on: Team, who: User) -> None:
    await on.create(pod("p", A_CARD))
    lift = {"spec": {"schedulingGates": [{"$patch": "delete", "name": keys.GATE}]}}
    denied = await on.patch("p", lift, as_=who, kind=STRATEGIC)
    assert_denied_by("sublet-reserved-keys", denied)
    assert "sublet explain" in denied.body["message"]


async def test_our_own_account_changes_no_container(on: Team) -> None:
    await on.add_node(1)
    await on.create(pod("p", A_CARD))
    await on.released("p")
    change = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    denied = await on.patch("p", change, as_=SCHEDULER, kind=STRATEGIC)
    assert_denied_by("sublet-scheduler-writes", denied)


@WHO
async def test_an_excluded_namespace_is_no_way_around_us(on: Team, who: User) -> None:
    path = "/api/v1/namespaces/kube-system/pods"
    claiming = pod("p", A_CARD, namespace="kube-system")
    denied = await on.stage.plane.call("POST", path, claiming, as_=who)
    assert_denied_by("sublet-excluded-namespaces", denied)
    assert "create the pod in another one" in denied.body["message"]
