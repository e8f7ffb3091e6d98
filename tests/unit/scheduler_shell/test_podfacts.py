"""Reading pods: who claims, what counts against a node, and what a status proves."""

import json
from typing import Any

import pytest
from sublet_scheduler.shell.podfacts import PodReader, is_settled

from sublet.contract import decision, keys
from sublet.contract.dialects.interface import Options
from sublet.contract.patching import admission_patch
from sublet.demo.apiserver.patching import with_operations
from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import CardGrant, Placement
from sublet.model.reasons import RefusalCode
from tests.builders import ask, container, pod, sidecar

KEY = b"k" * 32
OTHER = b"o" * 32
READER = PodReader(options=Options(), key=KEY)
PLACED = Placement(
    node=NodeName("n1"),
    containers={"main": (CardGrant(card=CardId("GPU-0"), index=0, memory_mib=4096, core_percent=0),)},
)


def stored(manifest: dict[str, Any], **status: Any) -> dict[str, Any]:
    meta = {
        "uid": "uid-1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **manifest["metadata"],
    }
    return {**manifest, "metadata": meta, "status": {"phase": "Pending", **status}}


def admitted(manifest: dict[str, Any], **status: Any) -> dict[str, Any]:
    """As the webhook leaves it, without a decision."""
    patch = admission_patch(
        manifest,
        ask(manifest),
        DecisionId("d1"),
        placement=None,
        written=None,
        waiting="later",
        options=Options(),
        key=KEY,
    )
    return stored(with_operations(manifest, patch), **status)


def read(manifest: dict[str, Any], reader: PodReader = READER) -> Any:
    return reader.read(json.dumps(manifest).encode())


def test_an_admitted_pod_claims_and_carries_an_unconfirmed_decision() -> None:
    facts = read(admitted(pod("p", container(gpu_memory=4096))))
    assert facts.ask.claims[0].memory_mib == 4096
    assert facts.gated
    assert facts.decision.id == "d1"
    assert (facts.signed, facts.proposed) == (False, True)
    assert facts.waiting == "later"
    assert facts.created_s == 1767225600


@pytest.mark.parametrize(
    ("key", "uid", "signed"), [(KEY, "uid-1", True), (KEY, "uid-2", False), (OTHER, "uid-1", False)]
)
def test_a_decision_is_signed_only_by_our_key_and_for_this_uid(key: bytes, uid: str, signed: bool) -> None:
    manifest = admitted(pod("p"))
    text = decision.write(DecisionId("d1"), PLACED, uid=PodUid(uid), key=key)
    manifest["metadata"]["annotations"] = {keys.DECISION: text, keys.cards_annotation("main"): "GPU-7"}
    facts = read(manifest)
    assert facts.signed is signed
    assert facts.cards == ("GPU-0", "GPU-7")


def test_foreign_names_count_as_they_did_at_admission_whatever_the_namespace_says_now() -> None:
    both = pod("p", container("a", gpu=1), container("b", nvidia=1))
    assert len(read(admitted(both)).ask.claims) == 2
    elsewhere = admitted(pod("p", container("a", gpu=1)))
    elsewhere["spec"]["containers"].append(container("b", nvidia=1))
    assert [one.container for one in read(elsewhere).ask.claims] == ["a"]


def test_a_pod_that_never_passed_the_webhook_uses_resources_without_a_claim() -> None:
    manifest = stored(pod("p", container(nvidia=2, cpu="500m", memory="1Gi"), nodeName="n1"))
    facts = read(manifest)
    assert not facts.claimed
    assert facts.resources == {keys.NVIDIA_GPU: 2}
    assert (facts.node, facts.cpu_milli, facts.memory_mib) == ("n1", 500, 1024)


def test_a_pod_without_a_claim_takes_what_it_asks_as_a_whole() -> None:
    whole = {"requests": {"cpu": "3"}}
    facts = read(stored(pod("p", container(memory="1Gi"), nodeName="n1", resources=whole)))
    assert (facts.cpu_milli, facts.memory_mib) == (3000, 1024)


def test_a_label_alone_makes_no_claim() -> None:
    manifest = stored(pod("p", container(cpu=1)))
    manifest["metadata"]["labels"] = {keys.CLAIMED_LABEL: "true"}
    assert not read(manifest).claimed


def test_a_claim_that_cannot_be_read_any_more_is_known_all_the_same() -> None:
    manifest = admitted(pod("p"))
    manifest["metadata"]["annotations"][keys.GANG] = "g"
    facts = read(manifest)
    assert facts.claimed
    assert facts.unreadable.code is RefusalCode.MISSING_KEY


