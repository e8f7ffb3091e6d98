"""MIG from NVIDIA's library to the container and back: partitions that exist, come, go and fall ill."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from sublet.bus.port import Deleted, Synced, Upserted
from sublet.contract import keys, subjects
from sublet.demo.natsserver import NatsServer
from sublet.model.card import Card
from sublet.model.health import HealthState
from sublet.model.ids import CardId
from sublet.model.placement import CardGrant, LedgerGrant
from sublet.wire.node import inventory_in
from tests.fakenvml.control import XID, FakeInstance
from tests.integration.agentstage import CARDS, NODE, grant, pod, uid_of
from tests.integration.chainstage import ALL, SHARES, Chain, chain, fake_card, ids

pytest_plugins = ["tests.natsserver"]
pytestmark = pytest.mark.timeout(30)  # as in test_health_chain

A, B = CARDS[:2]
ONE, TWO, NEW = CardId("MIG-1"), CardId("MIG-2"), CardId("MIG-3")


def instance(uuid: CardId, *, gi: int, place: int) -> FakeInstance:
    return FakeInstance(uuid=uuid, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", gi=gi, place=place, ecc=0)


PARTS = (instance(ONE, gi=7, place=0), instance(TWO, gi=8, place=3))


@pytest_asyncio.fixture
async def stage(nats_server: NatsServer) -> AsyncIterator[Chain]:
    """Card A is in MIG mode with two instances."""
    async with chain(nats_server) as made:
        capabilities(made.root)
        made.driver.show(
            fake_card(0, mig=1, memory_mib=40_536, instances=PARTS),
            *(fake_card(number) for number in range(1, len(CARDS))),
        )
        yield made


def capabilities(root: Path) -> None:
    """What the driver says in /proc of the instances' devices, and those devices."""
    (root / "dev/nvidia-caps").mkdir()
    for gi in (7, 8):
        for folder, minor in ((f"gi{gi}", 10 * gi), (f"gi{gi}/ci0", 10 * gi + 1)):
            at = root / "capabilities/gpu0/mig" / folder
            at.mkdir(parents=True)
            (at / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")
            (root / f"dev/nvidia-caps/nvidia-cap{minor}").touch()


def part_of_a(pod_name: str, uuid: CardId) -> tuple[LedgerGrant, ...]:
    [whole] = grant(pod_name, A)
    given = CardGrant(card=uuid, index=0, memory_mib=4864, core_percent=100, exclusive=True)
    return (replace(whole, grant=given),)


async def until_partitions(stage: Chain, *wanted: CardId) -> Card:
    """Card A as the agent publishes it, once it has these partitions."""
    async with aclosing(stage.bus.follow(subjects.INVENTORY_BUCKET, subjects.inventory_key(NODE))) as changes:
        async for change in changes:
            if isinstance(change, Upserted):
                card = inventory_in(change.entry.value).cards[0]
                if [part.uuid for part in card.partitions] == list(wanted):
                    return card
    raise AssertionError("the watch ended")


async def until_forgotten(stage: Chain, part: CardId) -> None:
    """Its verdict has left the bus."""
    key, there = subjects.verdict_key(NODE, part), False
    async with asyncio.timeout(8), aclosing(stage.bus.follow(subjects.VERDICTS_BUCKET, key)) as changes:
        async for change in changes:
            there = there or isinstance(change, Upserted)
            if isinstance(change, Deleted) or (isinstance(change, Synced) and not there):
                return


async def test_a_container_gets_the_partition_that_it_was_given(stage: Chain) -> None:
    async with stage.agent(mig_capabilities=str(stage.root / "capabilities")):
        card = await until_partitions(stage, ONE, TWO)
        await stage.grant(*part_of_a("p", TWO))
        await stage.kubelet.run(pod("p"))
    assert [(part.profile, part.memory_mib, part.gi) for part in card.partitions] == [
        ("1g.5gb", 4864, 7),
        ("1g.5gb", 4864, 8),
    ]
    container = stage.kubelet.containers[uid_of("p"), "main"]
    assert container.env[keys.ENV_NVIDIA_VISIBLE] == TWO
    assert [node.path for node in container.nodes] == [
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap80",
        "/dev/nvidia-caps/nvidia-cap81",
        "/dev/nvidiactl",
    ]


async def test_a_fault_that_names_an_instance_takes_out_that_instance_and_one_slot(stage: Chain) -> None:
    async with stage.agent():
        await until_partitions(stage, ONE, TWO)
        await stage.until_state(ONE, HealthState.HEALTHY)
        stage.driver.event(A, XID, 48, 7, 0)
        out = await stage.until_state(ONE, HealthState.QUARANTINED)
        await stage.until_allocatable(ALL - 1)
    assert (ids(out), out.parent, out.schedulable) == (["xid:48"], A, False)
    assert (stage.states(TWO), stage.states(A)) == ([HealthState.HEALTHY], [HealthState.HEALTHY])


async def test_a_fault_of_the_card_takes_out_all_of_its_partitions(stage: Chain) -> None:
    async with stage.agent():
        await until_partitions(stage, ONE, TWO)
        await stage.until_state(TWO, HealthState.HEALTHY)
        stage.driver.event(A, XID, 79)
        for card in (A, ONE, TWO):
            await stage.until_state(card, HealthState.QUARANTINED)
        await stage.until_allocatable(ALL - SHARES)
    assert stage.states(B) == [HealthState.HEALTHY]


async def test_a_card_divided_anew_offers_what_is_new_and_its_old_container_never_starts_again(
    stage: Chain,
) -> None:
    async with stage.agent(mig_capabilities=str(stage.root / "capabilities")):
        await until_partitions(stage, ONE, TWO)
        await stage.until_state(ONE, HealthState.HEALTHY)
        await stage.grant(*part_of_a("p", ONE))
        await stage.kubelet.run(pod("p"))
        await stage.until_seen(uid_of("p"))
        stage.driver.change(A, instances=(PARTS[1], instance(NEW, gi=7, place=1)))
        await until_partitions(stage, TWO)  # the container reaches the new one by the old one's nodes
        gone = await stage.until_state(ONE, HealthState.LOST)
        await stage.kubelet.end(uid_of("p"))
        await until_partitions(stage, NEW, TWO)
        await stage.until_state(NEW, HealthState.HEALTHY)
        await stage.grant(*part_of_a("q", NEW))
        await stage.kubelet.run(pod("q"))
        await until_forgotten(stage, ONE)
    assert (gone.rule, stage.states(A)) == ("destroyed", [HealthState.HEALTHY])
    assert stage.kubelet.containers[uid_of("q"), "main"].env[keys.ENV_NVIDIA_VISIBLE] == NEW


async def test_a_card_without_partitions_offers_nothing_and_its_node_goes_on(stage: Chain) -> None:
    async with stage.agent():
        await until_partitions(stage, ONE, TWO)
        stage.driver.change(A, instances=())
        card = await until_partitions(stage)
        await stage.grant(*grant("p", B))
        await stage.kubelet.run(pod("p"))
    assert (card.mig, card.offered) == (True, ())
    assert stage.kubelet.containers[uid_of("p"), "main"].env[keys.ENV_NVIDIA_VISIBLE] == B
