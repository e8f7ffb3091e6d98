"""To which gang a pod belongs: our own words, and those of other controllers."""

from typing import Any

import pytest

from sublet.contract import gangs, keys
from sublet.contract.gangs import read_gang
from sublet.model.claim import Gang
from sublet.model.reasons import Refusal, RefusalCode
from tests.builders import ask, pod, reading


def labelled(annotations: dict[str, str] | None = None, **labels: str) -> dict[str, Any]:
    manifest = pod("p", annotations=annotations)
    manifest["metadata"]["labels"] = labels
    return manifest


def test_our_annotations_name_the_gang_and_its_size() -> None:
    manifest = pod("p", annotations={keys.GANG: "train", keys.GANG_SIZE: "4"})
    assert ask(manifest).gang == Gang(name="train", size=4)


def test_a_gang_of_one_is_none() -> None:
    assert ask(pod("p", annotations={keys.GANG: "train", keys.GANG_SIZE: "1"})).gang is None
    assert ask(pod("p", annotations={keys.GANG_SIZE: "1"})).gang is None


@pytest.mark.parametrize(
    ("written", "code", "named"),
    [
        ({keys.GANG: "train"}, RefusalCode.MISSING_KEY, keys.GANG_SIZE),
        ({keys.GANG_SIZE: "4"}, RefusalCode.MISSING_KEY, keys.GANG),
        ({keys.GANG: "train", keys.GANG_SIZE: "0"}, RefusalCode.BAD_ANNOTATION, "'0'"),
        ({keys.GANG: "train", keys.GANG_SIZE: "four"}, RefusalCode.BAD_ANNOTATION, "'four'"),
        ({keys.GANG: "train", keys.GANG_SIZE: "10001"}, RefusalCode.BAD_ANNOTATION, "10000"),
        ({keys.GANG: " ", keys.GANG_SIZE: "4"}, RefusalCode.BAD_ANNOTATION, keys.GANG),
    ],
)
def test_half_a_gang_or_a_bad_size_is_refused(written: dict[str, str], code: RefusalCode, named: str) -> None:
    refused = reading(pod("p", annotations=written))
    assert isinstance(refused, Refusal)
    assert refused.code is code
    assert named in str(refused)


def test_a_leader_worker_set_is_one_gang_a_group() -> None:
    lws = {gangs.LWS_NAME: "vllm", gangs.LWS_GROUP: "2"}
    assert read_gang(labelled({gangs.LWS_SIZE: "8"}, **lws)) == Gang(name="vllm/2", size=8, derived=True)


def test_a_kueue_pod_group_is_a_gang() -> None:
    found = read_gang(labelled({gangs.KUEUE_TOTAL: "3"}, **{gangs.KUEUE_GROUP: "g"}))
    assert found == Gang(name="g", size=3, derived=True)


@pytest.mark.parametrize("label", gangs.NAMES)
def test_where_only_the_name_is_told_our_size_is_enough(label: str) -> None:
    assert read_gang(labelled({keys.GANG_SIZE: "4"}, **{label: "job"})) == Gang(name="job", size=4)
    assert read_gang(labelled({}, **{label: "job"})) is None


def test_a_scheduling_group_names_a_gang() -> None:
    manifest = pod("p", annotations={keys.GANG_SIZE: "2"}, schedulingGroup={"podGroupName": "workers"})
    assert read_gang(manifest) == Gang(name="workers", size=2)


def test_our_size_beats_what_others_say() -> None:
    lws = {gangs.LWS_NAME: "vllm", gangs.LWS_GROUP: "0"}
    assert read_gang(labelled({gangs.LWS_SIZE: "8", keys.GANG_SIZE: "1"}, **lws)) is None
    assert read_gang(labelled({gangs.LWS_SIZE: "8", keys.GANG_SIZE: "7"}, **lws)) == Gang(
        name="vllm/0", size=7
    )
