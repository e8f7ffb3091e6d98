"""Whatever variables a user brings along, the container sees the cards of the decision, in every mode."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sublet.contract import keys
from tests.cluster.proofs import decided
from tests.cluster.stage import Namespace, Stage, agent_name, container, pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

THEIRS = {"NVIDIA_VISIBLE_DEVICES": "all", "SUBLET_CARDS": "all"}
FROM_MAP = [{"configMapRef": {"name": "theirs"}}]
WAYS: dict[str, dict[str, Any]] = {
    "value": {"env": [{"name": name, "value": value} for name, value in THEIRS.items()] * 2},
    "one-key": {
        "env": [
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": "theirs", "key": name}}}
            for name in THEIRS
        ]
    },
    "config-map": {"envFrom": FROM_MAP},
    "secret": {"envFrom": [{"secretRef": {"name": "theirs"}}]},
    "prefix": {
        "envFrom": [
            {"prefix": "NVIDIA_", "configMapRef": {"name": "prefixed"}},
            {"prefix": "SUBLET_", "configMapRef": {"name": "prefixed"}},
        ]
    },
}
SETTINGS = {
    "cdi": {},
    "cdi-nvidia-runtime": {"SUBLET_RUNTIME": "nvidia"},
    "env": {"SUBLET_INJECTION": "env"},
}


@pytest.fixture(params=list(SETTINGS))
async def mode(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """How the second node's agent brings cards into containers."""
    node = stage.nodes[1]
    chosen: str = request.param
    if chosen == "cdi":
        yield chosen
        return
    await stage.restart_agent(node, **SETTINGS[chosen])
    yield chosen
    await stage.stop(agent_name(node))
    stage.start_agent(node)
    await stage.ready(agent_name(node))


async def test_variables_of_a_user_never_beat_the_decision(stage: Stage, place: Namespace, mode: str) -> None:
    maps = {"theirs": THEIRS, "prefixed": {"VISIBLE_DEVICES": "all", "CARDS": "all"}}
    for name, data in maps.items():
        body = {"metadata": {"name": name}, "data": data}
        await stage.create(f"/api/v1/namespaces/{place.name}/configmaps", body)
    secret = {"metadata": {"name": "theirs"}, "stringData": THEIRS}
    await stage.create(f"/api/v1/namespaces/{place.name}/secrets", secret)
    containers = [{**container(name, gpu_memory=512), **extra} for name, extra in WAYS.items()]
    await place.create(pod("greedy", *containers, node=stage.nodes[1]))
    cards = decided(await place.running("greedy"))
    for name in WAYS:
        env = await place.environ("greedy", name)
        mine = ",".join(grant["card"] for grant in cards[name])
        if mode == "cdi-nvidia-runtime":
            assert (env[keys.ENV_NVIDIA_VISIBLE], env[keys.ENV_CARDS]) == ("void", mine), name
        else:
            assert env[keys.ENV_NVIDIA_VISIBLE] == mine, name
