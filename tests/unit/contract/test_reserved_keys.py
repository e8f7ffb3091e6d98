"""What only the scheduler writes is refused from anybody else."""

from typing import Any

import pytest

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.contract.reading import forged_keys
from sublet.model.reasons import Refusal, RefusalCode
from tests.builders import container, pod

NATIVE_ONLY = Options(enabled=("sublet",))


def forged(manifest: dict[str, Any]) -> Refusal:
    found = forged_keys(manifest, Options())
    assert isinstance(found, Refusal)
    return found


@pytest.mark.parametrize(
    "key",
    [
        keys.DECISION,
        keys.WAITING,
        "cards.sublet.dev/main",
        "cards.sublet.dev/",
        "ALIYUN_COM_GPU_MEM_IDX",
        "ALIYUN_COM_GPU_MEM_DEV",
        "ALIYUN_COM_GPU_MEM_POD",
        "ALIYUN_COM_GPU_MEM_ASSIGNED",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME",
        "scheduler.framework.gpushare.allocation",
    ],
)
@pytest.mark.parametrize("value", ["0", "", 5])
def test_an_annotation_of_the_scheduler_is_refused_by_name(key: str, value: object) -> None:
    manifest = pod("pod")
    manifest["metadata"]["annotations"] = {key: value}
    refusal = forged(manifest)
    assert refusal.code is RefusalCode.RESERVED_KEY
    assert key in refusal.message


def test_a_long_forged_value_is_shortened() -> None:
    assert len(forged(pod("pod", annotations={keys.DECISION: "x" * 5000})).message) < 250


def test_the_label_and_the_gate_are_the_schedulers() -> None:
    labelled = pod("pod")
    labelled["metadata"]["labels"] = {keys.CLAIMED_LABEL: "false"}
    assert "label sublet.dev/claimed='false'" in forged(labelled).message
    gated = pod("pod", schedulingGates=[{"name": "other"}, {"name": keys.GATE}])
    assert "scheduling gate sublet.dev/placement" in forged(gated).message


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_nobody_asks_for_a_slot(where: str) -> None:
    manifest = pod("pod")
    manifest["spec"][where] = [container("x", **{keys.SLOT: 1})]
    refusal = forged(manifest)
    assert refusal.code is RefusalCode.RESERVED_RESOURCE
    assert "container 'x' has sublet.dev/slot='1'" in refusal.message


def test_what_another_gpu_stack_wrote_is_left_alone_where_its_dialect_does_not_count() -> None:
    manifest = pod("pod", annotations={"ALIYUN_COM_GPU_MEM_IDX": "0"})
    assert forged_keys(manifest, NATIVE_ONLY) is None


def test_a_pod_as_users_write_it_is_not_forged() -> None:
    manifest = pod("pod", annotations={keys.CARD_MODELS: "a100"}, schedulingGates=[{"name": "other"}])
    assert forged_keys(manifest, Options()) is None
    assert forged_keys({"metadata": {}, "spec": {}}, Options()) is None
