"""What makes two cards one kind: pods can tell no difference between them but what is in use."""

from sublet.model.card import Card

Kind = tuple[str, str, int | None, str, int, int]
"""Vendor, model in small letters, memory in MiB, partition's profile, and what shares may have together:
memory in MiB and percent of compute."""
NO_KIND: Kind = ("", "", None, "", 0, 100)


def kind_of(card: Card) -> Kind:
    return (
        card.vendor,
        card.model.lower(),
        card.memory_mib,
        card.profile,
        card.most_mib,
        card.shareable_core_percent,
    )
