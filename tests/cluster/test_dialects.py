"""Pods of all dialects at once on one real node: each container finds the variables of its own system."""

from typing import Any

import pytest

from sublet.contract import keys
from tests.cluster.proofs import proves
from tests.cluster.stage import CARD_MIB, Namespace, Stage, container, pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

LIMITS: dict[str, dict[str, object]] = {
    "native": {keys.GPU_MEMORY: 512},
    "nvidia": {keys.NVIDIA_GPU_SHARED: 1},
    "gpushare": {keys.ALIYUN_GPU_MEM: 1},
    "volcano": {keys.VOLCANO_GPU_MEMORY: 512},
    "volcano-virtual": {keys.VOLCANO_VGPU_NUMBER: 1, keys.VOLCANO_VGPU_MEMORY: 512},
    "volcano-spread": {keys.VOLCANO_GPU_MEMORY: CARD_MIB + 2},
    "qgpu": {keys.QGPU_CORE: 5, keys.QGPU_MEMORY: 1},
    "elastic": {"elasticgpu.io/gpu-memory": 512},
    "vcuda": {keys.VCUDA_CORE: 5, keys.VCUDA_MEMORY: 2},
    "kai": {},
}
TOTAL = str(CARD_MIB)
EXPECTED: dict[str, dict[str, str]] = {
    "native": {},
    "nvidia": {},
    "gpushare": {
        "ALIYUN_COM_GPU_MEM_POD": "1",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "1",
        "ALIYUN_COM_GPU_MEM_DEV": str(CARD_MIB // 1024),
    },
    "volcano": {
        "VOLCANO_GPU_ALLOCATED": "512",
        "VOLCANO_GPU_TOTAL": TOTAL,
        "VOLCANO_GPU_MEMORY_TOTAL": TOTAL,
    },
    "volcano-virtual": {"CUDA_DEVICE_MEMORY_LIMIT_0": "512m", "CUDA_DEVICE_SM_LIMIT": "0"},
    "volcano-spread": {"VOLCANO_GPU_ALLOCATED": str(CARD_MIB + 2)},
    "qgpu": {},
    "elastic": {},
    "vcuda": {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
    "kai": {"GPU_PORTION": "0.10", "RUNAI_NUM_OF_GPUS": "0.10"},
}
SCHEDULERS = {"volcano": "volcano", "kai": "kai-scheduler"}


def asks(name: str, stage: Stage) -> dict[str, Any]:
    spec = {"schedulerName": SCHEDULERS[name]} if name in SCHEDULERS else {}
    limits = {key: str(amount) for key, amount in LIMITS[name].items()}
    main = {**container(), "resources": {"limits": limits}}
    manifest = pod(name, main, node=stage.nodes[0], **spec)
    if name == "kai":
        manifest["metadata"]["annotations"] = {"gpu-fraction": "0.1"}
    return manifest


async def test_pods_of_all_dialects_run_side_by_side_and_cards_add_up(stage: Stage, place: Namespace) -> None:
    for name in LIMITS:
        await place.create(asks(name, stage))
    cards = {name: await proves(place, name) for name in LIMITS}
    for name, expected in EXPECTED.items():
        env = await place.environ(name)
        assert {key: env.get(key) for key in expected} == expected, name
    assert len(cards["volcano-spread"]) == 2
    assert len((await place.environ("elastic"))["GPU"]) == 8
    entry = await stage.ledger(stage.nodes[0])
    assert entry is not None
    used: dict[str, int] = {}
    for one in entry.grants:
        used[one.grant.card] = used.get(one.grant.card, 0) + (one.grant.memory_mib or 0)
    assert all(memory_mib <= CARD_MIB for memory_mib in used.values())
    assert sum(used.values()) == 5 * 512 + 2 * 1024 + (CARD_MIB + 2) + CARD_MIB // 10
