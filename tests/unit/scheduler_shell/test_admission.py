"""One review: which pods are ours, what a second round means, and what is answered when nobody decides."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from sublet_scheduler.core.effects import Answer
from sublet_scheduler.core.events import ReviewAsked
from sublet_scheduler.shell.admission import Admission
from sublet_scheduler.shell.cards import Cards
from sublet_scheduler.shell.review import Request, read_review

from sublet.contract import decision, keys
from sublet.contract.dialects.interface import Options
from sublet.demo.apiserver.patching import with_operations
from sublet.model.errors import Unavailable
from sublet.model.ids import DecisionId, NodeName
from sublet.model.placement import CardGrant, NoRoom, Placement
from sublet.model.reasons import Reason, Refusal, RefusalCode
from tests.builders import cards, container, pod

KEY = b"k" * 32
HELD = NoRoom(reasons={Reason.IN_USE: 1}, message="no room now")
UNKNOWN = Refusal(code=RefusalCode.RESERVED_KEY, message="not made for it")


def placed(card: str = "n1-0") -> Placement:
    grants = tuple(one for one in cards("n1", 2) if one.id == card)
    return Placement(
        node=NodeName("n1"),
        containers={
            "main": tuple(
                CardGrant(card=one.id, index=one.index, memory_mib=4096, core_percent=0) for one in grants
            )
        },
    )


@dataclass
class Engine:
    """Answers every question with `decide`, and remembers the questions."""

    decide: Callable[[ReviewAsked], Placement | NoRoom | Refusal]
    asked: list[ReviewAsked] = field(default_factory=list)

    async def ask(self, review: ReviewAsked, *, within_s: float) -> Answer:  # noqa: ARG002
        self.asked.append(review)
        return Answer(review.decision, review.known or review.decision, self.decide(review))


async def nobody(review: ReviewAsked, *, within_s: float) -> Answer:
    raise Unavailable(f"no decision within {within_s} s")


def admission(ask: Any, *, managed: bool = False, lonely: bool = False) -> Admission:
    """`lonely`: pods of DaemonSets get the card of a node that has one, as n0 has."""

    async def is_managed(namespace: str) -> bool:
        return managed

    known = Cards()
    known.set(NodeName("n0"), cards("n0", 1))
    known.set(NodeName("n1"), cards("n1", 2))
    return Admission(
        ask=ask,
        managed=is_managed,
        cards_of=known.of,
        labels_of=lambda _: {},
        node_labels=lambda: (),
        cards_on=known.on if lonely else None,
        options=Options(),
        key=KEY,
        budget_s=2.0,
        unix_ms=lambda: 1_000,
        refused=lambda code: None,  # noqa: ARG005
    )


def request(manifest: dict[str, Any], *, user: str = "jane", dry_run: bool = False) -> Request:
    body = {
        "uid": "r1",
        "operation": "CREATE",
        "namespace": "default",
        "kind": {"kind": "Pod"},
        "userInfo": {"username": user},
        "object": manifest,
        "dryRun": dry_run,
    }
    return read_review(json.dumps({"request": body}).encode())


def response(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer)["response"]
    assert found["uid"] == "r1"
    return found


def after(manifest: dict[str, Any], answer: bytes) -> dict[str, Any]:
    """The pod as the API server makes it of an answer."""
    found = response(answer)
    assert found["allowed"], found
    return with_operations(manifest, json.loads(base64.b64decode(found.get("patch") or "W10=")))


async def test_a_pod_without_a_name_or_a_namespace_is_read_with_those_of_the_request() -> None:
    engine = Engine(lambda _: HELD)
    manifest = pod("", container(gpu=1))
    manifest["metadata"] = {"generateName": "train-"}
    await admission(engine.ask).claims(request(manifest))
    assert str(engine.asked[0].ask.pod) == "default/"


async def test_a_placed_pod_gets_gate_slot_decision_and_field_references_only() -> None:
    engine = Engine(lambda _: placed())
    made = after(pod("p"), await admission(engine.ask).claims(request(pod("p"))))
    assert made["spec"]["schedulingGates"] == [{"name": keys.GATE}]
    [main] = made["spec"]["containers"]
    assert main["resources"]["limits"][keys.SLOT] == "1"
    assert all("fieldRef" in one["valueFrom"] for one in main["env"])
    written = decision.read(made["metadata"]["annotations"][keys.DECISION])
    assert (written.id, written.placement) == (engine.asked[0].decision, placed())


async def test_a_second_round_names_its_decision_and_changes_nothing() -> None:
    engine = Engine(lambda _: placed())
    one = admission(engine.ask)
    made = after(pod("p"), await one.claims(request(pod("p"))))
    again = after(made, await one.claims(request(made)))
    assert engine.asked[1].known == engine.asked[0].decision
    assert again == made


async def test_a_copied_proposal_that_the_engine_does_not_know_is_refused() -> None:
    made = after(pod("p"), await admission(Engine(lambda _: placed()).ask).claims(request(pod("p"))))
    found = response(await admission(Engine(lambda _: UNKNOWN).ask).claims(request(made)))
    assert not found["allowed"]
    assert found["status"]["code"] == 403


@pytest.mark.parametrize("dry_run", [True, False])
async def test_the_second_round_of_a_dry_run_or_of_a_missed_decision_is_decided_anew(dry_run: bool) -> None:
    first = Engine(lambda _: placed()).ask if dry_run else nobody
    made = after(pod("p"), await admission(first).claims(request(pod("p"), dry_run=dry_run)))
    engine = Engine(lambda review: UNKNOWN if review.known else placed("n1-1"))
    again = after(made, await admission(engine.ask).claims(request(made, dry_run=dry_run)))
    written = decision.read(again["metadata"]["annotations"][keys.DECISION])
    assert written.placement == placed("n1-1")
    assert written.id == engine.asked[1].decision
    assert again["metadata"]["annotations"][keys.cards_annotation("main")] == "n1-1"


async def test_without_a_decision_in_time_the_pod_is_gated_and_told_so() -> None:
    answer = await admission(nobody).claims(request(pod("p")))
    made = after(pod("p"), answer)
    assert made["spec"]["schedulingGates"] == [{"name": keys.GATE}]
    assert "no decision was made in time" in made["metadata"]["annotations"][keys.WAITING]
    assert decision.is_signed(made["metadata"]["annotations"][keys.DECISION], KEY)


async def test_a_held_pod_is_admitted_with_a_warning_for_its_author() -> None:
    found = response(await admission(Engine(lambda _: HELD).ask).claims(request(pod("p"))))
    assert found["warnings"] == ["the pod waits behind its gate: no room now"]


async def test_a_pod_that_no_gate_can_hold_is_not_answered_without_a_decision() -> None:
    with pytest.raises(Unavailable):
        await admission(nobody).claims(request(pod("p", nodeName="n1")))


async def test_a_slot_of_the_users_own_is_refused_also_beside_a_decision_of_ours() -> None:
    engine = Engine(lambda _: HELD)
    one = admission(engine.ask)
    made = after(pod("p"), await one.claims(request(pod("p"))))
    made["spec"]["containers"].append(container("hog", **{keys.SLOT: 5}))
    found = response(await one.claims(request(made)))
    assert keys.SLOT in found["status"]["message"]


async def test_a_pod_that_copies_a_confirmed_decision_is_refused() -> None:
    text = decision.write(DecisionId("d"), placed(), uid=None, key=b"x" * 32)
    for forged in (text, "{}", "nonsense"):
        manifest = pod("p", container(cpu=1), annotations={keys.DECISION: forged})
        assert not response(await admission(nobody).claims(request(manifest)))["allowed"]


async def test_a_pod_that_claims_nothing_is_left_alone() -> None:
    answer = await admission(nobody).claims(request(pod("p", container(cpu=1))))
    assert "patch" not in response(answer)


async def test_a_mirror_pod_of_a_kubelet_is_left_alone_and_one_of_a_user_is_not() -> None:
    manifest = pod("p", annotations={"kubernetes.io/config.mirror": "x"})
    one = admission(Engine(lambda _: HELD).ask)
    assert "patch" not in response(await one.claims(request(manifest, user="system:node:n1")))
    assert "patch" in response(await one.claims(request(manifest)))


async def test_elsewhere_keeps_every_alternative_off_our_nodes_and_does_it_once() -> None:
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {name: {"nodeSelectorTerms": [zone, {}]}}}
    manifest = pod("p", container(nvidia=1), affinity=affinity)
    one = admission(nobody)
    made = after(manifest, await one.elsewhere(request(manifest)))
    terms = made["spec"]["affinity"]["nodeAffinity"][name]["nodeSelectorTerms"]
    ours = {"key": keys.CARDS_LABEL, "operator": "DoesNotExist"}
    assert terms == [{"matchExpressions": [*zone["matchExpressions"], ours]}, {}]
    assert after(made, await one.elsewhere(request(made))) == made


async def test_elsewhere_leaves_alone_what_is_ours_or_bound() -> None:
    one = admission(nobody)
    for manifest in (
        pod("p", container("a", nvidia=1), container("b", gpu=1)),
        pod("p", container(nvidia=1), nodeName="n1"),
        pod("p", container(cpu=1)),
    ):
        assert "patch" not in response(await one.elsewhere(request(manifest)))
    assert "patch" not in response(
        await admission(nobody, managed=True).elsewhere(request(pod("p", container(nvidia=1))))
    )


def plugin_less(
    env: str = "NVIDIA_VISIBLE_DEVICES", value: str = "all", *, node: str = "n0", **more: Any
) -> dict[str, Any]:
    """A pod that a DaemonSet made for a node and that names cards in its variables alone."""
    manifest = pod("p", {"name": "main", "image": "app", "env": [{"name": env, "value": value}]}, **more)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    manifest["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    return manifest


MADE: dict[str, Any] = {"owner": ("DaemonSet", "ds-1")}


@pytest.mark.parametrize("env", ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"])
async def test_a_daemonsets_pod_that_names_cards_in_variables_gets_the_card_of_a_node_that_has_one(
    env: str,
) -> None:
    engine = Engine(lambda _: placed())
    manifest = plugin_less(env, **MADE)
    answer = await admission(engine.ask, managed=True, lonely=True).claims(request(manifest))
    [review] = engine.asked
    [claim] = review.ask.claims
    assert (claim.container, claim.dialect, claim.cards, claim.exclusive) == ("main", "nvidia", 1, True)
    [container_] = after(manifest, answer)["spec"]["containers"]
    assert container_["resources"]["limits"] == {"nvidia.com/gpu": "1", "sublet.dev/slot": "1"}
    assert container_["resources"]["requests"] == container_["resources"]["limits"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} not in container_["env"]


@pytest.mark.parametrize(
    ("manifest", "how"),
    [
        (plugin_less(**MADE), {"lonely": False}),
        (plugin_less(**MADE), {"managed": False}),
        (plugin_less(node="n1", **MADE), {}),
        (plugin_less(node="unknown", **MADE), {}),
        (plugin_less(owner=("ReplicaSet", "rs-1")), {}),
        (plugin_less(value="void", **MADE), {}),
        (plugin_less("PATH", **MADE), {}),
    ],
    ids=["switched off", "elsewhere", "two cards", "no cards", "of another owner", "void", "no cards named"],
)
async def test_other_pods_that_name_cards_in_variables_are_left_alone(
    manifest: dict[str, Any], how: dict[str, bool]
) -> None:
    on = admission(nobody, **{"managed": True, "lonely": True, **how})
    assert after(manifest, await on.claims(request(manifest))) == manifest


async def test_a_daemonset_of_two_containers_that_name_cards_is_left_alone() -> None:
    manifest = plugin_less(**MADE)
    manifest["spec"]["containers"].append({**manifest["spec"]["containers"][0], "name": "other"})
    on = admission(nobody, managed=True, lonely=True)
    assert after(manifest, await on.claims(request(manifest))) == manifest
