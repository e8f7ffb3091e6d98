"""The scheduler's settings: read from the environment, wrong ones refused by name."""

import pytest
from sublet_scheduler.settings import MemoryUnit, Settings

from sublet.contract.overcommit import Overcommit
from sublet.model.claim import Policy
from sublet.model.errors import BadRequest
from sublet.runtime.settings import read_settings


def test_every_kind_of_setting_is_read() -> None:
    found = read_settings(
        Settings,
        {
            "SUBLET_WEBHOOK_NAMES": "a.svc, 127.0.0.1",
            "SUBLET_DECISION_BUDGET_S": "1.5",
            "SUBLET_GPU_MEM_UNIT": "MiB",
            "SUBLET_GPU_MEM_POOLS": "pool=large:GiB",
            "SUBLET_NODE_POLICY": "spread",
            "SUBLET_OVERCOMMIT_MEMORY": "T4:1.5, pool=dev:2",
            "SUBLET_OVERCOMMIT_CORE": "pool=dev:3",
            "SUBLET_MANAGE_ALL": "true",
            "SUBLET_DIALECTS": "sublet",
        },
    )
    assert found.webhook_names == ("a.svc", "127.0.0.1")
    assert found.decision_budget_s == 1.5
    assert found.gpu_mem_unit is MemoryUnit.MIB
    assert found.options.gpu_mem_unit_mib == 1
    assert found.options.on({"pool": "large"}).gpu_mem_unit_mib == 1024
    assert found.options.enabled == ("sublet",)
    assert found.node_policy is Policy.SPREAD
    assert found.manage_all
    assert found.overcommit == Overcommit.read(memory=("T4:1.5", "pool=dev:2"), core=("pool=dev:3",))
    assert not Settings().overcommit


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SUBLET_DIALECTS", "sublet,qgpux", "names 'qgpux'"),
        ("SUBLET_CARD_POLICY", "tightest", "not one of binpack, spread, fragmentation"),
        ("SUBLET_GPU_MEM_UNIT", "GB", "not one of GiB, MiB"),
        ("SUBLET_GPU_MEM_POOLS", "pool=large", "SUBLET_GPU_MEM_POOLS: 'pool=large' says no unit"),
        ("SUBLET_GPU_MEM_POOLS", "pool=a:MiB,pool=a:GiB", "SUBLET_GPU_MEM_POOLS: .* in two units"),
        ("SUBLET_OVERCOMMIT_MEMORY", "T4:0.5", "SUBLET_OVERCOMMIT_.*'T4:0.5' has the ratio '0.5'"),
        ("SUBLET_OVERCOMMIT_CORE", "2", "SUBLET_OVERCOMMIT_.*'2' does not say which cards"),
        ("SUBLET_WEBHOOK_PRT", "1", "unknown setting"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, value: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read_settings(Settings, {name: value})


@pytest.mark.parametrize("count", ["-1", "101"])
def test_a_number_of_placeholders_without_sense_is_refused(count: str) -> None:
    with pytest.raises(BadRequest, match=f"SUBLET_PLACEHOLDERS={count} is not from 0 to 100"):
        read_settings(Settings, {"SUBLET_PLACEHOLDERS": count})
