"""The agent finds who uses its cards without having been given them."""

import os
from pathlib import Path

from sublet_agent.settings import Source

from sublet.model.placement import CardUse, Occupancy
from tests.fakenvml.build import fake_nvml
from tests.fakenvml.control import FakeCard
from tests.integration.agentstage import CARDS, agent_stage

PROGRAM = Path("/proc/self/comm").read_text().strip()


def uses(seen: Occupancy) -> list[CardUse]:
    return [use for use in seen.cards if use.outside_by]


async def test_a_process_beside_kubernetes_is_found_on_the_card_that_it_uses() -> None:
    async with agent_stage() as stage:
        folder = stage.root / "driver"
        folder.mkdir()
        fake = fake_nvml(folder)
        fake.show(
            FakeCard(uuid=CARDS[0], processes=((os.getpid(), 8192),)), FakeCard(uuid=CARDS[1], pci="0:2:0")
        )
        settings = {"cards": Source.NVML, "nvml_library": str(fake.library), "kmsg": "none"}
        async with stage.agent(**settings):
            seen = await stage.occupancy(lambda one: bool(uses(one)))
            fake.change(CARDS[0], processes=())
            await stage.occupancy(lambda one: not uses(one) and one.processes_read)
        [use] = uses(seen)
    assert use == CardUse(
        card=CARDS[0],
        processes=1,
        used_mib=8192,
        outside_mib=8192,
        outside_by=(f"process {os.getpid()} {PROGRAM}",),
    )
