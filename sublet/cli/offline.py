"""Places pods on the nodes of an inventory, with the scheduler's own core and nothing else.

There is no agent, no kubelet and no time: every node counts as prepared, and nothing that was placed ends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from sublet_scheduler.core.facts import NodeFacts, Taint
from sublet_scheduler.core.node import Booking, Held, HostUse
from sublet_scheduler.core.shapes import Policies
from sublet_scheduler.core.state import Rules, State

from sublet.contract import dialects, keys, podspec
from sublet.contract.dialects.interface import Options
from sublet.contract.inventory import InventoryGrant, InventoryNode
from sublet.contract.overcommit import Overcommit
from sublet.contract.podspec import Json
from sublet.model.card import Card, Inventory
from sublet.model.claim import ContainerKind, PodAsk
from sublet.model.ids import CardId, DecisionId, NodeName
from sublet.model.placement import CardGrant, NoRoom, Placement

NOW = 0.0
ENDLESS = 2**53
"""Slots and totals of a node here: they only tell kube-scheduler what the cards say already."""


class OfflineFleet:
    def __init__(
        self,
        nodes: Iterable[InventoryNode],
        options: Options,
        policies: Policies,
        overcommit: Overcommit | None = None,
    ) -> None:
        rules = Rules(options=options, policies=policies, overcommit=overcommit or Overcommit())
        self._state = State(rules)
        self._decisions = 0
        for node in sorted(nodes, key=lambda node: node.name):
            self._add(node)

    def place(self, ask: PodAsk) -> tuple[DecisionId, Placement | NoRoom]:
        """Decide on one pod, and hold for good what it gets."""
        self._decisions += 1
        id_ = DecisionId(str(self._decisions))
        placer = self._state.placer
        outcome = placer.place(ask, now=NOW)
        if isinstance(outcome, NoRoom):
            outcome = replace(outcome, message=placer.told(outcome, ask, now=NOW))
        self._state.reserve(id_, ask, outcome, NOW)
        return id_, outcome

    def stand(self, pod: Json) -> None:
        """A pod without a claim takes host resources of the node that it names."""
        name = NodeName((pod.get("spec") or {}).get("nodeName") or "")
        if name in self._state.fleet.nodes:
            cpu_milli, memory_mib = podspec.host_requests(pod)
            key = f"unclaimed {len(self._state.fleet.nodes[name].hosts)}"
            self._state.fleet.host(name, key, HostUse(cpu_milli=cpu_milli, memory_mib=memory_mib))

    def cards(self, node: NodeName) -> dict[CardId, Card]:
        return self._state.cards(node)

    def labels(self, node: NodeName) -> Mapping[str, str]:
        return self._state.labels(node)

    def _add(self, node: InventoryNode) -> None:
        fleet = self._state.fleet
        state = fleet.node(node.name)
        fleet.describe(node.name, _facts(node))
        state.beat_s = NOW
        fleet.set_inventory(node.name, _inventory(node))
        by_pod = sorted(node.grants, key=lambda grant: grant.pod)
        for pod, grants in groupby(by_pod, key=lambda grant: grant.pod):
            known = {each.id: each for card in node.cards for each in (card, *card.offered)}
            held = tuple(_held(grant, known[grant.card]) for grant in grants)
            fleet.book(node.name, f"grant {pod}", Booking(ref=pod, held=held))
            fleet.host(node.name, f"grant {pod}", HostUse())


def _facts(node: InventoryNode) -> NodeFacts:
    partitions = {keys.NVIDIA_MIG_PREFIX + one.profile for card in node.cards for one in card.partitions}
    served = {keys.SLOT, *partitions}.union(*(one.resources for one in dialects.ALL))
    return NodeFacts(
        name=node.name,
        labels=node.labels,
        taints=tuple(Taint(key=one.key, value=one.value, effect=one.effect) for one in node.taints),
        unschedulable=node.unschedulable,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        pods=node.pods,
        allocatable=dict.fromkeys(served, ENDLESS),
    )


def _inventory(node: InventoryNode) -> Inventory:
    return Inventory(
        node=node.name,
        boot_id="",
        epoch="",
        seq=0,
        at_ms=0,
        cards=node.cards,
        shares_per_card=node.shares_per_card,
        slots=ENDLESS,
        registered=True,
    )


def _held(grant: InventoryGrant, card: Card) -> Held:
    granted = CardGrant(
        card=grant.card,
        index=card.index,
        memory_mib=grant.memory_mib,
        core_percent=grant.core_percent,
        exclusive=grant.exclusive,
    )
    return Held(container=grant.container, kind=ContainerKind.MAIN, grants=(granted,), profile=card.profile)
