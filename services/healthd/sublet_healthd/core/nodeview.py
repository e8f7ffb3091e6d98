"""What the judge of the fleet knows of one node as a whole."""

from dataclasses import dataclass, field, replace

from sublet.contract.kernelline import Named
from sublet.model.card import Card, Partition
from sublet.model.health import Signal, Verdict
from sublet.model.ids import CardId
from sublet.model.placement import NodeLedger, Occupancy
from sublet_healthd.core.card import CardState
from sublet_healthd.core.policy import LOST

FAILING = ("error", "hang")
"""What a probe says that says nothing of the card."""


@dataclass(slots=True)
class NodeView:
    cards: dict[CardId, None] = field(default_factory=dict)
    listed: dict[CardId, Card] = field(default_factory=dict)
    shares_per_card: int = 0
    gone: set[CardId] = field(default_factory=set)
    instances: dict[CardId, tuple[Partition, ...]] = field(default_factory=dict)
    """MIG instances that exist, by their card."""
    parents: dict[CardId, CardId] = field(default_factory=dict)
    """Of every MIG instance that was ever seen, its card."""
    forgotten: dict[CardId, Verdict] = field(default_factory=dict)
    """The last verdicts of MIG instances that are judged no more; one that returns goes on from there."""
    boots: dict[str, None] = field(default_factory=dict)
    ledger: NodeLedger | None = None
    closed_at: dict[CardId, int] = field(default_factory=dict)
    occupancy: Occupancy | None = None
    beat_ms: int = 0
    beat_epoch: str = ""
    told: set[CardId] = field(default_factory=set)
    named: Named | None = None
    settled: set[CardId] = field(default_factory=set)
    """Cards whose past is known: from a store of ours, or because their agent has said what it knows."""

    def units(self, card: CardId) -> frozenset[CardId]:
        """What containers on the card may hold: the card, or one of its partitions."""
        return frozenset({card, *(part for part, parent in self.parents.items() if parent == card)})

    def part(self, card: CardId) -> Card | None:
        """The partition of that UUID as its agent describes it."""
        parent = self.listed.get(self.parents[card]) if card in self.parents else None
        return next((one for one in parent.offered if one.id == card), None) if parent else None

    def concerned(self, card: CardId, signal: Signal) -> list[CardId]:
        """Whom a signal about a card concerns besides it: all of its MIG instances, or, where it names some,
        those alone."""
        return [
            CardId(one.uuid)
            for one in self.instances.get(card, ())
            if signal.gi in (None, one.gi) and signal.ci in (None, one.ci)
        ]


def stamped(signal: Signal, now_ms: int) -> Signal:
    """An observation cannot be of later: a node's clock that runs ahead must not stretch timers."""
    return replace(signal, at_ms=min(signal.at_ms or now_ms, now_ms))


def is_there(state: CardState) -> bool:
    return state.facts.reason(LOST.label) is None


def signal_id(signal: Signal) -> str:
    """Names an observation in what follows from it: the same for every card that it is about."""
    when = signal.seq or signal.at_ms
    return f"{signal.node}/{signal.kind}/{signal.epoch or signal.boot_id or signal.source}/{when}"
