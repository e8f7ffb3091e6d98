"""The agent on a kubelet: who gets which card, what may start, and what everybody else hears of it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from sublet.contract import keys
from tests.integration.agentstage import CARDS, Stage, agent_stage, claiming, grant, pod

A, B, C, D = CARDS


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    async with agent_stage() as made:
        yield made


async def test_each_container_sees_the_cards_of_its_own_grant(stage: Stage) -> None:
    async with stage.agent():
        await stage.ledger.write(
            *grant("p", A, memory_mib=4096, core_percent=30, container="one"),
            *grant("p", B, D, container="two", GPU_MEM_IDX="1"),
        )
        await stage.kubelet.run(pod("p", claiming("one"), claiming("two")))

    assert stage.sees("p", "one") == {
        keys.ENV_NVIDIA_VISIBLE: A,
        keys.ENV_CARDS: A,
        keys.ENV_MEMORY_MIB: "4096",
        keys.ENV_CORE_PERCENT: "30",
    }
    assert stage.nodes("p", "one") == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert stage.sees("p", "two")[keys.ENV_NVIDIA_VISIBLE] == f"{B},{D}"
    assert stage.sees("p", "two")["GPU_MEM_IDX"] == "1"
    assert stage.nodes("p", "two") == ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia3"]
