"""What others use of a card is not promised to anybody."""

import pytest

from sublet.contract import keys
from sublet.model.ids import CardId
from sublet.model.placement import CardUse
from tests.api.scheduler.team import Team, annotations, gates
from tests.builders import container, pod
from tests.integration.schedulerstage import cards_of, until

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]


async def test_a_pod_waits_for_memory_that_others_use_and_gets_it_when_they_have_gone(on: Team) -> None:
    node = await on.add_node(1)
    card = CardId(f"{node}-0")
    await on.say_nothing_runs(
        node,
        CardUse(card=card, processes=1, used_mib=8192, outside_mib=8192, outside_by=("process 7 Xorg",)),
    )

    async def waits() -> bool:
        trial = await on.create(pod("trial", container(gpu_memory=4096)), dry_run=True)
        return keys.WAITING in annotations(trial)

    await until(waits)
    created = await on.create(pod("p", container(gpu_memory=4096)))
    assert gates(created) == [keys.GATE]
    assert "InsufficientMemory" in annotations(created)[keys.WAITING]
    await on.say_nothing_runs(node)
    assert cards_of(await on.released("p")) == {"main": (card,)}
