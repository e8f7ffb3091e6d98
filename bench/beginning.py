"""Tells a scheduler's engine of its nodes, and that it knows all there is; what it writes then is stored."""

from collections import deque
from collections.abc import Callable, Sequence

from sublet_scheduler.core.effects import WriteLedger
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.events import (
    Event,
    HeartbeatSeen,
    InventorySeen,
    LedgerListed,
    LedgerWritten,
    NodeSeen,
    NodesListed,
    PodsListed,
    QuotasListed,
)
from sublet_scheduler.core.facts import NodeFacts

from sublet.model.card import Card, Heartbeat, Inventory

NOW = 1_000.0


def add_node(
    engine: Engine, facts: NodeFacts, cards: Sequence[Card], *, shares_per_card: int, slots: int
) -> None:
    inventory = Inventory(
        node=facts.name,
        boot_id="b",
        epoch="e",
        seq=1,
        at_ms=0,
        cards=tuple(cards),
        shares_per_card=shares_per_card,
        slots=slots,
        registered=True,
    )
    beat = Heartbeat(node=facts.name, boot_id="b", epoch="e", seq=1, at_ms=0)
    for event in (NodeSeen(facts), InventorySeen(inventory), HeartbeatSeen(beat)):
        engine.handle(event, now=NOW)


def begin(engine: Engine, next_revision: Callable[[], int]) -> None:
    """From here on it decides. `next_revision` is asked once for each entry of the ledger that it writes."""
    events: deque[Event] = deque(
        [NodesListed(), QuotasListed(), PodsListed(), LedgerListed(1, complete=True)]
    )
    while events:
        for effect in engine.handle(events.popleft(), now=NOW):
            if isinstance(effect, WriteLedger):
                events.append(LedgerWritten(effect.entry.node, next_revision()))
