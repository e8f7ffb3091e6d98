"""Who sees a card of a real node without having been given it is found by the node's agent."""

import pytest

from sublet.bus.jetstream import open_bus
from sublet.cli.cards import card_views
from sublet.cli.cluster import read_cluster
from sublet.contract import keys
from tests.cluster.stage import Namespace, Stage, card_uuid, container, pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


async def outside(stage: Stage, card: str) -> list[str]:
    """What `sublet cards` shows as used outside of a card."""
    async with open_bus(stage.nats_url, name="test") as bus:
        cluster = await read_cluster(bus)
    [view] = [one for one in card_views(cluster) if one["card"] == card]
    found: list[str] = view.get("usedOutsideBy", [])
    return found


async def test_a_pod_that_names_a_card_in_a_variable_is_shown_on_it_until_it_ends(
    stage: Stage, place: Namespace
) -> None:
    node = stage.nodes[0]
    card = card_uuid(node, 1)
    device = {"name": "card", "hostPath": {"path": str(stage.dev_root / "dev/nvidia1"), "type": "CharDevice"}}
    sees = container()
    sees["env"] = [{"name": keys.ENV_NVIDIA_VISIBLE, "value": "all"}]
    sees["volumeMounts"] = [{"name": "card", "mountPath": "/dev/nvidia1"}]
    created = await place.create(pod("outside", sees, node=node, volumes=[device]))
    await place.create(pod("given", container(gpu=1), node=node))
    for name in ("outside", "given"):
        await place.running(name)
    names = [f"pod {created['metadata']['uid']}"]

    async def shown() -> bool:
        return await outside(stage, card) == names

    await stage.until("the pod is shown on its card", shown)
    for other in (0, 2, 3):
        assert await outside(stage, card_uuid(node, other)) == []
    await place.delete("outside")

    async def gone() -> bool:
        return await outside(stage, card) == []

    await stage.until("the pod is shown no more", gone)
