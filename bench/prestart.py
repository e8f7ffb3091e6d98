"""How long the kubelet waits for PreStartContainer: an agent with four cards, a stand-in kubelet."""

import asyncio
from time import perf_counter

from bench.figure import Figure, spread
from tests.integration.agentstage import CARDS, agent_stage, grant, pod, uid_of

STARTS = 200


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    first_ms: list[float] = []
    again_ms: list[float] = []
    async with agent_stage() as stage, stage.agent(heartbeat_s=5.0, poll_s=10.0):
        for number in range(STARTS):
            name = f"p{number}"
            await stage.ledger.write(*grant(name, CARDS[number % len(CARDS)]))
            await stage.kubelet.admit(pod(name))
            for taken_ms in (first_ms, again_ms):
                since = perf_counter()
                await stage.kubelet.try_start(uid_of(name), "main")
                taken_ms.append((perf_counter() - since) * 1000)
            await stage.kubelet.end(uid_of(name))
    return [
        *spread("PreStartContainer, first start, kubelet's side included", first_ms, "ms"),
        *spread("PreStartContainer, restart, kubelet's side included", again_ms, "ms"),
    ]
