"""One node as the scheduler sees it: its object, its agent's words, its cards, and what is booked on them.

A *booking* is what one pod holds or will hold on a node, whatever its stage; its key is the pod's UID, or the
decision id while the pod has not been seen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sublet.model.card import Card, Inventory
from sublet.model.claim import ContainerKind, ServiceClass
from sublet.model.health import Verdict
from sublet.model.ids import CardId, NodeName, PodRef
from sublet.model.placement import CardGrant, Occupancy
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.core.joined import Row
from sublet_scheduler.core.kinds import NO_KIND, Kind
from sublet_scheduler.core.outside import Outsiders


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One container's grants within a booking; `counted` is False where an heir is counted instead."""

    container: str
    kind: ContainerKind
    grants: tuple[CardGrant, ...]
    counted: bool = True
    profile: str = ""
    """Of the partitions that were asked for; empty for cards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """What one pod takes of a node beside cards. CPU in thousandths of a core, memory in MiB."""

    cpu_milli: int = 0
    memory_mib: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    ref: PodRef
    held: tuple[Held, ...]
    same_card: tuple[str, str] | None = None
    """(namespace, group) of a same-card group."""
    replica_of: str = ""
    """UID of the owner, where its pods wish to be apart."""
    service_class: ServiceClass | None = None


@dataclass(slots=True)
class CardState:
    """A card and what is promised of it. Memory in MiB, compute in percent."""

    card: Card
    kind: Kind = NO_KIND
    """The same object for all cards of one kind in a fleet."""
    open: bool = True
    shut: bool = False
    """It is not open because others use it, and for nothing else."""
    used_mib: int = 0
    used_core: int = 0
    shares: int = 0
    exclusive: bool = False
    free_siblings: int = 0
    """Of a partition: how many of its card's partitions are free, itself included."""
    place: int = 0
    """Among the cards of its node."""
    row: Row = ()
    """How it is joined to each of them; one object for all cards of a fleet that are joined alike. Empty: not
    known beside the card itself."""
    total_mib: int = field(init=False)
    """What shares may have together."""
    total_core: int = field(init=False)
    """The same of compute."""

    def __post_init__(self) -> None:
        self.total_mib, self.total_core = self.card.most_mib, self.card.shareable_core_percent

    @property
    def free_mib(self) -> int:
        """What may still be promised to shares; below 0 where a ratio was lowered under what is promised."""
        return 0 if self.exclusive else self.total_mib - self.used_mib - self.card.used_outside_mib

    @property
    def free_core(self) -> int:
        return 0 if self.exclusive else self.total_core - self.used_core

    @property
    def at_least_promised(self) -> Card:
        """The card as if what is promised of it might be."""
        if self.exclusive or (self.used_mib <= self.total_mib and self.used_core <= self.total_core):
            return self.card
        return replace(
            self.card,
            shareable_mib=max(self.used_mib, self.total_mib),
            shareable_core_percent=max(self.used_core, self.total_core),
        )

    @property
    def unused(self) -> bool:
        return not (self.shares or self.exclusive or self.card.used_outside_mib)


@dataclass(slots=True)
class NodeState:
    """One node: its object, its agent's words, its cards, and everything promised on it."""

    name: NodeName
    facts: NodeFacts | None = None
    inventory: Inventory | None = None
    occupancy: Occupancy | None = None
    beat_s: float | None = None
    """When the last heartbeat came, monotonic seconds of this process."""
    beat: tuple[str, int] | None = None
    """Its epoch and number, so that the same one never counts twice."""
    release_word: str = ""
    """The operator's word that was acted on and still stands on the Node."""
    dra: bool = False
    foreign: bool = False
    """The node shows a served resource that another plugin wrote."""
    verdicts: dict[CardId, Verdict] = field(default_factory=dict)
    outsiders: Outsiders = field(default_factory=dict)
    """Of its cards that others use."""
    closed: set[CardId] = field(default_factory=set)
    """Cards that take no new shares, as this scheduler wants the ledger to say."""
    cards: dict[CardId, CardState] = field(default_factory=dict)
    """By ascending index."""
    by_index: Sequence[CardState] = ()
    """The same as a sequence."""
    free_mib: int = 0
    """Of all its cards together."""
    most_free_mib: int = 0
    """Of the card that has most."""
    most_free_core: int = 0
    """Percent, of the card that has most."""
    unused: int = 0
    """Cards that hold nothing at all."""
    bookings: dict[str, Booking] = field(default_factory=dict)
    hosts: dict[str, HostUse] = field(default_factory=dict)
    cpu_milli: int = 0
    memory_mib: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    version: int = 0

    @property
    def shares_per_card(self) -> int:
        return self.inventory.shares_per_card if self.inventory else 0

    @property
    def counted_cards(self) -> list[Card]:
        """The cards in scheduling or holding a grant: what totals are made of.

        What was given and is offered no more counts for as long as it is held, since kube-scheduler counts
        the pods that hold it; and where a ratio was lowered what is promised counts in full, since a kubelet
        that starts anew takes no more pods than totals hold.
        """
        offered = [state.at_least_promised for state in self.cards.values() if state.open or not state.unused]
        return [*offered, *self._held_and_not_offered()]

    def _held_and_not_offered(self) -> Iterator[Card]:
        """Partitions that were destroyed under a container, and cards that were partitioned under one."""
        divided = {card.id: card for card in (self.inventory.cards if self.inventory else ())}
        seen: set[CardId] = set()
        for held in (one for booking in self.bookings.values() for one in booking.held):
            for grant in held.grants:
                if not held.counted or grant.card in self.cards or grant.card in seen:
                    continue
                seen.add(grant.card)
                if held.profile:
                    yield Card(id=grant.card, index=grant.index, profile=held.profile)
                elif grant.card in divided:
                    yield divided[grant.card]

    def is_closed(self, card: CardId) -> bool:
        """Whether it takes no new shares, by itself or as part of a card."""
        state = self.cards.get(card)
        return card in self.closed or (state is not None and state.card.parent in self.closed)

    def are_all_offered(self, cards: Iterable[CardId]) -> bool:
        return all(card in self.cards for card in cards)

    @property
    def over(self) -> bool:
        """Whether more of some card is promised than may be."""
        return any(card.free_mib < 0 or card.free_core < 0 for card in self.by_index)


def counted_grants(held: Iterable[Held]) -> Iterator[CardGrant]:
    for one in held:
        if one.counted:
            yield from one.grants