def test_unschedulable_is_not_said_of_a_pod_that_waits_for_a_preemption() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    assert read(admitted(pod("p"), conditions=[condition])).unschedulable
    assert not read(admitted(pod("p"), conditions=[condition], nominatedNodeName="n1")).unschedulable


ENDED = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
LOST = {"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
RUNS = {"state": {"running": {}}, "containerID": "c://1"}
NEVER = {"state": {"waiting": {"reason": "ContainerCreating"}}}
CRASHED = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "containerID": "c://1"}
COLLECTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]


@pytest.mark.parametrize(
    ("main", "side", "conditions", "settled"),
    [
        (ENDED, ENDED, [], True),
        (ENDED, NEVER, [], True),
        (ENDED, None, [], True),
        (RUNS, ENDED, [], False),
        (ENDED, RUNS, [], False),
        (LOST, ENDED, [], False),
        (CRASHED, ENDED, [], False),
        (ENDED, NEVER, COLLECTED, False),
        (ENDED, None, COLLECTED, False),
        (ENDED, ENDED, COLLECTED, True),
    ],
)
def test_a_pod_is_settled_when_the_kubelet_told_the_end_of_every_container(
    main: dict[str, Any], side: dict[str, Any] | None, conditions: list[dict[str, Any]], settled: bool
) -> None:
    status: dict[str, Any] = {
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": conditions,
        "containerStatuses": [{"name": "main", **main}],
        "initContainerStatuses": [{"name": "side", **side}] if side else [],
    }
    manifest = pod("p", container("main", gpu=1), init=(sidecar("side"),), nodeName="n1")
    assert is_settled(stored(manifest, **status)) is settled


def test_a_bound_pod_of_which_the_kubelet_never_spoke_is_not_settled() -> None:
    assert not is_settled(stored(pod("p", nodeName="n1"), phase="Failed"))
    assert is_settled(stored(pod("p"), phase="Failed"))


def test_a_pod_that_a_patch_answered_is_not_read_again_at_the_same_version() -> None:
    reader = PodReader(options=Options(), key=KEY)
    manifest = admitted(pod("p", container(gpu_memory=4096)))
    answered = reader.read_answer(manifest)
    manifest["metadata"]["annotations"][keys.WAITING] = "unseen, since the version is the same"

    assert reader.read(json.dumps(manifest).encode()) is answered
    assert reader.read(json.dumps(manifest).encode()).waiting.startswith("unseen")


GPUSHARE_OFF = PodReader(options=Options(enabled=("sublet", "nvidia")), key=KEY)


def released(manifest: dict[str, Any], *containers: str) -> dict[str, Any]:
    """As our release leaves it: signed for its UID, without our gate."""
    grants = PLACED.containers["main"]
    placement = Placement(node=NodeName("n1"), containers=dict.fromkeys(containers, grants))
    text = decision.write(DecisionId("d1"), placement, uid=PodUid("uid-1"), key=KEY)
    manifest["metadata"]["annotations"] = {keys.DECISION: text}
    manifest["spec"]["schedulingGates"] = []
    return manifest


def test_a_pod_that_runs_counts_though_its_dialect_was_switched_off() -> None:
    manifest = released(admitted(pod("p", container(gpu_mem=4))), "main")
    facts = read(manifest, GPUSHARE_OFF)
    assert [(one.container, one.dialect) for one in facts.ask.claims] == [("main", "gpushare")]
    assert facts.signed


def test_a_pod_counts_whole_though_the_dialect_of_one_container_was_switched_off() -> None:
    both = admitted(pod("p", container("a", gpu_memory=1024), container("b", gpu_mem=4)))
    facts = read(released(both, "a", "b"), GPUSHARE_OFF)
    assert [one.container for one in facts.ask.claims] == ["a", "b"]


def test_a_pod_that_waits_in_a_dialect_that_was_switched_off_is_not_lost_sight_of() -> None:
    facts = read(admitted(pod("p", container(gpu_mem=4))), GPUSHARE_OFF)
    assert facts.gated
    assert facts.ask.resources[keys.ALIYUN_GPU_MEM] == 4


def test_a_decision_counts_though_the_containers_claim_something_else_now() -> None:
    """A dialect was switched on meanwhile which reads a second container, or one was renamed."""
    manifest = released(admitted(pod("p", container("a", gpu_memory=1024))), "other")
    facts = read(manifest)
    assert facts.ask is None
    assert facts.unreadable.code is RefusalCode.UNREADABLE
    assert facts.decision.placement.containers.keys() == {"other"}
