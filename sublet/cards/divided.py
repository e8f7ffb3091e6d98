"""What a card in MIG mode is to its node: its partitions, or nothing. Pure; shared by the sources."""

from collections.abc import Iterable, Iterator, Mapping

from sublet.model.card import Card, Partition, Vendor
from sublet.model.ids import CardId
from sublet.model.reasons import Reason


def partition_of(cards: Mapping[CardId, Card], id_: CardId) -> tuple[Card, Partition] | None:
    """The partition of that UUID and its card."""
    return next(
        ((card, one) for card in cards.values() for one in card.partitions if CardId(one.uuid) == id_), None
    )


def nothing_offered(cards: Iterable[Card]) -> Iterator[str]:
    """A sentence for each card that has nothing to offer."""
    return (
        f"card {card.id} is in MIG mode and has no partitions: nothing of it is offered"
        for card in cards
        if card.is_unpartitioned and card.vendor is Vendor.NVIDIA
    )


def unsupported(cards: Iterable[Card]) -> tuple[str, ...]:
    """The problem of a node whose cards are divided in a way that no claim can name."""
    divided = any(card.mig and card.vendor is Vendor.AMD for card in cards)
    return (Reason.MIG_UNSUPPORTED.value,) if divided else ()
