"""What other systems are told of a node's cards in their own words: which to leave out, which there are."""

from collections.abc import Iterable, Mapping, Sequence

from sublet.contract import keys
from sublet.model.card import Card, Vendor


def indices(cards: Iterable[Card]) -> str:
    """A comma list, ascending; empty where there are none."""
    return ",".join(map(str, sorted(card.index for card in cards)))


def card_labels(cards: Sequence[Card], shares_per_card: int) -> Mapping[str, str]:
    """Labels as NVIDIA's GPU feature discovery writes them. Where cards differ, the product is that of the
    first one and the memory, in MiB, that of the smallest, so that nobody counts on more."""
    nvidia = sorted((card for card in cards if card.vendor is Vendor.NVIDIA), key=lambda card: card.index)
    if not nvidia:
        return {}
    labels = {
        keys.GFD_COUNT: str(len(nvidia)),
        keys.GFD_PRODUCT: _label_value(nvidia[0].model),
        keys.GFD_REPLICAS: str(shares_per_card),
    }
    memories = [card.memory_mib for card in nvidia if card.memory_mib is not None]
    if len(memories) == len(nvidia):
        labels[keys.GFD_MEMORY] = str(min(memories))
    parts = [part for card in nvidia for part in card.partitions]
    if parts:
        labels[keys.GFD_MIG_STRATEGY] = "mixed"
    for profile in sorted({part.profile for part in parts}):
        alike = [part.memory_mib for part in parts if part.profile == profile]
        labels[f"{keys.NVIDIA_MIG_PREFIX}{profile}.count"] = str(len(alike))
        labels[f"{keys.NVIDIA_MIG_PREFIX}{profile}.memory"] = str(min(alike))
    return {key: value for key, value in labels.items() if value}


def _label_value(model: str) -> str:
    """As the original: words joined by dashes; what a label cannot hold is left out."""
    kept = "".join(
        one for one in "-".join(model.split()) if (one.isascii() and one.isalnum()) or one in "-_."
    )
    return kept[:63].strip("-_.")
