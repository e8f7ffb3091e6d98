"""What one slot takes of each card: a claim together with the plain init containers that hand on to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from sublet.model.card import Card
from sublet.model.claim import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The largest of several claims on the same cards."""

    claims: tuple[Claim, ...]
    cards: int
    exclusive: bool
    core_percent: int
    vendors: frozenset[str]

    @classmethod
    def of(cls, claim: Claim, claims: Sequence[Claim]) -> "Need":
        """The need of `claim` and of all in `claims` whose heir it is."""
        together = (claim, *(one for one in claims if one.heir == claim.container))
        exclusive = any(one.exclusive for one in together)
        return cls(
            claims=together,
            cards=max(one.cards for one in together),
            exclusive=exclusive,
            core_percent=100 if exclusive else max(one.core_percent for one in together),
            vendors=frozenset(one.vendor for one in together if one.vendor),
        )

    def memory_mib(self, card: Card) -> int | None:
        """Whole MiB taken of `card`; None for the whole of a card of unknown memory."""
        if self.exclusive:
            return card.memory_mib
        return max(claimed_mib(card, claim) for claim in self.claims)


def claimed_mib(card: Card, claim: Claim) -> int:
    """A shared claim's whole MiB of a card of known memory; a percentage is rounded down, and compute
    alone takes the same percentage of memory."""
    if claim.memory_mib is not None:
        return claim.memory_mib
    percent = claim.core_percent if claim.memory_percent is None else claim.memory_percent
    return int((card.memory_mib or 0) * percent / 100)
