"""What pods written for gpu-manager get."""

import json
from pathlib import Path

import pytest

from sublet.cli.errors import Unreadable
from sublet.cli.manifest import read_pods
from tests.builders import ask, container, pod
from tests.conformance.words import ALL, Claimed, Cluster, cards, claimed, example, refusal, sample, whole

CORE, MEMORY, LIMIT = (f"tencent.com/vcuda-{name}" for name in ("core", "memory", "core-limit"))


def asks(name: str, core: object = None, memory: object = None) -> dict[str, object]:
    amounts = {CORE: core, MEMORY: memory}
    return container(name, **{key: value for key, value in amounts.items() if value is not None})


def test_the_samples_are_a_limited_half_and_two_whole_cards() -> None:
    part, both = example("vcuda")
    assert claimed(part) == {"app": (1, 7680, 50, False)}
    assert ask(dict(part), options=ALL).claims[0].core_limit_percent == 50
    assert claimed(both) == {"app": whole(2)}


def test_a_number_without_quotes_is_refused_and_says_why() -> None:
    with pytest.raises(Unreadable, match="put it in quotes"):
        sample("vcuda/unquoted")


@pytest.mark.parametrize("key", ["annotation", "label"])
def test_a_key_that_kubernetes_drops_in_silence_is_named(key: str, tmp_path: Path) -> None:
    manifest = pod("p", asks("app", 50, 4))
    manifest["metadata"][key] = {LIMIT: "50"}
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(manifest))
    with pytest.raises(Unreadable, match=f"metadata.{key}: .*write {key}s"):
        read_pods([str(file)])


def test_results_are_written_as_gpu_manager_reads_them() -> None:
    placed = Cluster(cards("n1", 16384, 16384)).place(
        pod("p", {"name": "web"}, asks("a", 50, 30), asks("b", 100))
    )
    written = {key: value for key, value in placed["annotations"].items() if key.startswith("tencent.com/")}
    assert written == {
        "tencent.com/predicate-gpu-idx-1": "1",
        "tencent.com/predicate-gpu-idx-2": "0",
        "tencent.com/predicate-node": "n1",
        "tencent.com/predicate-time": "0",
        "tencent.com/gpu-assigned": "true",
    }
    assert placed["env"]["a"] == {
        "NVIDIA_VISIBLE_DEVICES": "n1/1",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
    }


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([{"name": "compat32", "value": "true"}], "/usr/local/nvidia/lib"),
        ([{"name": "LD_LIBRARY_PATH", "value": "/opt/own"}], None),
        ([{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}], "/usr/local/nvidia/lib64"),
    ],
    ids=["32 bit", "a path of the user's", "already written"],
)
def test_the_library_path_is_gpu_managers_where_the_user_has_none(
    env: list[dict[str, str]], expected: str | None
) -> None:
    manifest = pod("p", {**asks("app", 50, 4), "env": env})
    placed = Cluster(cards("n1", 16384)).place(manifest)
    assert placed["env"]["app"].get("LD_LIBRARY_PATH") == expected


@pytest.mark.parametrize(
    ("core", "memory", "expected"),
    [
        (1, 1, (1, 256, 1, False)),
        (99, 4, (1, 1024, 99, False)),
        (100, None, whole(1)),
        (100, 3, whole(1)),
        (300, 9, whole(3)),
    ],
)
def test_blocks_and_percent_are_read(core: int, memory: int | None, expected: Claimed) -> None:
    assert claimed(pod("p", asks("app", core, memory))) == {"app": expected}


@pytest.mark.parametrize(
    ("core", "memory", "code", "hint"),
    [
        (50, None, "MissingKey", MEMORY),
        (None, 4, "MissingKey", CORE),
        (150, 4, "BadQuantity", "Write 100 or 200"),
        (101, None, "BadQuantity", "Write 100 or 200"),
        (0, 4, "BadQuantity", ""),
        (50, 0, "BadQuantity", ""),
        (50, "16Gi", "BadQuantity", ""),
        (50, "10G", "BadQuantity", ""),
        ("5k", 4, "BadQuantity", ""),
        ("3000m", 4, "BadQuantity", ""),
        (50, 2**62, "BadQuantity", ""),
        (50, "", "BadQuantity", ""),
    ],
)
def test_what_gpu_manager_fails_later_is_refused_at_once(
    core: object, memory: object, code: str, hint: str
) -> None:
    found = refusal(pod("p", asks("app", core, memory)))
    assert found["code"] == code
    assert hint in found["hint"]


@pytest.mark.parametrize(("value", "expected"), [("80", 80), ("100", 100), ("400", 100)])
def test_a_soft_limit_is_at_most_a_card(value: str, expected: int) -> None:
    manifest = pod("p", asks("app", 50, 4), annotations={LIMIT: value})
    assert ask(manifest, options=ALL).claims[0].core_limit_percent == expected


@pytest.mark.parametrize("value", ["", "0", "half", "-1", "5%"])
def test_a_soft_limit_that_is_no_percentage_is_refused(value: str) -> None:
    manifest = pod("p", asks("app", 50, 4), annotations={LIMIT: value})
    assert refusal(manifest)["code"] == "BadAnnotation"


def test_the_four_pods_of_gpu_admission_go_where_it_sends_them() -> None:
    """Three nodes of two cards with four blocks each; cores over memory, per container."""
    cluster = Cluster(*(cards(f"node{at}", 1024, 1024) for at in range(3)))
    pods = [
        pod("pod-0", asks("a", 10, 1), asks("b", 10, 1)),
        pod("pod-1", asks("a", 100, 3), asks("b", 80, 3)),
        pod("pod-2", asks("a", 200, 10), {"name": "b"}),
        pod("pod-3", asks("a", 10, 2), {"name": "b"}),
    ]
    nodes = [
        {card.partition("/")[0] for cards_ in seat.values() for card in cards_}
        for seat in cluster.seats(pods)
    ]
    assert nodes == [{"node0"}, {"node1"}, {"node2"}, {"node0"}]


def test_five_equal_pods_started_together_are_told_apart() -> None:
    cluster = Cluster(cards("n1", 16384))
    placed = [cluster.place(pod(f"p{at}", asks("app", 20, 4))) for at in range(5)]
    assert {one["annotations"]["sublet.dev/decision"].count('"id"') for one in placed} == {1}
    assert len({one["annotations"]["sublet.dev/decision"] for one in placed}) == 5


@pytest.mark.parametrize("key", ["tencent.com/predicate-gpu-idx-0", "tencent.com/gpu-assigned"])
def test_results_that_a_user_writes_are_refused(key: str) -> None:
    assert refusal(pod("p", asks("app", 50, 4), annotations={key: "0"}))["code"] == "ReservedKey"
