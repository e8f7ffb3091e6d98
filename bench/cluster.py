"""A scheduler's engine that knows a large cluster, filled and kept full with pods of many shapes."""

import random
from collections.abc import Sequence
from typing import Any

from sublet_scheduler.core.effects import Answer
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.events import ReviewAsked
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.core.node import Booking, Held
from sublet_scheduler.core.state import Rules

from bench.beginning import NOW, add_node, begin
from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import Options
from sublet.contract.reading import read_pod
from sublet.model.card import Card, Link
from sublet.model.claim import ContainerKind, PodAsk
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef
from sublet.model.placement import CardGrant, NoRoom, Placement

CARDS_A_NODE = 8
CARD_MIB = 81_920
FULL = 0.9
LOOKS = Rules().looks_a_slice
SMALL_MIB = (2048, 4096, 8192, 16384, 24576)
LARGE_MIB = (24576, 40960, 49152)
MOST_SMALL = 10_000
"""Larger clusters are filled with larger shares."""
ZONES = 50
SERVED = dict.fromkeys((*(name for one in dialects.ALL for name in one.resources), keys.SLOT), 10**9)

SHAPES: Sequence[dict[str, object]] = (
    {keys.GPU_MEMORY: "2048"},
    {keys.GPU_MEMORY: "4096", keys.GPU_CORE: "10"},
    {keys.GPU_MEMORY: "8192", keys.GPU_CORE: "20"},
    {keys.GPU_MEMORY: "16384", keys.GPU_CORE: "25"},
    {keys.GPU_MEMORY_PERCENT: "50"},
    {keys.GPU_CORE: "30"},
    {keys.GPU: "1"},
    {keys.GPU: "2", keys.GPU_MEMORY: "8192"},
    {keys.NVIDIA_GPU: "1"},
    {keys.NVIDIA_GPU: "2"},
    {keys.ALIYUN_GPU_MEM: "6"},
    {keys.ALIYUN_GPU_MEM: "20"},
)


def manifest(limits: dict[str, object], name: str = "pod") -> dict[str, Any]:
    resources = {"limits": {**limits, "cpu": "2", "memory": "4Gi"}}
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": resources}]},
    }


def ask_for(limits: dict[str, object], name: str = "pod") -> PodAsk:
    ask = read_pod(manifest(limits, name), namespace="team", options=Options(), managed=True)
    assert isinstance(ask, PodAsk)
    return ask


class Cluster:
    """Cards are used as the sum of bookings that come and go; nothing outside the engine is there."""

    def __init__(self, nodes: int, *, fill: bool = True, seed: int = 7, looks: int = LOOKS) -> None:
        """`looks` is how many nodes one review looks at before it leaves the pod to the queue."""
        self.draw = random.Random(seed)
        workload = tuple((ask_for(limits), 1.0) for limits in SHAPES)
        self.engine = Engine(Rules(workload=workload, looks_a_slice=looks))
        self._sizes_mib = SMALL_MIB if nodes <= MOST_SMALL else LARGE_MIB
        self.used_mib = 0
        self.total_mib = nodes * CARDS_A_NODE * CARD_MIB
        self._live: list[tuple[NodeName, str, int]] = []
        self._ids = 0
        for at in range(nodes):
            self._add(NodeName(f"node-{at:05d}"))
        begin(self.engine, self.next_revision)
        if fill:
            self._fill()

    def next_revision(self) -> int:
        """Of the ledger's bucket."""
        self._ids += 1
        return self._ids

    def ask(self, ask: PodAsk) -> tuple[DecisionId, Placement | NoRoom]:
        """One decision as the webhook asks for it."""
        self._ids += 1
        id_ = DecisionId(str(self._ids))
        effects = self.engine.handle(ReviewAsked(id_, ask), now=NOW)
        [answer] = [one for one in effects if isinstance(one, Answer)]
        assert isinstance(answer.outcome, Placement | NoRoom)
        return id_, answer.outcome

    def keep(self, id_: DecisionId, outcome: Placement | NoRoom) -> None:
        """What was reserved becomes a pod."""
        reservation = self.engine.state.unreserve(id_)
        if reservation is None or isinstance(outcome, NoRoom):
            return
        held = tuple(
            Held(container=name, kind=ContainerKind.MAIN, grants=grants)
            for name, grants in outcome.containers.items()
        )
        self._book(outcome.node, Booking(ref=reservation.ask.pod, held=held))

    def churn(self) -> None:
        """End pods at random until the cluster is only as full as it shall be."""
        while self.used_mib > FULL * self.total_mib:
            at = self.draw.randrange(len(self._live))
            self._live[at], self._live[-1] = self._live[-1], self._live[at]
            node, key, mib = self._live.pop()
            self.used_mib -= mib
            self.engine.state.fleet.unbook(node, key)

    def _add(self, name: NodeName) -> None:
        ids = [CardId(f"GPU-{name}-{at}") for at in range(CARDS_A_NODE)]
        cards = tuple(
            Card(
                id=ids[at],
                index=at,
                model="NVIDIA A100-SXM4-80GB",
                memory_mib=CARD_MIB,
                links={other: Link.NVLINK for other in ids if other != ids[at]},
            )
            for at in range(CARDS_A_NODE)
        )
        labels = {"zone": f"z{len(self.engine.state.fleet.nodes) % ZONES}"}
        facts = NodeFacts(
            name=name, labels=labels, cpu_milli=10**9, memory_mib=10**9, pods=10**6, allocatable=SERVED
        )
        add_node(self.engine, facts, cards, shares_per_card=16, slots=128)

    def _fill(self) -> None:
        """Cards of every degree of use: one in eight whole, some empty, most shared."""
        fleet = self.engine.state.fleet
        for node in fleet.nodes.values():
            for card in node.by_index:
                if self.draw.random() < 0.125:
                    self._book(node.name, _one(card.card, CARD_MIB, 100, exclusive=True))
                while not card.exclusive and card.shares < 16 and self.draw.random() < 0.97:
                    mib = self.draw.choice(self._sizes_mib)
                    if mib <= card.free_mib and card.free_core >= 10:
                        self._book(node.name, _one(card.card, mib, self.draw.choice((0, 5, 10))))
                    elif card.free_mib < max(8192, min(self._sizes_mib)):
                        break
        self.churn()

    def share(self, shares: int) -> None:
        """Put so many shares on cards in turn."""
        states = [one for node in self.engine.state.fleet.nodes.values() for one in node.by_index]
        places = [node.name for node in self.engine.state.fleet.nodes.values() for _ in node.by_index]
        for number in range(shares):
            at = number % len(states)
            self._book(places[at], _one(states[at].card, self.draw.choice(SMALL_MIB), 5, pod=f"pod-{number}"))

    def _book(self, node: NodeName, booking: Booking) -> None:
        self._ids += 1
        key = f"pod-{self._ids}"
        self.engine.state.fleet.book(node, key, booking)
        mib = sum(grant.memory_mib or 0 for held in booking.held for grant in held.grants)
        self._live.append((node, key, mib))
        self.used_mib += mib


def _one(card: Card, mib: int, core: int, *, exclusive: bool = False, pod: str = "old") -> Booking:
    grant = CardGrant(card=card.id, index=card.index, memory_mib=mib, core_percent=core, exclusive=exclusive)
    return Booking(
        ref=PodRef("team", pod), held=(Held(container="main", kind=ContainerKind.MAIN, grants=(grant,)),)
    )
