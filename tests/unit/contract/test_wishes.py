"""Every annotation of ours is honoured or refused by name; none is read and ignored."""

from typing import Any

import pytest

from sublet.contract import keys
from sublet.model.claim import Apart, LinkWish, Policy, Requirement, Toleration, Wishes
from sublet.model.reasons import Refusal, RefusalCode
from tests.builders import ask, container, pod, reading


def wished(key: str, value: str) -> Wishes:
    return ask(pod("pod", annotations={key: value})).wishes


def refused(key: str, value: Any, *containers: dict[str, Any]) -> Refusal:
    found = reading(pod("pod", *containers, annotations={key: value}))
    assert isinstance(found, Refusal), found
    return found


def test_without_annotations_links_are_preferred_and_the_rest_is_open() -> None:
    found = ask(pod("pod")).wishes
    assert found.link is LinkWish.PREFERRED
    assert (found.node_policy, found.card_policy, found.same_card, found.card_models) == (
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize(
    ("key", "value", "attribute", "read"),
    [
        (keys.CARD_MODELS, "A100, h200 ,", "card_models", ("a100", "h200")),
        (keys.EXCLUDE_CARD_MODELS, "T4", "exclude_card_models", ("t4",)),
        (keys.CARD_UUIDS, "GPU-aB, GPU-c", "card_uuids", ("GPU-aB", "GPU-c")),
        (keys.EXCLUDE_CARD_UUIDS, "GPU-d", "exclude_card_uuids", ("GPU-d",)),
        (keys.NODE_POLICY, "spread", "node_policy", Policy.SPREAD),
        (keys.CARD_POLICY, "binpack", "card_policy", Policy.BINPACK),
        (keys.LINK, "required", "link", LinkWish.REQUIRED),
        (keys.LINK, "preferred", "link", LinkWish.PREFERRED),
        (keys.NUMA, "same", "one_numa", True),
        (keys.SAME_CARD, "team-1", "same_card", "team-1"),
        (keys.APART, "cards", "apart", Apart.CARDS),
        (keys.APART, "nodes", "apart", Apart.NODES),
    ],
)
def test_each_wish_is_read(key: str, value: str, attribute: str, read: object) -> None:
    assert getattr(wished(key, value), attribute) == read


def test_no_isolation_is_what_there_is() -> None:
    assert wished(keys.ISOLATION, "none") == ask(pod("pod")).wishes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.ISOLATION, "mps"),
    ],
)
def test_what_is_not_built_yet_says_so(key: str, value: str) -> None:
    refusal = refused(key, value)
    assert refusal.code is RefusalCode.NOT_SUPPORTED_YET
    assert f"{key}={value!r}" in refusal.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.CARD_MODELS, ""),
        (keys.CARD_UUIDS, " , "),
        (keys.EXCLUDE_CARD_MODELS, ","),
        (keys.EXCLUDE_CARD_UUIDS, ""),
        (keys.NODE_POLICY, "Binpack"),
        (keys.CARD_POLICY, ""),
        (keys.LINK, "nvlink"),
        (keys.NUMA, "other"),
        (keys.APART, "zones"),
        (keys.SERVICE_CLASS, "batch"),
        (keys.SAME_CARD, " "),
        (keys.SAME_CARD, 1),
        (keys.LINK, True),
        (keys.CARD_MODELS, None),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(key: str, value: object) -> None:
    refusal = refused(key, value)
    assert refusal.code is RefusalCode.BAD_ANNOTATION
    assert f"{key}={value!r}" in refusal.message
    assert refusal.hint.startswith("Allowed: ")


@pytest.mark.parametrize("key", ["sublet.dev/card-model", "sublet.dev/", keys.HEALTH_ANNOTATION])
def test_an_unknown_annotation_of_ours_is_refused_by_name(key: str) -> None:
    refusal = refused(key, "x")
    assert refusal.code is RefusalCode.UNKNOWN_ANNOTATION
    assert key in refusal.message
    assert keys.CARD_MODELS in refusal.hint


def test_annotations_of_others_are_no_business_of_ours() -> None:
    assert wished("example.com/sublet.dev", "x") == ask(pod("pod")).wishes


def test_a_pod_without_a_claim_may_say_what_it_likes() -> None:
    assert reading(pod("pod", {"name": "main"}, annotations={"sublet.dev/typo": "x"})) is None


def test_pods_share_a_card_or_keep_apart() -> None:
    both = reading(pod("p", annotations={keys.SAME_CARD: "g", keys.APART: "cards"}))
    assert isinstance(both, Refusal)
    assert both.code is RefusalCode.CONFLICTING_KEYS
    assert keys.APART in both.message


def test_a_same_card_group_is_for_claims_of_one_card() -> None:
    refusal = refused(keys.SAME_CARD, "g", container("a", gpu_memory=1), container("b", gpu=2, gpu_memory=1))
    assert refusal.code is RefusalCode.CONFLICTING_KEYS
    assert "claim of 2 cards" in refusal.message


def test_selectors_affinity_and_tolerations_are_read() -> None:
    terms = [
        {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
        },
        {},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    manifest = pod(
        "pod",
        nodeSelector={"disk": "fast"},
        affinity={"nodeAffinity": required},
        tolerations=[{"key": "k", "value": "v", "effect": "NoSchedule"}],
    )
    found = ask(manifest).wishes
    assert found.node_selector == {"disk": "fast"}
    assert found.affinity == (
        (
            Requirement(key="zone", operator="In", values=("a", "b")),
            Requirement(key="metadata.name", operator="In", values=("n1",), field=True),
        ),
        (),
    )
    assert found.tolerations == (
        Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"),
        Toleration(key="nvidia.com/gpu", operator="Exists"),
        Toleration(key="amd.com/gpu", operator="Exists"),
    )


def test_a_taint_that_is_tolerated_already_is_not_tolerated_twice() -> None:
    everything = ask(pod("pod", tolerations=[{"operator": "Exists"}])).wishes
    assert everything.tolerations == (Toleration(operator="Exists"),)
    a_part = ask(
        pod("p", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}])
    )
    assert Toleration(key="nvidia.com/gpu", operator="Exists") in a_part.wishes.tolerations
