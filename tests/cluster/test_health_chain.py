"""Reports of trouble elsewhere, over the whole way: a stand-in for NVIDIA's library under the real binding,
agent, nats-server, healthd, scheduler, and a real kubelet."""

import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sublet.bus.jetstream import open_bus
from sublet.contract import subjects
from sublet.model.health import HealthState, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.wire.health import verdict_in
from tests.cluster.proofs import proves
from tests.cluster.stage import CARD_MIB, CARDS_A_NODE, Namespace, Stage, card_uuid, container, pod
from tests.fakenvml.build import fake_nvml
from tests.fakenvml.control import XID, FakeCard, FakeNvml
from tests.lab.node import Node

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SHARES = 16
ALL = CARDS_A_NODE * SHARES
LOST, UNKNOWN = 15, 999


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    stage: Stage
    node: Node
    driver: FakeNvml
    log: Path

    def card(self, number: int) -> CardId:
        return CardId(card_uuid(self.node, number))

    def xid(self, number: int, code: int) -> None:
        self.driver.event(self.card(number), XID, code)

    def kernel_says(self, *lines: str) -> None:
        with self.log.open("a") as log:
            log.write("".join(f"4,{number},{number},-;{line}\n" for number, line in enumerate(lines, 1)))

    async def restart_agent(self) -> None:
        await self.stage.restart_agent(
            self.node,
            SUBLET_CARDS="nvml",
            SUBLET_NVML_LIBRARY=str(self.driver.library),
            SUBLET_POLL_S="1",
            SUBLET_KMSG=str(self.log),
        )

    async def verdict(self, number: int) -> Verdict | None:
        async with open_bus(self.stage.nats_url, name="test") as bus:
            key = subjects.verdict_key(NodeName(self.node.name), self.card(number))
            entry = await bus.get(subjects.VERDICTS_BUCKET, key, within_s=10)
        return verdict_in(entry.value) if entry else None

    async def until(self, number: int, holds: Callable[[Verdict], bool]) -> Verdict:
        seen: list[Verdict] = []

        async def so() -> bool:
            verdict = await self.verdict(number)
            seen[:] = [verdict] if verdict else []
            return verdict is not None and holds(verdict)

        await self.stage.until(f"card {number} is judged so", so, within_s=60)
        return seen[0]

    async def until_state(self, number: int, state: HealthState) -> Verdict:
        return await self.until(number, lambda one: one.state is state)

    async def until_reason(self, number: int, reason: str) -> Verdict:
        return await self.until(number, lambda one: reason in ids(one))

    async def until_slots(self, wanted: int) -> None:
        async def so() -> bool:
            return await self.stage.slots(self.node) == wanted

        await self.stage.until(f"{self.node.name} offers {wanted} slots", so, within_s=60)


def ids(verdict: Verdict) -> set[str]:
    return {reason.id for reason in verdict.reasons}


@pytest.fixture
async def way(stage: Stage) -> AsyncIterator[Way]:
    """All cards of the first node well; the node is as it was before when the test ends."""
    node = stage.nodes[0]
    driver = fake_nvml(node.folder / f"nvml-{uuid.uuid4().hex[:6]}")
    driver.show(
        *(
            FakeCard(
                uuid=card_uuid(node, at),
                minor=at,
                memory_mib=CARD_MIB,
                pci=f"00000000:{at + 1:02x}:00.0",
                recovery=0,
                ecc=0,
            )
            for at in range(CARDS_A_NODE)
        )
    )
    log = driver.library.parent / "kmsg"
    log.touch()
    made = Way(stage=stage, node=node, driver=driver, log=log)
    await made.restart_agent()
    await made.until_slots(ALL)
    for number in range(CARDS_A_NODE):
        await made.until_state(number, HealthState.HEALTHY)
    yield made
    node.boot_id_file.write_text(str(uuid.uuid4()))
    await stage.restart_agent(node)
    await made.until_slots(ALL)


