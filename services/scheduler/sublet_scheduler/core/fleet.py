"""What the scheduler knows of nodes and cards: capacity, what is promised of it, and why a node is out.

Only the engine changes it.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from sublet.contract import dialects
from sublet.contract.overcommit import Overcommit
from sublet.model.card import Card, Inventory
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardGrant
from sublet_scheduler.core.changes import Changes
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.core.joined import Row, rows_of
from sublet_scheduler.core.kinds import Kind, kind_of
from sublet_scheduler.core.node import Booking, CardState, HostUse, NodeState, counted_grants
from sublet_scheduler.core.outside import Outsiders, OutsideUse, as_used, is_shut
from sublet_scheduler.core.silence import Silence

LABELS = frozenset(
    (one.label, one.label_value) for dialect in dialects.ALL for one in dialect.label_variables
)


class Fleet:
    """All nodes, kept consistent: usage of cards always equals the sum of the bookings."""

    def __init__(
        self, overcommit: Overcommit | None = None, outside_use: OutsideUse = OutsideUse.MEMORY
    ) -> None:
        self._overcommit = overcommit or Overcommit()
        self._outside_use = outside_use
        self.nodes: dict[NodeName, NodeState] = {}
        self.groups: dict[tuple[str, str], dict[str, NodeName]] = {}
        """Same-card group -> booking key -> node."""
        self.replicas: dict[str, dict[NodeName, set[str]]] = {}
        """Owner whose pods wish to be apart -> node -> booking keys."""
        self.changed = Changes()
        """Nodes by what is in use or in scheduling on them."""
        self.described = Changes()
        """Nodes by what their object and their inventory say."""
        self.labels: Counter[tuple[str, str]] = Counter()
        """How many nodes have a label that a variable of containers goes by."""
        self.kinds: dict[Kind, int] = {}
        """How many cards of each kind there are."""
        self._silence = Silence()
        self._elsewhere: set[NodeName] = set()
        """Nodes whose cards somebody else hands out."""
        self.growths = 0
        """How often a node came that was of another size than all others: only then may a pod fit that was
        larger than any."""
        self._sizes: dict[Hashable, int] = {}
        """How many nodes there are of each size."""
        self._size_of: dict[NodeName, Hashable] = {}
        self._one_kind: dict[Kind, Kind] = {}
        self._rows: dict[Row, Row] = {}
        self._layout = 0
        self._order: tuple[NodeName, ...] | None = ()
        self._places: dict[NodeName, int] = {}

    def node(self, name: NodeName) -> NodeState:
        if name not in self.nodes:
            self.nodes[name] = NodeState(name)
            self._silence.add(name)
            self._order = None
            self.described.note(name)
            self._touch(self.nodes[name])
        return self.nodes[name]

    @property
    def order(self) -> tuple[NodeName, ...]:
        """All nodes by name: the order in which equals are taken."""
        if self._order is None:
            self._order = tuple(sorted(self.nodes))
            self._places = {name: at for at, name in enumerate(self._order)}
            self._layout += 1
        return self._order

    @property
    def layout(self) -> int:
        """Counts the changes of `order`."""
        return self._layout if self.order else 0

    @property
    def places(self) -> Mapping[NodeName, int]:
        """Node -> its position in `order`."""
        return self._places if self.order else {}

    def hear(self, name: NodeName, at_s: float) -> None:
        """A heartbeat, monotonic seconds."""
        self.node(name).beat_s = at_s
        self._silence.heard(name, at_s)

    def share_with(self, state: NodeState, *, dra: bool | None = None, foreign: bool | None = None) -> None:
        """Whether DRA or another plugin hands out cards of the node; None leaves it as it is known."""
        state.dra = state.dra if dra is None else dra
        state.foreign = state.foreign if foreign is None else foreign
        (self._elsewhere.add if state.dra or state.foreign else self._elsewhere.discard)(state.name)

    def not_counted_on(self, oldest_s: float) -> set[NodeName]:
        """Nodes without a heartbeat since `oldest_s`, and those whose cards somebody else hands out."""
        return self._silence.since(oldest_s, self.nodes) | self._elsewhere

    def describe(self, name: NodeName, facts: NodeFacts | None) -> None:
        """What the Node object says."""
        state = self.node(name)
        for described, sign in ((state.facts, -1), (facts, 1)):
            for label in LABELS & (described.labels.items() if described else frozenset()):
                self.labels[label] += sign
        self.labels = +self.labels
        before, state.facts = state.facts, facts
        self.described.note(name)
        if self._overcommit.by_label and _labels(before) != _labels(facts):
            self._recount(state)
        else:
            self._measure(state)
            self._touch(state)

    def forget(self, name: NodeName) -> None:
        """Drop a node of which nothing is known and nothing is booked any more."""
        state = self.nodes.get(name)
        if state and not (state.facts or state.inventory or state.bookings or state.hosts):
            del self.nodes[name]
            self._elsewhere.discard(name)
            self._order = None
            self.changed.drop(name)
            self.described.drop(name)

    def set_inventory(self, name: NodeName, inventory: Inventory | None) -> None:
        state = self.node(name)
        state.inventory = inventory
        self.described.note(name)
        self._recount(state)

    def set_open(self, name: NodeName, card: CardId, *, open_: bool) -> None:
        state = self.node(name)
        if open_:
            state.closed.discard(card)
        else:
            state.closed.add(card)
        changed = False
        for one in state.by_index:
            if card in (one.card.id, one.card.parent):
                wanted = self._gates(state, one.card)
                changed |= (one.open, one.shut) != wanted
                one.open, one.shut = wanted
        if changed:
            self._touch(state)

    def set_outsiders(self, name: NodeName, outsiders: Outsiders) -> bool:
        """What others use of the node's cards; says whether that changed anything."""
        state = self.node(name)
        if state.outsiders == outsiders:
            return False
        state.outsiders = outsiders
        self._recount(state)
        return True

    def book(self, name: NodeName, key: str, booking: Booking) -> None:
        state = self.node(name)
        if key in state.bookings:
            self.unbook(name, key)
        state.bookings[key] = booking
        _count(state, booking, 1)
        if booking.replica_of:
            self.replicas.setdefault(booking.replica_of, {}).setdefault(name, set()).add(key)
        if booking.same_card:
            self.groups.setdefault(booking.same_card, {})[key] = name
        self._touch(state)

    def unbook(self, name: NodeName, key: str) -> None:
        state = self.nodes.get(name)
        booking = state.bookings.pop(key, None) if state else None
        if state is None or booking is None:
            return
        if booking.replica_of:
            self._forget_replica(booking.replica_of, name, key)
        if booking.same_card:
            members = self.groups[booking.same_card]
            del members[key]
            if not members:
                del self.groups[booking.same_card]
        self._recount(state) if any(c.exclusive for c in state.cards.values()) else _count(state, booking, -1)
        self._touch(state)

    def host(self, name: NodeName, key: str, use: HostUse | None) -> None:
        """Set or end what the pod under `key` takes of the node's CPU, memory and resources."""
        state = self.node(name)
        old = state.hosts.pop(key, None)
        for one, sign in ((old, -1), (use, 1)):
            if one:
                state.cpu_milli += sign * one.cpu_milli
                state.memory_mib += sign * one.memory_mib
                for resource, amount in one.resources.items():
                    state.resources[resource] = state.resources.get(resource, 0) + sign * amount
        if use:
            state.hosts[key] = use
        if use or old:
            self._changed(state)

    def replicas_on(self, owner: str, name: NodeName) -> Counter[CardId]:
        """How many of the owner's replicas sit on each card of the node."""
        state = self.nodes[name]
        return Counter(
            card
            for key in self.replicas.get(owner, {}).get(name, ())
            for card in {grant.card for grant in counted_grants(state.bookings[key].held)}
        )

    def _forget_replica(self, owner: str, name: NodeName, key: str) -> None:
        by_node = self.replicas[owner]
        by_node[name].discard(key)
        if not by_node[name]:
            del by_node[name]
        if not by_node:
            del self.replicas[owner]

    def group_card(self, group: tuple[str, str]) -> tuple[NodeName, CardId] | None:
        """Where the members of a same-card group sit, if there are any."""
        for key, name in self.groups.get(group, {}).items():
            for held in self.nodes[name].bookings[key].held:
                return name, held.grants[0].card
        return None

    def derive(self) -> None:
        """Find again, and without telling anybody of a change, what follows from nodes and bookings."""
        for state in self.nodes.values():
            version = state.version
            self._recount(state)
            state.version = version
            self.share_with(state)
            if state.beat_s is None:
                self._silence.add(state.name)
            else:
                self._silence.heard(state.name, state.beat_s)
        self._order = tuple(sorted(self.nodes))
        self._places = {name: at for at, name in enumerate(self._order)}

    def _recount(self, state: NodeState) -> None:
        cards = state.inventory.cards if state.inventory else ()
        labels = _labels(state.facts)
        offered = (
            self._overcommit.on(as_used(one, state.outsiders, self._outside_use), labels)
            for card in sorted(cards, key=lambda card: (card.index, card.id))
            for one in card.offered or (card,)
        )
        state.cards = {
            one.id: CardState(card=one, kind=self._kind(one), open=open_, shut=shut)
            for one in offered
            for open_, shut in [self._gates(state, one)]
        }
        for one in state.by_index:
            self._count_kind(one.kind, -1)
        state.by_index = tuple(state.cards.values())
        rows = rows_of([one.card for one in state.by_index])
        for at, one in enumerate(state.by_index):
            one.place, one.row = at, self._rows.setdefault(rows[one.card.id], rows[one.card.id])
            self._count_kind(one.kind, 1)
        for booking in state.bookings.values():
            _count(state, booking, 1)
        self._measure(state)
        self._touch(state)

    def _gates(self, state: NodeState, card: Card) -> tuple[bool, bool]:
        """Whether the card is open, and whether it is not for its use by others alone."""
        shut = is_shut(card, state.outsiders, self._outside_use)
        accepts = _accepts(state, card)
        return accepts and not shut, accepts and shut

    def _measure(self, state: NodeState) -> None:
        """Note the size of the node, if it has one now."""
        facts, before = state.facts, self._size_of.pop(state.name, None)
        size: Hashable = None
        if facts and state.by_index:
            kinds = tuple(one.kind for one in state.by_index)
            size = (kinds, state.shares_per_card, facts.cpu_milli, facts.memory_mib)
            self._size_of[state.name] = size
        if size == before:
            return
        for one, by in ((before, -1), (size, 1)):
            if one is not None:
                self._sizes[one] = self._sizes.get(one, 0) + by
        if before is not None and not self._sizes[before]:
            del self._sizes[before]
        if size is not None and self._sizes[size] == 1:
            self.growths += 1

    def _touch(self, state: NodeState) -> None:
        free_mib = [card.free_mib for card in state.by_index]
        state.free_mib, state.most_free_mib = sum(free_mib), max(free_mib, default=0)
        state.unused = sum(card.unused for card in state.by_index)
        state.most_free_core = max((card.free_core for card in state.by_index), default=0)
        _count_siblings(state.by_index)
        self._changed(state)

    def _changed(self, state: NodeState) -> None:
        state.version += 1
        self.changed.note(state.name)

    def _kind(self, card: Card) -> Kind:
        kind = kind_of(card)
        return self._one_kind.setdefault(kind, kind)

    def _count_kind(self, kind: Kind, by: int) -> None:
        count = self.kinds.get(kind, 0) + by
        if count:
            self.kinds[kind] = count
        else:
            del self.kinds[kind]


