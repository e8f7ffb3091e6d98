"""What `sublet cards` and `sublet health` show of partitions in a live cluster."""

from dataclasses import replace

import pytest

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.cli.cards import card_views
from sublet.cli.cluster import read_cluster, read_inventories
from sublet.cli.health.command import document
from sublet.contract import subjects
from sublet.model.claim import ContainerKind
from sublet.model.health import DESTROYED, HealthState
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardGrant, LedgerGrant, NodeLedger
from sublet.wire.health import verdict_out
from sublet.wire.ledger import node_ledger_out
from sublet.wire.node import inventory_out
from tests.builders import card, inventory, verdict

NODE = NodeName("n1")


def holds(pod: str, part: str) -> LedgerGrant:
    return LedgerGrant(
        pod=PodRef("ns", pod),
        uid=PodUid(pod),
        decision=DecisionId(pod),
        container="main",
        kind=ContainerKind.MAIN,
        dialect="nvidia",
        grant=CardGrant(card=CardId(part), index=0, memory_mib=5120, core_percent=100, exclusive=True),
    )


@pytest.fixture
async def bus() -> MemoryBus:
    """Card A has the partition A1, which is ill, and a container still holds A0, which was destroyed."""
    made = MemoryBus(LAYOUT)
    seen = inventory("n1", card("A", gib=40, parts={"A1": "1g.5gb"}))
    await made.put(subjects.INVENTORY_BUCKET, subjects.inventory_key(NODE), inventory_out(seen))
    gone = replace(verdict("n1", "A0", bad=True), state=HealthState.LOST, rule=DESTROYED)
    for one in (verdict("n1", "A", bad=False), verdict("n1", "A1", bad=True), gone):
        await made.put(subjects.VERDICTS_BUCKET, subjects.verdict_key(NODE, one.card), verdict_out(one))
    ledger = NodeLedger(node=NODE, term=1, grants=(holds("p", "A1"), holds("q", "A0")))
    await made.put(subjects.LEDGER_BUCKET, subjects.ledger_key(NODE), node_ledger_out(ledger))
    return made


async def test_partitions_show_their_own_health_and_who_holds_them(bus: MemoryBus) -> None:
    first, second = card_views(await read_cluster(bus))
    assert (first["card"], first["profile"], first["health"], first["usedMiB"]) == (
        "A1",
        "1g.5gb",
        "condemned",
        5120,
    )
    assert [one["pod"] for one in first["containers"]] == ["ns/p"]
    assert (second["card"], second["health"], second["memoryMiB"]) == ("A0", "lost", None)
    assert [one["pod"] for one in second["containers"]] == ["ns/q"]


async def test_what_no_agent_lists_is_no_part_of_an_inventory(bus: MemoryBus) -> None:
    [node] = (await read_cluster(bus)).nodes
    assert [(grant.pod.name, grant.card) for grant in node.grants] == [("p", "A1")]


async def test_a_verdict_of_a_partition_names_its_card(bus: MemoryBus) -> None:
    [listed] = (await read_inventories(bus))[NODE].cards
    [part] = listed.offered
    shown = document(verdict("n1", "A1", bad=True), part, age_ms=0)
    assert (shown["card"], shown["profile"], shown["parent"]) == ("A1", "1g.5gb", "A")
    assert "parent" not in document(verdict("n1", "A", bad=False), age_ms=0)
