"""What pods written for qGPU get."""

import pytest

from sublet.contract.dialects.qgpu import QGPU
from sublet.model.claim import Claim
from tests.builders import ask, card, container, pod
from tests.conformance.words import ALL, Claimed, Cluster, cards, claimed, example, refusal, sample, whole

CORE, MEMORY, GREEDY = (f"tke.cloud.tencent.com/qgpu-{name}" for name in ("core", "memory", "core-greedy"))
CLASS = "tke.cloud.tencent.com/app-class"


def asks(core: object = None, memory: object = None, greedy: object = None) -> dict[str, object]:
    amounts = {CORE: core, MEMORY: memory, GREEDY: greedy}
    return container("app", **{key: value for key, value in amounts.items() if value is not None})


def of_class(app_class: str, **amounts: object) -> dict[str, object]:
    return pod("p", asks(**amounts), annotations={CLASS: app_class})


@pytest.mark.parametrize(
    ("core", "memory", "expected"),
    [
        (5, 1, (1, 1024, 5, False)),
        (30, 5, (1, 5120, 30, False)),
        (95, 15, (1, 15360, 95, False)),
        (100, None, whole(1)),
        (100, 4, whole(1)),
        (200, None, whole(2)),
        (800, None, whole(8)),
        (101, 4, (2, 2048, 50, False)),
        (121, 31, (2, 15360, 60, False)),
        (160, 60, (2, 30720, 80, False)),
    ],
)
def test_compute_and_memory_are_read_as_documented(core: int, memory: int | None, expected: Claimed) -> None:
    assert claimed(pod("p", asks(core, memory))) == {"app": expected}


@pytest.mark.parametrize(
    ("core", "memory", "code"),
    [
        (0, 1, "BadQuantity"),
        (1, 1, "BadQuantity"),
        (4, 1, "BadQuantity"),
        (7, 1, "BadQuantity"),
        (99, 1, "BadQuantity"),
        (201, 9, "BadQuantity"),
        (250, 60, "BadQuantity"),
        ("10G", 1, "BadQuantity"),
        ("5k", 1, "BadQuantity"),
        ("3000m", 1, "BadQuantity"),
        (2**31, 1, "BadQuantity"),
        (2**62, 1, "BadQuantity"),
        ("", 1, "BadQuantity"),
        (30, 0, "BadQuantity"),
        (30, "16Gi", "BadQuantity"),
        (121, 1, "BadQuantity"),
        (30, None, "MissingKey"),
        (121, None, "MissingKey"),
        (None, 5, "MissingKey"),
    ],
)
def test_what_qgpu_does_not_serve_is_refused_with_rule_and_way_out(
    core: object, memory: object, code: str
) -> None:
    found = refusal(pod("p", asks(core, memory)))
    assert found["code"] == code
    assert "tke.cloud.tencent.com/qgpu-" in found["message"]
    assert found["hint"]


def test_a_bad_step_names_the_amounts_beside_it() -> None:
    assert "Write 5 or 10" in refusal(pod("p", asks(7, 1)))["hint"]
    assert "Write 200 or 300" in refusal(pod("p", asks(250, 60)))["hint"]


def test_a_split_request_goes_on_two_cards() -> None:
    placed = Cluster(cards("n1", 32768, 32768)).place(example("qgpu")[0])
    assert placed["containers"]["app"] == [
        {"card": f"n1/{at}", "index": at, "memoryMiB": 30720, "corePercent": 80} for at in range(2)
    ]
    written = placed["annotations"]
    assert (written["elasticgpu.io/container-app"], written["elasticgpu.io/assumed"]) == ("0,1", "true")
    assert placed["labels"]["elasticgpu.io/assumed"] == "true"
    assert placed["env"]["app"] == {"NVIDIA_VISIBLE_DEVICES": "n1/0,n1/1"}


def test_a_card_carries_sixteen_and_the_seventeenth_waits_though_memory_is_free() -> None:
    cluster = Cluster(cards("n1", 40960))
    outcomes = [cluster.place(pod(f"p{at}", asks(5, 1))) for at in range(17)]
    assert [one["outcome"] for one in outcomes] == ["placed"] * 16 + ["held"]
    assert outcomes[16]["reasons"] == {"TooManyShares": 1}


# -- classes


def claim_of(manifest: dict[str, object]) -> Claim:
    [one] = ask(manifest, options=ALL).claims
    return one


def test_an_offline_pod_may_use_compute_and_is_promised_none() -> None:
    batch, service = sample("qgpu/classes")
    found = claim_of(dict(batch))
    assert (found.memory_mib, found.core_percent, found.core_limit_percent) == (5120, 0, 10)
    assert found.service_class == "offline"
    found = claim_of(dict(service))
    assert (found.memory_mib, found.core_percent, found.core_limit_percent) == (5120, 0, None)
    assert found.service_class == "online"


@pytest.mark.parametrize(
    ("manifest", "code"),
    [
        (of_class("offline", greedy=10), "MissingKey"),
        (of_class("offline", memory=5), "MissingKey"),
        (of_class("offline", core=10, memory=5), "ConflictingKeys"),
        (of_class("offline", greedy=101, memory=5), "BadQuantity"),
        (of_class("offline", greedy=200, memory=5), "BadQuantity"),
        (of_class("online", core=10, memory=5), "ConflictingKeys"),
        (of_class("online", greedy=10, memory=5), "ConflictingKeys"),
        (pod("p", asks(greedy=10, memory=5)), "ConflictingKeys"),
        (of_class("sometimes", core=10, memory=5), "BadAnnotation"),
    ],
)
def test_resources_that_do_not_go_with_the_class_are_refused(manifest: dict[str, object], code: str) -> None:
    assert refusal(manifest)["code"] == code


def test_many_offline_pods_never_exceed_the_total_of_greedy_compute() -> None:
    """Its amounts are limits, not promises: all shares of a card may ask for all of it."""
    held = Cluster(cards("n1", 16384)).seats([of_class("offline", greedy=100, memory=1)] * 16)
    assert held == [{"app": ["n1/0"]}] * 16
    totals = QGPU.totals([card("a", gib=16)], shares_per_card=16, options=ALL)
    assert totals == {CORE: 100, GREEDY: 1600, MEMORY: 16}
