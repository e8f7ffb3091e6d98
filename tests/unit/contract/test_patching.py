"""The three patches of a pod's life: what they write, what they leave alone, and when they must fail."""

import copy
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import jsonpatch
import pytest
from hypothesis import given

from sublet.contract import decision, keys
from sublet.contract.dialects.interface import Options
from sublet.contract.patching import admission_patch, elsewhere_patch, release_patch, waiting_patch
from sublet.model.ids import DecisionId, PodUid
from sublet.model.placement import Placement
from tests.builders import ask, container, pod, sidecar
from tests.unit.contract.writing import A, B, grant, placed, results

KEY = b"key"
ID = DecisionId("d1")
UID = PodUid("u1")
Pod = dict[str, Any]


def apply(manifest: Pod, patch: Sequence[dict[str, Any]]) -> Pod:
    before = copy.deepcopy(manifest)
    after: Pod = jsonpatch.apply_patch(manifest, list(patch))
    assert manifest == before
    return after


def admit(manifest: Pod, placement: Placement | None = None, waiting: str = "no room now") -> Pod:
    return apply(manifest, admission(manifest, placement, waiting))


def admission(manifest: Pod, placement: Placement | None, waiting: str = "no room now") -> list[Pod]:
    return admission_patch(
        manifest,
        ask(manifest),
        ID,
        placement=placement,
        written=results(manifest, placement) if placement else None,
        waiting=waiting,
        options=Options(),
        key=KEY,
    )


def stored(manifest: Pod, version: str = "7") -> Pod:
    """As the API server keeps it after admission."""
    again = copy.deepcopy(manifest)
    again["metadata"] |= {"uid": UID, "resourceVersion": version}
    return again


def release(manifest: Pod, placement: Placement, version: str = "7") -> list[Pod]:
    written = results(manifest, placement)
    return release_patch(
        manifest, ID, uid=UID, version=version, placement=placement, written=written, key=KEY
    )


SHARE = pod("pod", container(gpu_memory=4096))
ON_A = placed(main=grant(A, 4096))
ON_B = placed("n2", main=grant(B, 4096))


# -- admission


def test_a_decided_pod_carries_gate_slot_label_tolerations_and_proposal() -> None:
    found = admit(SHARE, ON_A)
    spec, main = found["spec"], found["spec"]["containers"][0]
    assert spec["schedulingGates"] == [{"name": keys.GATE}]
    assert main["resources"] == {
        "limits": {keys.GPU_MEMORY: "4096", keys.SLOT: "1"},
        "requests": {keys.SLOT: "1"},
    }
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "amd.com/gpu", "operator": "Exists"},
    ]
    assert found["metadata"]["labels"] == {keys.CLAIMED_LABEL: "true"}
    annotations = found["metadata"]["annotations"]
    assert annotations["cards.sublet.dev/main"] == "GPU-a"
    assert decision.read(annotations[keys.DECISION]).placement == ON_A
    assert decision.is_signed(annotations[keys.DECISION], KEY)
    assert keys.WAITING not in annotations


def test_an_undecided_pod_carries_its_id_and_why_it_waits() -> None:
    annotations = admit(SHARE, waiting="3 InsufficientMemory")["metadata"]["annotations"]
    assert annotations[keys.WAITING] == "3 InsufficientMemory"
    assert decision.read(annotations[keys.DECISION]).placement is None
    assert annotations.keys() == {keys.WAITING, keys.DECISION}


