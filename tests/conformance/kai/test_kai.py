"""What pods written for KAI Scheduler get."""

from fractions import Fraction
from typing import Any

import pytest

from sublet.cli.claims import claims_of
from tests.builders import container, pod
from tests.conformance.words import ALL, Claimed, Cluster, cards, claimed, example, refusal

EIGHT = cards("n1", *[81920] * 8)


def asks(*containers: dict[str, Any], **annotations: str) -> dict[str, Any]:
    written = {key.replace("_", "-"): value for key, value in annotations.items()}
    return pod("p", *(containers or ({"name": "app"},)), annotations=written)


def test_the_samples_are_read() -> None:
    half = (1, Fraction(50), 50, False)
    assert [claimed(one) for one in example("kai")] == [
        {"first": half},
        {"first": (1, 2000, 0, False)},
        {"prepare": half},
        {"second": half},
        {"first": half},
    ]


def test_the_scheduler_is_replaced_and_claims_say_so() -> None:
    for one in example("kai"):
        document = claims_of(one, ALL)
        assert document["dialects"] == ["kai"]
        assert document["schedulerName"] == {"from": "kai-scheduler", "to": "default-scheduler"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"gpu_fraction": "0.125"}, (1, Fraction(25, 2), 12, False)),
        ({"gpu_fraction": ".25"}, (1, Fraction(25), 25, False)),
        ({"gpu_fraction": "0.001"}, (1, Fraction(1, 10), 0, False)),
        ({"gpu_fraction": "0.5", "gpu_fraction_num_devices": "2"}, (2, Fraction(50), 50, False)),
        ({"gpu_memory": "4096", "gpu_fraction_num_devices": "3"}, (3, 4096, 0, False)),
    ],
)
def test_fractions_amounts_and_numbers_of_cards(annotations: dict[str, str], expected: Claimed) -> None:
    assert claimed(asks(**annotations)) == {"app": expected}


@pytest.mark.parametrize(
    "value", ["NaN", "Inf", "1e-3", "0.5x", "1", "1.0", "0", "0.0", "-0.5", "0,5", "", " 0.5"]
)
def test_a_fraction_that_is_no_decimal_between_0_and_1_is_refused(value: str) -> None:
    found = refusal(asks(gpu_fraction=value))
    assert (found["code"], f"gpu-fraction={value!r}" in found["message"]) == ("BadAnnotation", True)


@pytest.mark.parametrize("value", ["0", "-1", "16Gi", "2000.5", "", "NaN", str(2**62)])
@pytest.mark.parametrize("key", ["gpu_memory", "gpu_fraction_num_devices"])
def test_a_number_that_is_not_whole_is_refused(key: str, value: str) -> None:
    other = {} if key == "gpu_memory" else {"gpu_memory": "1"}
    found = refusal(asks(**{key: value}, **other))
    assert (found["code"], f"{key.replace('_', '-')}={value!r}" in found["message"]) == (
        "BadAnnotation",
        True,
    )


def test_a_mode_of_sharing_that_cannot_be_had_is_never_ignored() -> None:
    mode = "kai.scheduler/gpu-compute-sharing-mode"
    for value, code in (("sm-sharing", "NotSupportedYet"), ("both", "BadAnnotation")):
        found = refusal(asks(gpu_fraction="0.5", **{mode: value}))
        assert (found["code"], f"{mode}={value!r}" in found["message"]) == (code, True)
        assert found["hint"]
    assert claimed(asks(gpu_fraction="0.5", **{mode: "time-slicing"})) == {
        "app": (1, Fraction(50), 50, False)
    }


def test_contradictions_are_refused() -> None:
    assert refusal(asks(gpu_fraction="0.5", gpu_memory="1"))["code"] == "ConflictingKeys"
    assert refusal(asks(gpu_fraction_num_devices="2"))["code"] == "MissingKey"
    assert refusal(asks(gpu_fraction="0.5", gpu_fraction_container_name="nobody"))["code"] == "BadAnnotation"
    both = refusal(asks(container("app", nvidia=1), gpu_fraction="0.5"))
    assert both["code"] == "TwoDialects"
    assert "gpu-fraction='0.5'" in both["message"]
    assert "nvidia.com/gpu='1'" in both["message"]


def test_another_container_of_the_pod_may_speak_another_dialect() -> None:
    found = claimed(asks({"name": "app"}, container("other", nvidia=1), gpu_fraction="0.5"))
    assert sorted(found) == ["app", "other"]


def test_results_are_written_as_kai_writes_them() -> None:
    placed = Cluster(EIGHT).place(asks(gpu_fraction="0.5"))
    assert placed["annotations"]["received-resource-type"] == "Fraction"
    assert placed["labels"]["runai-gpu-group"] == "n1/0"
    assert placed["env"]["app"] == {
        "NVIDIA_VISIBLE_DEVICES": "n1/0",
        "GPU_PORTION": "0.50",
        "RUNAI_NUM_OF_GPUS": "0.50",
    }


def test_several_cards_are_a_label_each() -> None:
    placed = Cluster(EIGHT).place(asks(gpu_fraction="0.125", gpu_fraction_num_devices="2"))
    groups = {key: value for key, value in placed["labels"].items() if key.startswith("runai")}
    assert groups == {"runai-gpu-group/n1/0": "n1/0", "runai-gpu-group/n1/1": "n1/1"}
    assert placed["env"]["app"]["GPU_PORTION"] == "0.125"


def test_memory_is_kept_to_the_mib_and_only_told_as_a_rounded_portion() -> None:
    placed = Cluster(cards("n1", 15360)).place(asks(gpu_memory="4096"))
    assert placed["containers"]["app"][0]["memoryMiB"] == 4096
    assert placed["env"]["app"]["GPU_PORTION"] == "0.27"


def test_sixteen_halves_fill_eight_cards() -> None:
    seats = Cluster(EIGHT).seats([asks(gpu_fraction="0.5")] * 16)
    assert sorted(seat["app"][0] for seat in seats) == sorted([f"n1/{at}" for at in range(8)] * 2)


def test_results_that_a_user_writes_are_refused() -> None:
    forged = asks(gpu_fraction="0.5")
    forged["metadata"]["labels"] = {"runai-gpu-group": "n1/0"}
    assert refusal(forged)["code"] == "ReservedKey"
