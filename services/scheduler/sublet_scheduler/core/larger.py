"""Whether a pod is larger than any node known: no time will bring room for it, only another node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sublet.model.card import Card, Vendor
from sublet.model.claim import PodAsk, Wishes
from sublet.model.ids import CardId
from sublet.model.reasons import Reason
from sublet_scheduler.core.assigning import Asked, Assigned, assign
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.node import CardState, NodeState

Kind = tuple[Vendor, int | None, str, int | None, int]
"""Of a card: vendor, memory in MiB, profile of a partition, and what shares may have together: memory in MiB
where that is set, and percent of compute."""


@dataclass(frozen=True, slots=True)
class _Size:
    """What a node could give if nothing were on it."""

    cards: tuple[Kind, ...]
    shares_per_card: int

    @classmethod
    def of(cls, node: NodeState) -> "_Size":
        cards = tuple(_kind(state.card) for state in node.by_index if not state.card.is_unpartitioned)
        return cls(cards, node.shares_per_card)

    def may_take(self, asked: Asked) -> bool:
        """Whether it would, or nobody knows since not every way was tried."""
        empty = [CardState(card=_card(kind, at)) for at, kind in enumerate(self.cards)]
        outcome = assign(empty, asked, shares_per_card=self.shares_per_card)
        return isinstance(outcome, Assigned) or Reason.SEARCH_CUT_SHORT in outcome.reasons.values()

    def cards_for(self, load: Load) -> list[Card]:
        """Of the kinds that can take `load`, whatever its size."""
        return [
            _card(kind)
            for kind in self.cards
            if load.vendors <= {kind[0]}
            and load.profiles == {kind[2]}
            and (load.exclusive or kind[1] is not None)
        ]


def _kind(card: Card) -> Kind:
    return (card.vendor, card.memory_mib, card.profile, card.shareable_mib, card.shareable_core_percent)


def _card(kind: Kind, index: int = 0) -> Card:
    vendor, memory_mib, profile, shareable_mib, core_percent = kind
    return Card(
        id=CardId(str(index)),
        index=index,
        vendor=vendor,
        memory_mib=memory_mib,
        profile=profile,
        shareable_mib=shareable_mib,
        shareable_core_percent=core_percent,
    )


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
        if size not in sizes and size.may_take(anywhere):
            return ""
        sizes.add(size)
    for load in asked.loads:
        able = [found for size in sizes if (found := size.cards_for(load))]
        if not able:
            return ""  # no card of its kind: that is not a matter of size
        if sentence := _load_sentence(load, able):
            return sentence
    most_cards = max(len(size.cards) for size in sizes)
    whole = sum(load.cards for load in asked.loads if load.exclusive)
    if whole > most_cards:
        return _too_many(whole, most_cards)
    total_mib = sum(load.cards * load.memory_mib for load in asked.loads if not load.exclusive)
    largest_mib = max(sum(_card(kind).most_mib for kind in size.cards) for size in sizes)
    return (
        f"{whole} whole cards and {total_mib} MiB in parts are asked for on one node; "
        f"the largest node known has {most_cards} cards and {largest_mib} MiB, too little for them together"
    )


def _load_sentence(load: Load, able: Sequence[Sequence[Card]]) -> str:
    """`able` are the cards of each kind of node that can take it."""
    most_cards = max(len(of_node) for of_node in able)
    if load.cards > most_cards:
        return _too_many(load.cards, most_cards)
    if load.exclusive:
        return ""
    if load.grows:
        most_mib = max(sum(card.most_mib for card in of_node) for of_node in able)
        if load.memory_mib > most_mib:
            return (
                f"{load.memory_mib} MiB are asked for on one node; the largest node known has {most_mib} MiB"
            )
        return ""
    cards = [card for of_node in able for card in of_node]
    largest = max(cards, key=lambda card: (card.memory_mib or 0, card.most_mib))
    one_mib = max(need.of_card(largest) or 0 for need in load.needs)
    if one_mib > (largest.memory_mib or 0):
        return f"{one_mib} MiB are asked for on one card; the largest card known has {largest.memory_mib} MiB"
    roomiest = max(cards, key=lambda card: card.most_mib - load.of_card(card))
    if load.of_card(roomiest) > roomiest.most_mib:
        return (
            f"{load.of_card(roomiest)} MiB are asked for on one card; the largest card known has "
            f"{roomiest.memory_mib} MiB{_promised(roomiest.most_mib, roomiest.memory_mib, 'MiB')}"
        )
    most_percent = max(card.shareable_core_percent for card in cards)
    if load.core_percent > most_percent:
        return (
            f"{load.core_percent} % of the compute of one card are asked for; a card has 100 %"
            f"{_promised(most_percent, 100, '%')}"
        )
    return ""


def _promised(most: int, has: int | None, unit: str) -> str:
    return "" if most == has else f", of which {most} {unit} may be promised"


def _too_many(asked: int, most: int) -> str:
    return f"{asked} cards are asked for on one node; the largest node known has {most}"
