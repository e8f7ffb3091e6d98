"""What claims take of their cards, together with the plain init containers that hand on to them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from sublet.model.card import Card
from sublet.model.claim import Claim, PodAsk


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one slot takes of each of its cards: the largest of several claims on the same cards."""

    claims: tuple[Claim, ...]
    """First the one that is counted, then those whose heir it is."""
    cards: int
    exclusive: bool
    core_percent: int
    vendors: frozenset[str]
    memory_mib: int
    """The largest amount that is asked in MiB."""
    memory_percent: Fraction
    """The largest part of the card's memory that is asked; compute alone takes the same part of it."""
    profiles: frozenset[str]
    """Of the partitions that are asked for; the empty one stands for whole cards."""
    grows: bool = False
    """The memory may be spread over several cards."""

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
            memory_mib=max(one.memory_mib or 0 for one in together),
            memory_percent=max(_percent(one) for one in together),
            profiles=frozenset(one.profile or "" for one in together),
            grows=claim.grows and not exclusive,
        )

    def over(self, cards: int) -> "Need":
        """The same in equal shares of so many cards, rounded up: no less than was asked for."""
        return replace(self, cards=cards, memory_mib=-(-self.memory_mib // cards), grows=False)

    def of_card(self, card: Card) -> int | None:
        """Whole MiB taken of `card`, rounded down; None for the whole of a card of unknown memory."""
        if self.exclusive:
            return card.memory_mib
        part = self.memory_percent
        if not part:
            return self.memory_mib
        return max(self.memory_mib, (card.memory_mib or 0) * part.numerator // (100 * part.denominator))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What goes on the same cards: one need, or the needs of several containers that must share one card."""

    needs: tuple[Need, ...]
    cards: int
    exclusive: bool
    core_percent: int
    vendors: frozenset[str]
    memory_mib: int
    """The amount of each card that is asked in MiB."""
    by_card: bool
    """What it takes is not the same of every card."""
    parts: tuple[tuple[int, int], ...]
    """The parts of the card's memory that are asked for, as numerators and denominators of percent."""
    profiles: frozenset[str]
    grows: bool
    """It is one need that may be spread over several cards."""

    @classmethod
    def of(cls, *needs: Need) -> "Load":
        return cls(
            needs=needs,
            cards=max(need.cards for need in needs),
            exclusive=any(need.exclusive for need in needs),
            core_percent=sum(need.core_percent for need in needs),
            vendors=frozenset().union(*(need.vendors for need in needs)),
            memory_mib=sum(need.memory_mib for need in needs),
            by_card=any(need.exclusive or need.memory_percent for need in needs),
            parts=tuple(need.memory_percent.as_integer_ratio() for need in needs),
            profiles=frozenset().union(*(need.profiles for need in needs)),
            grows=any(need.grows for need in needs),
        )

    def over(self, cards: int) -> "Load":
        """The same with its memory spread over so many cards."""
        return Load.of(*(need.over(cards) for need in self.needs))

    def each_within(self, card: Card) -> bool:
        """Whether no share is larger than `card`, however much may be promised of it."""
        if card.shareable_mib is None:
            return True
        return all((need.of_card(card) or 0) <= (card.memory_mib or 0) for need in self.needs)

    def of_card(self, card: Card) -> int:
        """Whole MiB taken of `card`; 0 where its memory is unknown."""
        if not self.by_card:
            return self.memory_mib
        return sum(need.of_card(card) or 0 for need in self.needs)


def loads_of(ask: PodAsk) -> tuple[Load, ...]:
    """The loads of a pod, the hardest to place first."""
    return _loads(ask.claims, bool(ask.wishes.same_card))


@lru_cache(maxsize=1_024)  # pods of one owner ask alike
def _loads(claims: tuple[Claim, ...], same_card: bool) -> tuple[Load, ...]:
    groups: dict[str, list[Need]] = {}
    loads: list[Load] = []
    handing_on = [claim for claim in claims if claim.heir]
    for claim in claims:
        if claim.heir:
            continue
        need = Need.of(claim, handing_on)
        group = "same-card" if same_card else claim.one_card_group
        if group and need.cards == 1:
            groups.setdefault(group, []).append(need)
        else:
            loads.append(Load.of(need))
    loads += [Load.of(*(need.over(1) for need in needs)) for needs in groups.values()]
    return tuple(sorted(loads, key=_hardest_first))


def _hardest_first(load: Load) -> tuple[bool, int, int, int]:
    return (not load.exclusive, -load.cards, -load.memory_mib, -load.core_percent)


def _percent(claim: Claim) -> Fraction:
    if claim.memory_mib is not None or claim.exclusive:
        return Fraction(0)
    return Fraction(claim.core_percent) if claim.memory_percent is None else claim.memory_percent
