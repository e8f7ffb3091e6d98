"""Whether a pod is larger than any node known: no time will bring room for it, only another node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sublet.model.card import Card, Vendor
from sublet.model.claim import PodAsk, Wishes
from sublet.model.ids import CardId
from sublet_scheduler.core.assigning import Asked, Assigned, assign
from sublet_scheduler.core.fleet import CardState, NodeState
from sublet_scheduler.core.need import Load


@dataclass(frozen=True, slots=True)
class _Size:
    """The cards of a node that a pod could use if nothing else were there."""

    cards: tuple[tuple[Vendor, int | None], ...]
    """Vendor and memory in MiB."""
    shares_per_card: int

    @property
    def total_mib(self) -> int:
        return sum(memory or 0 for _, memory in self.cards)

    def takes(self, asked: Asked) -> bool:
        empty = [
            CardState(card=Card(id=CardId(str(at)), index=at, vendor=vendor, memory_mib=memory))
            for at, (vendor, memory) in enumerate(self.cards)
        ]
        return isinstance(assign(empty, asked, shares_per_card=self.shares_per_card), Assigned)


def larger_than_any(ask: PodAsk, asked: Asked, nodes: Iterable[NodeState]) -> str:
    """A sentence with both numbers where no known node could take the pod even when empty, else nothing."""
    known = [node for node in nodes if node.cards and node.facts]
    if not known:
        return "no node with cards is known"
    return _cards_sentence(asked, known) or _host_sentence(ask, known)


def _host_sentence(ask: PodAsk, nodes: Sequence[NodeState]) -> str:
    cpu_milli = max(node.facts.cpu_milli for node in nodes if node.facts)
    memory_mib = max(node.facts.memory_mib for node in nodes if node.facts)
    if ask.cpu_milli > cpu_milli:
        return f"{ask.cpu_milli}m CPU are asked for; the largest node known has {cpu_milli}m"
    if ask.memory_mib > memory_mib:
        return (
            f"{ask.memory_mib} MiB of host memory are asked for; the largest node known has {memory_mib} MiB"
        )
    return ""


def _cards_sentence(asked: Asked, nodes: Iterable[NodeState]) -> str:
    anywhere = replace(asked, wishes=Wishes(), only_card=None)
    sizes = {size for size in (_usable(node, asked.loads) for node in nodes) if size.cards}
    if not sizes or any(size.takes(anywhere) for size in sizes):
        return ""
    most_cards = max(len(size.cards) for size in sizes)
    most_mib = max(memory or 0 for size in sizes for _, memory in size.cards)
    for load in asked.loads:
        if load.cards > most_cards:
            return _too_many(load.cards, most_cards)
        asked_mib = load.of_card(Card(id=CardId(""), index=0, memory_mib=most_mib))
        if not load.exclusive and asked_mib > most_mib:
            return f"{asked_mib} MiB are asked for on one card; the largest card known has {most_mib} MiB"
        if load.core_percent > 100:
            return f"{load.core_percent} % of the compute of one card are asked for; a card has 100 %"
    whole = sum(load.cards for load in asked.loads if load.exclusive)
    if whole > most_cards:
        return _too_many(whole, most_cards)
    total_mib = sum(load.cards * load.memory_mib for load in asked.loads if not load.exclusive)
    largest_mib = max(size.total_mib for size in sizes)
    return (
        f"{whole} whole cards and {total_mib} MiB in parts are asked for on one node; "
        f"the largest node known has {most_cards} cards and {largest_mib} MiB, too little for them together"
    )


def _too_many(asked: int, most: int) -> str:
    return f"{asked} cards are asked for on one node; the largest node known has {most}"


def _usable(node: NodeState, loads: Sequence[Load]) -> _Size:
    vendors = {vendor for load in loads for vendor in load.vendors}
    shared = any(not load.exclusive for load in loads)
    return _Size(
        tuple(
            (state.card.vendor, state.card.memory_mib)
            for state in node.by_index()
            if (not vendors or state.card.vendor in vendors)
            and not (shared and state.card.memory_mib is None)
        ),
        node.shares_per_card,
    )
