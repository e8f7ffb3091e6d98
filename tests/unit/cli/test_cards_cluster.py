"""What `sublet cards` makes of a live cluster: what agents, healthd and scheduler say on the bus."""

from dataclasses import replace

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.cli.cards import card_views
from sublet.cli.cluster import read_cluster
from sublet.contract import subjects
from sublet.model.card import Partition
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardUse, Occupancy
from sublet.wire.node import inventory_out, occupancy_out
from tests import builders
from tests.builders import card

N1 = NodeName("n1")


async def test_who_uses_a_card_that_was_not_given_to_them_is_shown_beside_it() -> None:
    bus = MemoryBus(LAYOUT)
    part = Partition(uuid="MIG-1", profile="1g.5gb", memory_mib=4864)
    told = builders.inventory(
        N1, card("A"), card("B", index=1), replace(card("C", index=2), partitions=(part,))
    )
    await bus.put(subjects.INVENTORY_BUCKET, subjects.inventory_key(N1), inventory_out(told))
    seen = Occupancy(
        node=N1,
        boot_id="boot-1",
        epoch="epoch-1",
        seq=1,
        at_ms=0,
        ledger_revision=0,
        checkpoint_read=True,
        pod_resources_read=True,
        cgroups_read=True,
        processes_read=True,
        cards=(
            CardUse(
                card=CardId("A"), processes=1, used_mib=70, outside_mib=60, outside_by=("process 7 Xorg",)
            ),
            CardUse(card=CardId("B"), processes=1, used_mib=70),
            CardUse(card=CardId("MIG-1"), processes=0, used_mib=0, outside_by=("pod u-1",)),
        ),
    )
    await bus.put(subjects.INVENTORY_BUCKET, subjects.occupancy_key(N1), occupancy_out(seen))
    cluster = await read_cluster(bus)
    views = {view["card"]: view for view in card_views(cluster)}
    assert (views["A"]["usedOutsideMiB"], views["A"]["usedOutsideBy"]) == (60, ["process 7 Xorg"])
    assert "usedOutsideBy" not in views["B"]
    assert (views["MIG-1"]["usedOutsideMiB"], views["MIG-1"]["usedOutsideBy"]) == (0, ["pod u-1"])
    assert [one.used_outside_mib for one in cluster.nodes[0].cards] == [60, 0, 0]
