"""Nodes that are not there yet: as large as those that are, or as those that the cluster says could come.

A room is one such node with the waiting pods that fit on it together.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sublet.contract.overcommit import Overcommit
from sublet.model.card import Inventory
from sublet.model.claim import PodAsk
from sublet.model.health import HealthState
from sublet.model.ids import NodeName
from sublet_scheduler.core.assigning import Asked, Assigned, assign, grants_of, wish_objection
from sublet_scheduler.core.clearing import after, counted
from sublet_scheduler.core.eligible import class_of
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.matching import place_objection
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.pools import NodePool
from sublet_scheduler.core.records import PodRecord, host_use
from sublet_scheduler.core.shapes import Shape
from sublet_scheduler.core.state import State

HOST_PERCENT = 90
"""Of a node's CPU and memory that several pods together may take: every node has pods of its own."""
MOST_TOGETHER = 64
"""So many pods share a room at most."""
HOSTNAME = "kubernetes.io/hostname"
CLASSES_KEPT = 64


@dataclass(slots=True)
class Room:
    """`kind` is equal for pods that may use the same nodes."""

    kind: Hashable
    node: NodeState
    members: list[PodRecord] = field(default_factory=list)
    _refused: set[Hashable] = field(default_factory=set)
    """Ways of asking for which there was no room left; there never is again."""

    def take(self, record: PodRecord, ask: PodAsk, shape: Shape) -> bool:
        """Add the pod if it fits beside the others."""
        way = (shape.full_key, ask.cpu_milli, ask.memory_mib)
        if way in self._refused or class_of(ask, shape.asked) != self.kind:
            return False
        if len(self.members) < MOST_TOGETHER and self._seat(record, ask, shape.asked):
            return True
        self._refused.add(way)
        return False

    def _seat(self, record: PodRecord, ask: PodAsk, asked: Asked) -> bool:
        facts = self.node.facts
        if facts is None:
            return False
        percent = HOST_PERCENT if self.members else 100
        if 100 * (self.node.cpu_milli + ask.cpu_milli) > percent * facts.cpu_milli:
            return False
        if 100 * (self.node.memory_mib + ask.memory_mib) > percent * facts.memory_mib:
            return False
        outcome = assign(self.node.by_index, asked, shares_per_card=self.node.shares_per_card)
        if not isinstance(outcome, Assigned):
            return False
        grants = counted(ask, grants_of(outcome, asked))
        self.node = after(self.node, grants=grants, host=host_use(ask))
        self.members.append(record)
        return True

    @property
    def cards(self) -> int:
        """How many of its cards are in use."""
        return sum(not one.unused for one in self.node.by_index)


class Rooms:
    def __init__(self, state: State, pools: Iterable[NodePool]) -> None:
        self._state = state
        self._pools = [_empty(pool.facts, pool.inventory, state.rules.overcommit) for pool in pools]
        self._known: OrderedDict[Hashable, tuple[int, int, Sequence[NodeState]]] = OrderedDict()
        """By class of pods: the nodes they may use, one of each size, as of some change of the fleet."""

    def open(self, record: PodRecord, ask: PodAsk, shape: Shape) -> Room | None:
        """The smallest node that takes the pod; None where no node that is known of would."""
        kind = class_of(ask, shape.asked)
        for node in self._sizes(kind, ask, shape.asked):
            room = Room(kind, node)
            if room.take(record, ask, shape):
                return room
        return None

    def _sizes(self, kind: Hashable, ask: PodAsk, asked: Asked) -> Sequence[NodeState]:
        fleet = self._state.fleet
        now = (fleet.layout, fleet.described.now)
        known = self._known.get(kind)
        if known is None or known[:2] != now:
            found = [*self._of_fleet(ask, asked), *self._of_pools(ask, asked)]
            known = (*now, sorted(found, key=_size))
            self._known[kind] = known
            if len(self._known) > CLASSES_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(kind)
        return known[2]

    def _of_fleet(self, ask: PodAsk, asked: Asked) -> Iterator[NodeState]:
        fleet = self._state.fleet
        barred = self._state.placer.eligible.barred(ask, asked)
        out = barred.to_bytes(len(fleet.order), "little")
        seen: set[Hashable] = set()
        for at, name in enumerate(fleet.order):
            node = fleet.nodes[name]
            if out[at] or node.facts is None or node.inventory is None or not node.by_index:
                continue
            alike = (*(one.kind for one in node.by_index), node.facts.cpu_milli, node.facts.memory_mib)
            if alike not in seen:
                seen.add(alike)
                yield _empty(node.facts, node.inventory, self._state.rules.overcommit)

    def _of_pools(self, ask: PodAsk, asked: Asked) -> Iterator[NodeState]:
        for node in self._pools:
            wanted = all(
                any(wish_objection(one.card, load, ask.wishes) is None for one in node.by_index)
                for load in asked.loads
            )
            if wanted and place_objection(node, ask) is None:
                yield node


def could_be_new(ask: PodAsk, asked: Asked) -> bool:
    """Whether the pod could go to a node that is not there yet: it names none, and no card."""
    terms = [one for term in ask.wishes.affinity for one in term]
    return not (
        ask.node_name
        or asked.only_card
        or ask.wishes.card_uuids
        or HOSTNAME in ask.wishes.node_selector
        or any(one.field or one.key == HOSTNAME for one in terms)
    )


def _empty(facts: NodeFacts, inventory: Inventory, overcommit: Overcommit) -> NodeState:
    """A node like this one with nothing on it."""
    name = NodeName("")
    cards = tuple(replace(card, used_outside_mib=0, health=HealthState.HEALTHY) for card in inventory.cards)
    fleet = Fleet(overcommit)
    fleet.describe(name, replace(facts, name=name))
    fleet.set_inventory(name, replace(inventory, node=name, cards=cards))
    return fleet.nodes[name]


def _size(node: NodeState) -> tuple[int, int, int, int]:
    facts = node.facts
    host = (facts.cpu_milli, facts.memory_mib) if facts else (0, 0)
    return (len(node.by_index), node.free_mib, *host)
