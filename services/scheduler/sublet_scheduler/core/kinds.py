"""What makes two cards one kind: pods can tell no difference between them but what is in use."""

from sublet.model.card import Card

Kind = tuple[str, str, int | None, str]
"""Vendor, model in small letters, memory in MiB, partition's profile."""


def kind_of(card: Card) -> Kind:
    return (card.vendor, card.model.lower(), card.memory_mib, card.profile)