def _accepts(state: NodeState, card: Card) -> bool:
    taken_out = not state.closed.isdisjoint({card.id, card.parent})
    return not taken_out and card.health.accepts_shares and not card.is_unpartitioned


def _count_siblings(cards: Sequence[CardState]) -> None:
    free: dict[CardId, int] = {}
    for one in cards:
        if one.card.parent is not None and one.open and one.unused:
            free[one.card.parent] = free.get(one.card.parent, 0) + 1
    for one in cards:
        if one.card.parent is not None:
            one.free_siblings = free.get(one.card.parent, 0)


def _labels(facts: NodeFacts | None) -> Mapping[str, str]:
    return facts.labels if facts else {}


def _count(state: NodeState, booking: Booking, sign: int) -> None:
    for held in booking.held:
        for grant in held.grants if held.counted else ():
            card = state.cards.get(grant.card)
            if card is None:
                for instead in _in_its_place(state, grant, held.profile):
                    instead.shares += sign
                    instead.exclusive = sign > 0
                continue
            card.shares += sign
            card.used_mib += sign * (grant.memory_mib or 0)
            card.used_core += sign * grant.core_percent
            if grant.exclusive:
                card.exclusive = sign > 0


def _in_its_place(state: NodeState, grant: CardGrant, profile: str) -> Iterator[CardState]:
    """What is offered now of a card that was divided, or made whole, while a container held it: whoever has
    the card's device node could reach all of that."""
    for one in state.by_index:
        if one.card.parent == grant.card or (
            profile and not one.card.profile and one.card.index == grant.index
        ):
            yield one
