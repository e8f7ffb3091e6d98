"""Whether a pod is larger than any node known: no time will bring room for it, only another node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sublet.model.card import Card, Vendor
from sublet.model.claim import PodAsk, Wishes
from sublet.model.ids import CardId
from sublet_scheduler.core.assigning import Asked, Assigned, assign
from sublet_scheduler.core.fleet import CardState, NodeState
from sublet_scheduler.core.need import Load

Kind = tuple[Vendor, int | None, str]
"""Of a card: vendor, memory in MiB, profile of a partition."""


@dataclass(frozen=True, slots=True)
class _Size:
    """What a node could give if nothing were on it."""

    cards: tuple[Kind, ...]
    shares_per_card: int

    @classmethod
    def of(cls, node: NodeState) -> "_Size":
        cards = tuple(
            (state.card.vendor, state.card.memory_mib, state.card.profile)
            for state in node.by_index
            if not state.card.is_unpartitioned
        )
        return cls(cards, node.shares_per_card)

    def takes(self, asked: Asked) -> bool:
        empty = [
            CardState(
                card=Card(id=CardId(str(at)), index=at, vendor=vendor, memory_mib=memory_mib, profile=profile)
            )
            for at, (vendor, memory_mib, profile) in enumerate(self.cards)
        ]
        return isinstance(assign(empty, asked, shares_per_card=self.shares_per_card), Assigned)

    def memories_for(self, load: Load) -> list[int]:
        """Of the cards whose kind can take `load`, whatever its size."""
        return [
            memory_mib or 0
            for vendor, memory_mib, profile in self.cards
            if load.vendors <= {vendor}
            and load.profiles == {profile}
            and (load.exclusive or memory_mib is not None)
        ]


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
    sizes: set[_Size] = set()
    for node in nodes:
        size = _Size.of(node)
        if size not in sizes and size.takes(anywhere):
            return ""
        sizes.add(size)
    for load in asked.loads:
        memories = [found for size in sizes if (found := size.memories_for(load))]
        if not memories:
            return ""  # no card of its kind: that is not a matter of size
        if sentence := _load_sentence(load, memories):
            return sentence
    most_cards = max(len(size.cards) for size in sizes)
    whole = sum(load.cards for load in asked.loads if load.exclusive)
    if whole > most_cards:
        return _too_many(whole, most_cards)
    total_mib = sum(load.cards * load.memory_mib for load in asked.loads if not load.exclusive)
    largest_mib = max(sum(memory or 0 for _, memory, _ in size.cards) for size in sizes)
    return (
        f"{whole} whole cards and {total_mib} MiB in parts are asked for on one node; "
        f"the largest node known has {most_cards} cards and {largest_mib} MiB, too little for them together"
    )


def _load_sentence(load: Load, memories: Sequence[Sequence[int]]) -> str:
    most_cards = max(len(of_node) for of_node in memories)
    if load.cards > most_cards:
        return _too_many(load.cards, most_cards)
    if load.exclusive:
        return ""
    if load.grows:
        most_mib = max(sum(of_node) for of_node in memories)
        if load.memory_mib > most_mib:
            return (
                f"{load.memory_mib} MiB are asked for on one node; the largest node known has {most_mib} MiB"
            )
        return ""
    most_mib = max(max(of_node) for of_node in memories)
    asked_mib = load.of_card(Card(id=CardId(""), index=0, memory_mib=most_mib))
    if asked_mib > most_mib:
        return f"{asked_mib} MiB are asked for on one card; the largest card known has {most_mib} MiB"
    if load.core_percent > 100:
        return f"{load.core_percent} % of the compute of one card are asked for; a card has 100 %"
    return ""


def _too_many(asked: int, most: int) -> str:
    return f"{asked} cards are asked for on one node; the largest node known has {most}"