def test_variables_are_field_references_since_the_decision_may_still_change() -> None:
    [variable] = admit(SHARE, ON_A)["spec"]["containers"][0]["env"]
    reference = {"apiVersion": "v1", "fieldPath": "metadata.annotations['cards.sublet.dev/main']"}
    assert variable == {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": reference}}


def test_a_users_own_choice_of_cards_is_replaced_and_the_rest_kept() -> None:
    manifest = copy.deepcopy(SHARE)
    manifest["spec"]["containers"][0]["env"] = [
        {"name": "MODE", "value": "fast"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    ]
    env = admit(manifest, ON_A)["spec"]["containers"][0]["env"]
    assert [one["name"] for one in env] == ["NVIDIA_VISIBLE_DEVICES", "MODE"]
    assert "valueFrom" in env[0]


def test_containers_without_a_claim_are_left_as_they_are() -> None:
    plain = {"name": "web", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]}
    manifest = pod("pod", plain, container("main", gpu_memory=1), init=({"name": "wait"},))
    spec = admit(manifest, placed(main=grant(A, 1)))["spec"]
    assert spec["containers"][0] == plain
    assert spec["initContainers"] == [{"name": "wait"}]


def test_a_users_gates_labels_annotations_and_tolerations_are_kept() -> None:
    manifest = pod(
        "pod",
        annotations={"team": "x", keys.CARD_MODELS: "a100"},
        schedulingGates=[{"name": "theirs"}],
        tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 30}],
    )
    manifest["metadata"]["labels"] = {"app": "y"}
    found = admit(manifest, ON_A)
    assert found["spec"]["schedulingGates"] == [{"name": "theirs"}, {"name": keys.GATE}]
    assert found["spec"]["tolerations"][0] == {"key": "k", "operator": "Exists", "tolerationSeconds": 30}
    assert found["metadata"]["labels"]["app"] == "y"
    assert found["metadata"]["annotations"]["team"] == "x"
    assert found["metadata"]["annotations"][keys.CARD_MODELS] == "a100"


def test_a_pod_with_a_node_name_gets_no_gate() -> None:
    found = admit(pod("pod", nodeName="n1"), ON_A)
    assert "schedulingGates" not in found["spec"]


