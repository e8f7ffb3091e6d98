"""What pods written for Elastic GPU get."""

import hashlib

import pytest

from tests.builders import container, pod
from tests.conformance.words import Claimed, Cluster, cards, claimed, example, refusal, whole

BOTH = pytest.mark.parametrize("domain", ["elasticgpu.io", "elasticgpu.com"])


def asks(name: str = "app", domain: str = "elasticgpu.io", **amounts: object) -> dict[str, object]:
    return container(name, **{f"{domain}/gpu-{key}": value for key, value in amounts.items()})


def test_the_sample_gets_a_share_and_two_whole_cards() -> None:
    [one] = example("elastic-gpu")
    assert claimed(one) == {"small": (1, 256, 0, False), "large": whole(2)}
    placed = Cluster(cards("n1", 8192, 8192, 8192)).place(one)
    assert [grant["card"] for grant in placed["containers"]["large"]] == ["n1/0", "n1/1"]
    written = {key: value for key, value in placed["annotations"].items() if key.startswith("elasticgpu")}
    assert written == {
        "elasticgpu.io/assumed": "true",
        "elasticgpu.io/container-large": "0,1",
        "elasticgpu.io/container-small": "2",
    }
    assert placed["labels"]["elasticgpu.io/assumed"] == "true"
    assert placed["env"]["large"] == {
        "NVIDIA_VISIBLE_DEVICES": "n1/0,n1/1",
        "GPU": hashlib.sha256(b"n1/0:n1/1").hexdigest()[:8],
    }


@BOTH
@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ({"core": 30, "memory": 2000}, (1, 2000, 30, False)),
        ({"core": 30}, (1, None, 30, False)),
        ({"memory": 2000}, (1, 2000, 0, False)),
        ({"core": 100}, whole(1)),
        ({"core": 300, "memory": 5}, whole(3)),
    ],
)
def test_both_domains_are_read_alike(domain: str, amounts: dict[str, int], expected: Claimed) -> None:
    limits = {f"{domain}/gpu-{key}": value for key, value in amounts.items()}
    assert claimed(pod("p", container("app", **limits))) == {"app": expected}


def test_each_container_has_cards_of_its_own() -> None:
    two = pod("p", asks("a", core=60, memory=1), asks("b", core=60, memory=1))
    assert Cluster(cards("n1", 8192, 8192)).seats([two]) == [{"a": ["n1/0"], "b": ["n1/1"]}]


def test_the_rest_beyond_whole_cards_is_refused_and_not_dropped() -> None:
    found = refusal(pod("p", asks(core=150)))
    assert (found["code"], found["hint"]) == ("BadQuantity", "Write 100 or 200")


def test_one_resource_in_both_domains_is_refused() -> None:
    twice = container("app", **{"elasticgpu.io/gpu-core": 10, "elasticgpu.com/gpu-core": 10})
    assert refusal(pod("p", twice))["code"] == "ConflictingKeys"


@BOTH
@pytest.mark.parametrize("value", ["10G", "16Gi", "5k", "3000m", "0", "", "-1", 2**62])
def test_an_amount_that_is_no_plain_number_is_refused_with_its_unit(domain: str, value: object) -> None:
    found = refusal(pod("p", asks(domain=domain, memory=value)))
    assert (found["code"], "MiB" in found["message"]) == ("BadQuantity", True)


def test_a_long_container_name_gets_no_annotation_that_the_api_server_would_refuse() -> None:
    long = "c" * 60
    placed = Cluster(cards("n1", 8192)).place(pod("p", asks(long, core=10)))
    assert [key for key in placed["annotations"] if key.startswith("elasticgpu.io/container-")] == []


@pytest.mark.parametrize("key", ["elasticgpu.io/assumed", "elasticgpu.io/container-app"])
def test_results_that_a_user_writes_are_refused(key: str) -> None:
    assert refusal(pod("p", asks(core=10), annotations={key: "0"}))["code"] == "ReservedKey"
    labelled = pod("p", asks(core=10))
    labelled["metadata"]["labels"] = {"elasticgpu.io/assumed": "true"}
    assert refusal(labelled)["code"] == "ReservedKey"
