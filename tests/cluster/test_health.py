"""An unhealthy idle card leaves scheduling; a card in use is left alone until its pod ends."""

import uuid
from collections.abc import AsyncIterator

import pytest

from sublet.contract import keys
from tests.cluster.proofs import proves
from tests.cluster.stage import (
    CARD_MIB,
    CARDS_A_NODE,
    Namespace,
    Stage,
    agent_name,
    card_uuid,
    container,
    pod,
)
from tests.fakenvml.build import fake_nvml
from tests.fakenvml.control import XID, FakeCard, FakeNvml
from tests.lab.node import Node

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ALL_SLOTS = CARDS_A_NODE * 16


@pytest.fixture
async def driver(stage: Stage) -> AsyncIterator[FakeNvml]:
    """The first node's agent reads its cards from NVIDIA's library, as far as it can tell."""
    node = stage.nodes[0]
    fake = fake_nvml(node.folder / "nvml")
    fake.show(
        *(
            FakeCard(
                uuid=card_uuid(node, at),
                minor=at,
                memory_mib=CARD_MIB,
                pci=f"00000000:{at + 1:02x}:00.0",
                recovery=0,
            )
            for at in range(CARDS_A_NODE)
        )
    )
    nvml = {"SUBLET_CARDS": "nvml", "SUBLET_NVML_LIBRARY": str(fake.library), "SUBLET_POLL_S": "1"}
    await stage.restart_agent(node, **nvml)
    yield fake
    await stage.restart_agent(node)


async def heals(stage: Stage, node: Node) -> None:
    """Another boot id was seen: every card comes back after its probation."""
    node.boot_id_file.write_text(str(uuid.uuid4()))
    await stage.restart_agent(node)
    await slots_become(stage, node, ALL_SLOTS)


async def slots_become(stage: Stage, node: Node, wanted: int) -> None:
    async def so() -> bool:
        return await stage.slots(node) == wanted

    await stage.until(f"{node.name} offers {wanted} slots", so, within_s=60)


async def test_an_idle_card_with_xid_79_leaves_the_kubelet_within_seconds(
    stage: Stage, place: Namespace, driver: FakeNvml
) -> None:
    node = stage.nodes[0]
    bad = card_uuid(node, 2)
    driver.event(bad, XID, 79)
    await slots_become(stage, node, ALL_SLOTS - 16)
    entry = await stage.ledger(node)
    assert entry is not None
    assert entry.closed == (bad,)
    body = (await stage.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
    assert bad in body["metadata"]["annotations"][keys.HEALTH_ANNOTATION]
    [condition] = [one for one in body["status"]["conditions"] if one["type"] == keys.NODE_CONDITION]
    assert condition["status"] == "False"
    await place.create(pod("three", container(gpu=3), node=node))
    assert bad not in await proves(place, "three")
    await place.delete_all()
    await heals(stage, node)


async def test_a_busy_card_keeps_its_pod_and_leaves_when_it_ends(
    stage: Stage, place: Namespace, driver: FakeNvml
) -> None:
    node = stage.nodes[0]
    await place.create(pod("user", container(gpu_memory=2048), node=node))
    [bad] = await proves(place, "user")
    driver.event(bad, XID, 79)

    async def closed() -> bool:
        entry = await stage.ledger(node)
        return entry is not None and bad in entry.closed

    await stage.until("the card is closed", closed)
    await place.create(pod("other", container(gpu_memory=1024), node=node))
    assert bad not in await proves(place, "other")
    await place.running("user")
    assert await stage.slots(node) == ALL_SLOTS
    await place.delete("user")
    await slots_become(stage, node, ALL_SLOTS - 16)
    await place.delete_all()
    await heals(stage, node)


async def test_a_card_with_xid_48_is_back_after_an_observed_reset(stage: Stage) -> None:
    """Told by the signal file, as simulated nodes are."""
    node = stage.nodes[1]
    bad = card_uuid(node, 0)
    stage.signal(node, kind="xid", card=bad, code=48, source="nvml")
    await slots_become(stage, node, ALL_SLOTS - 16)
    stage.signal(node, kind="reset", card=bad)
    await slots_become(stage, node, ALL_SLOTS)


async def test_healthd_killed_never_gives_a_bad_card_back(stage: Stage) -> None:
    node = stage.nodes[1]
    bad = card_uuid(node, 1)
    stage.signal(node, kind="xid", card=bad, code=48, source="nvml")
    await slots_become(stage, node, ALL_SLOTS - 16)
    await stage.kill("sublet-healthd")
    stage.start_healthd()
    await stage.ready("sublet-healthd")
    await stage.restart_agent(node)
    await slots_become(stage, node, ALL_SLOTS - 16)
    stage.signal(node, kind="reset", card=bad)
    await slots_become(stage, node, ALL_SLOTS)
    assert stage.plane.run.alive(agent_name(node))