async def test_a_card_comes_back_after_a_reset_and_one_whose_application_failed_never_leaves(
    way: Way,
) -> None:
    way.xid(1, 94)
    way.driver.change(way.card(0), ecc=2)
    way.xid(0, 48)
    await way.until_slots(ALL - SHARES)
    stays = await way.until_reason(1, "xid:94")
    way.driver.change(way.card(0), ecc=0)
    await way.until_slots(ALL)
    assert (stays.state, stays.schedulable) == (HealthState.HEALTHY, True)


async def test_probes_that_go_well_and_harmless_faults_heal_nothing_the_drivers_word_does(way: Way) -> None:
    way.driver.change(way.card(0), recovery=1)
    way.xid(0, 119)
    await way.until_slots(ALL - SHARES)
    way.xid(0, 43)
    later = await way.until_reason(0, "xid:43")
    assert later.state is HealthState.QUARANTINED
    assert await way.stage.slots(way.node) == ALL - SHARES
    way.driver.change(way.card(0), recovery=0)
    await way.until_slots(ALL)


async def test_the_catalogue_decides_which_code_takes_a_card_out(way: Way) -> None:
    way.xid(0, 94)
    way.xid(1, 109)
    out = await way.until_state(1, HealthState.QUARANTINED)
    stays = await way.until_reason(0, "xid:94")
    await way.until_slots(ALL - SHARES)
    assert (out.schedulable, stays.schedulable, stays.state) == (False, True, HealthState.HEALTHY)


async def test_one_lost_card_leaves_the_others_usable(way: Way, place: Namespace) -> None:
    way.driver.change(way.card(3), error=LOST)
    await way.until_state(3, HealthState.LOST)
    await way.until_slots(ALL - SHARES)
    await place.create(pod("rest", container(gpu=CARDS_A_NODE - 1), node=way.node))
    assert way.card(3) not in await proves(place, "rest")
    await place.delete_all()


async def test_a_driver_that_goes_away_makes_cards_unknown_and_takes_none_out(way: Way) -> None:
    way.driver.set(init_error=9)
    for number in range(CARDS_A_NODE):
        verdict = await way.until_state(number, HealthState.UNKNOWN)
        assert verdict.schedulable
    assert await way.stage.slots(way.node) == ALL
    way.driver.set()
    for number in range(CARDS_A_NODE):
        await way.until_state(number, HealthState.HEALTHY)


async def test_a_fall_that_the_kernel_tells_in_three_lines_is_the_same_as_the_drivers(way: Way) -> None:
    way.kernel_says(
        "NVRM: The NVIDIA GPU 0000:03:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    await way.until_reason(2, "xid:79")
    way.xid(2, 79)
    way.xid(2, 31)
    verdict = await way.until_reason(2, "xid:31")
    await way.until_slots(ALL - SHARES)
    assert {reason.id: reason.count for reason in verdict.reasons} == {"xid:79": 1, "xid:31": 1}


async def test_cards_that_all_fail_alike_are_the_nodes_trouble(way: Way) -> None:
    for number in range(CARDS_A_NODE):
        way.driver.change(way.card(number), error=UNKNOWN)
    for number in range(CARDS_A_NODE):
        verdict = await way.until_state(number, HealthState.UNKNOWN)
        assert verdict.schedulable
    assert await way.stage.slots(way.node) == ALL


async def test_an_agent_that_starts_anew_leaves_pods_on_condemned_cards_alone(
    way: Way, place: Namespace
) -> None:
    await place.create(pod("user", container(gpu_memory=2048), node=way.node))
    [held] = await proves(place, "user")
    number = next(at for at in range(CARDS_A_NODE) if way.card(at) == held)
    other = (number + 1) % CARDS_A_NODE
    way.xid(number, 95)
    way.xid(other, 79)
    await way.until_state(number, HealthState.CONDEMNED)
    await way.until_slots(ALL - SHARES)
    await way.restart_agent()
    await way.until_slots(ALL - SHARES)
    await place.running("user")
    assert await place.restarts("user") == 0
    condemned = await way.until_state(number, HealthState.CONDEMNED)
    assert not condemned.withheld
    await place.delete_all()