def test_amounts_that_the_user_wrote_stay_as_written() -> None:
    manifest = pod("pod", container(gpu_memory=4096, cpu="2"))
    manifest["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "500m"}
    manifest["spec"]["containers"][0]["resources"]["claims"] = [{"name": "net"}]
    resources = admit(manifest)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", keys.SLOT: "1"}
    assert resources["limits"]["cpu"] == "2"
    assert resources["claims"] == [{"name": "net"}]


MANIFESTS = [
    pytest.param(SHARE, ON_A, id="share"),
    pytest.param(
        pod("pod", container("a", gpu_mem=1), container("b", gpu_mem=2), init=(container("i", gpu_mem=1),)),
        placed(a=grant(A, 1024), b=grant(A, 2048), i=grant(A, 1024)),
        id="gpushare",
    ),
    pytest.param(
        pod("pod", {"name": "web"}, container("m", nvidia=1), init=(sidecar("s", gpu_memory=1),)),
        placed(m=grant(A, exclusive=True), s=grant(B, 1)),
        id="two dialects",
    ),
    pytest.param(
        pod("pod", annotations={"team": "x"}, schedulingGates=[{"name": "theirs"}]), ON_A, id="gated"
    ),
    pytest.param(pod("pod", nodeName="n1"), ON_A, id="nodeName"),
]


@pytest.mark.parametrize(("manifest", "placement"), MANIFESTS)
def test_a_second_round_of_admission_changes_nothing(manifest: Pod, placement: Placement) -> None:
    assert admission(admit(manifest, placement), placement) == []
    assert admission(admit(manifest, None), None) == []


@pytest.mark.parametrize(("manifest", "placement"), MANIFESTS)
def test_deciding_in_the_second_round_is_deciding_in_the_first(manifest: Pod, placement: Placement) -> None:
    assert admit(admit(manifest, None), placement) == admit(manifest, placement)
    assert admit(admit(manifest, placement), None) == admit(manifest, None)


def test_a_container_that_a_later_webhook_added_gets_its_slot_in_the_second_round() -> None:
    first = admit(SHARE, ON_A)
    first["spec"]["containers"].append(container("late", gpu_memory=1))
    second = admit(first, placed(main=grant(A, 4096), late=grant(B, 1)))
    assert second["spec"]["containers"][1]["resources"]["limits"][keys.SLOT] == "1"
    assert second["spec"]["containers"][0] == first["spec"]["containers"][0]
    assert second["spec"]["schedulingGates"] == [{"name": keys.GATE}]


# -- release


def pinned(node: str) -> Pod:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def terms_of(manifest: Pod) -> list[Pod]:
    required = manifest["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms: list[Pod] = required["nodeSelectorTerms"]
    return terms


def with_terms(*terms: Pod) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod("pod", affinity={"nodeAffinity": required, "podAffinity": {"x": 1}})


def test_one_patch_pins_ungates_and_writes_the_final_annotations() -> None:
    waiting = stored(admit(SHARE))
    found = apply(waiting, release(waiting, ON_A))
    assert terms_of(found) == [pinned("n1")]
    assert found["spec"]["schedulingGates"] == []
    final = decision.read(found["metadata"]["annotations"][keys.DECISION])
    assert (final.id, final.uid, final.placement) == (ID, UID, ON_A)
    assert found["metadata"]["annotations"]["cards.sublet.dev/main"] == "GPU-a"
    assert keys.WAITING not in found["metadata"]["annotations"]


def test_only_our_gate_is_removed() -> None:
    gated = stored(admit(pod("pod", schedulingGates=[{"name": "before"}])))
    gated["spec"]["schedulingGates"].append({"name": "after"})
    found = apply(gated, release(gated, ON_A))
    assert found["spec"]["schedulingGates"] == [{"name": "before"}, {"name": "after"}]


def test_the_pin_goes_into_every_term_that_selects_something() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    fields = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}
    empty: list[Pod] = [{}, {"matchExpressions": []}]
    gated = stored(admit(with_terms(zone, *empty, fields)))
    found = apply(gated, release(gated, ON_A))
    pin = pinned("n1")["matchFields"]
    assert terms_of(found) == [
        zone | {"matchFields": pin},
        *empty,
        {"matchFields": fields["matchFields"] + pin},
    ]
    assert found["spec"]["affinity"]["podAffinity"] == {"x": 1}


def test_a_pod_that_names_its_node_already_is_not_pinned_twice() -> None:
    gated = stored(admit(with_terms(pinned("n1"))))
    assert terms_of(apply(gated, release(gated, ON_A))) == [pinned("n1")]


def test_preferred_affinity_is_kept() -> None:
    gated = stored(admit(pod("pod", affinity={"nodeAffinity": {"preferred": [1]}})))
    affinity = apply(gated, release(gated, ON_A))["spec"]["affinity"]["nodeAffinity"]
    assert affinity["preferred"] == [1]
    assert len(affinity) == 2


def test_no_trace_of_an_older_decision_survives_the_release_of_a_newer() -> None:
    manifest = pod("pod", container("a", gpu_mem=1), container("b", gpu_mem=2))
    first = placed("n1", a=grant(A, 1024), b=grant(A, 2048))
    second = placed("n2", a=grant(B, 1024), b=grant(B, 2048))
    direct, detour = stored(admit(manifest, None)), stored(admit(manifest, first))
    assert apply(detour, release(detour, second)) == apply(direct, release(direct, second))
    assert "GPU-a" not in str(apply(detour, release(detour, second)))
    assert "n1" not in str(apply(detour, release(detour, second)))


def test_the_release_of_a_bound_pod_completes_its_annotations_and_leaves_its_spec() -> None:
    bound = stored(admit(pod("pod", nodeName="n1"), ON_A))
    found = apply(bound, release(bound, ON_A))
    assert found["spec"] == bound["spec"]
    assert decision.read(found["metadata"]["annotations"][keys.DECISION]).uid == UID


@pytest.mark.parametrize(
    "change",
    [
        {"uid": "u2"},
        {"resourceVersion": "8"},
    ],
)
def test_a_release_fails_on_another_or_a_changed_pod(change: Pod) -> None:
    gated = stored(admit(SHARE, ON_A))
    patch = release(gated, ON_A)
    gated["metadata"] |= change
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(gated, patch)


def test_a_release_fails_where_our_gate_is_no_longer_in_its_place() -> None:
    gated = stored(admit(SHARE, ON_A))
    patch = release(gated, ON_A)
    gated["spec"]["schedulingGates"] = [{"name": "theirs"}, {"name": keys.GATE}]
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(gated, patch)


# -- back to waiting


def wait(manifest: Pod, version: str, waiting: str = "no room") -> list[Pod]:
    return waiting_patch(manifest, ID, uid=UID, version=version, waiting=waiting, key=KEY)


def test_a_pod_that_waits_again_shows_nothing_of_its_proposal() -> None:
    proposed = stored(admit(pod("pod", container(gpu_mem=1)), placed(main=grant(A, 1024))))
    found = apply(proposed, wait(proposed, "7"))
    assert found["metadata"]["annotations"].keys() == {keys.DECISION, keys.WAITING}
    assert "GPU-a" not in str(found)
    assert found["spec"] == proposed["spec"]


def test_a_waiting_note_always_changes_the_pod() -> None:
    """So that every release patch that was made for an earlier version must fail."""
    now = stored(admit(SHARE), "7")
    for version in ("7", "8", "9"):
        now["metadata"]["resourceVersion"] = version
        after = apply(now, wait(now, version))
        assert after["metadata"]["annotations"] != now["metadata"]["annotations"]
        assert decision.is_signed(after["metadata"]["annotations"][keys.DECISION], KEY)
        now = after


def test_a_waiting_note_fails_on_a_changed_pod() -> None:
    gated = stored(admit(SHARE))
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(gated, wait(gated, "6"))


def test_a_pod_without_annotations_can_be_written_to() -> None:
    bare = stored(pod("pod", schedulingGates=[{"name": keys.GATE}]))
    assert "annotations" not in bare["metadata"]
    assert apply(bare, wait(bare, "7"))["metadata"]["annotations"][keys.WAITING] == "no room"
    assert "labels" in apply(bare, release(bare, ON_A))["metadata"]
    bare["metadata"] |= {"annotations": None, "labels": None}
    assert apply(bare, wait(bare, "7"))["metadata"]["annotations"][keys.WAITING] == "no room"


# -- pods that are not ours


def test_a_pod_of_another_gpu_stack_is_kept_off_our_nodes() -> None:
    found = apply(pod("pod"), elsewhere_patch(pod("pod")))
    requirement = {"key": "sublet.dev/cards", "operator": "DoesNotExist"}
    assert terms_of(found) == [{"matchExpressions": [requirement]}]
    assert elsewhere_patch(found) == []


def test_it_keeps_off_by_every_alternative_of_its_own() -> None:
    manifest = with_terms(
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    )
    found = terms_of(apply(manifest, elsewhere_patch(manifest)))
    assert all(
        {"key": "sublet.dev/cards", "operator": "DoesNotExist"} in term["matchExpressions"] for term in found
    )


# -- any pod

_NAMES = st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "MODE", "ALIYUN_COM_GPU_MEM_IDX"])
_ENV = st.lists(st.fixed_dictionaries({"name": _NAMES, "value": st.just("x")}), max_size=3)
_TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", "k"]),
            "operator": st.sampled_from(["Exists", "Equal"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        },
    ),
    max_size=3,
)


@given(
    env=st.none() | _ENV,
    tolerations=st.none() | _TOLERATIONS,
    gates=st.sampled_from([None, [], [{"name": "theirs"}]]),
    labels=st.sampled_from([None, {}, {"app": "x"}]),
    limits=st.sampled_from([{"gpu_memory": 1}, {"gpu_mem": 1}]),
)
def test_admission_is_the_same_the_second_time_for_any_pod(
    env: list[Pod] | None,
    tolerations: list[Pod] | None,
    gates: list[Pod] | None,
    labels: Pod | None,
    limits: Pod,
) -> None:
    main = container(**limits)
    manifest = pod("pod", main)
    for where, key, value in (
        (main, "env", env),
        (manifest["spec"], "tolerations", tolerations),
        (manifest["spec"], "schedulingGates", gates),
        (manifest["metadata"], "labels", labels),
    ):
        if value is not None:
            where[key] = value
    placement = placed(main=grant(A, 1024))
    once = admit(manifest, placement)
    assert admission(once, placement) == []
    names = [one["name"] for one in once["spec"]["containers"][0]["env"]]
    assert names.count("NVIDIA_VISIBLE_DEVICES") == 1
