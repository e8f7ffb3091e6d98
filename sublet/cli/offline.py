"""Places pods on the nodes of an inventory, with the scheduler's own core and nothing else.

There is no agent, no kubelet and no time: every node counts as prepared, and nothing that was placed ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from sublet_scheduler.core.facts import NodeFacts, PodFacts
from sublet_scheduler.core.listed import facts_of, inventory_of
from sublet_scheduler.core.node import Booking, Held, HostUse
from sublet_scheduler.core.placing import NOTHING_KEPT
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.shapes import Policies
from sublet_scheduler.core.state import Rules, State
from sublet_scheduler.core.together import Together
from sublet_scheduler.core.waiting import waits

from sublet.contract import dialects, keys, podspec
from sublet.contract.dialects.interface import Options
from sublet.contract.inventory import InventoryGrant, InventoryNode
from sublet.contract.overcommit import Overcommit
from sublet.contract.podspec import Json
from sublet.model.card import Card
from sublet.model.claim import ContainerKind, Gang, PodAsk
from sublet.model.ids import CardId, DecisionId, NodeName, PodUid
from sublet.model.placement import CardGrant, NoRoom, Placement
from sublet.model.reasons import Reason

NOW = 0.0
Decided = tuple[DecisionId, Placement | NoRoom]
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
        self._together = Together(self._state)
        self._decisions = 0
        for node in sorted(nodes, key=lambda node: node.name):
            self._add(node)

    def place(self, ask: PodAsk) -> Decided:
        """Decide on one pod, and hold for good what it gets."""
        id_ = self._next()
        placer = self._state.placer
        outcome = placer.place(ask, now=NOW)
        if isinstance(outcome, NoRoom):
            outcome = replace(outcome, message=placer.told(outcome, ask, now=NOW))
        self._state.reserve(id_, ask, outcome, NOW)
        return id_, outcome

    def place_gang(self, asks: Sequence[PodAsk], gang: Gang, others: int) -> list[Decided]:
        """Decide on all members of a gang at once: all get a place, or none does. `others` are its pods
        without a claim. Members above its size are placed with the rest where they fit."""
        records = [_record(self._next(), at, ask) for at, ask in enumerate(asks)]
        found = self._places(records, gang, others)
        decided: list[Decided] = []
        for record, ask in zip(records, asks, strict=True):
            outcome = found[record.uid]
            self._state.reserve(record.decision, ask, outcome, NOW)
            decided.append((record.decision, outcome))
        return decided

    def _places(
        self, records: Sequence[PodRecord], gang: Gang, others: int
    ) -> Mapping[PodUid, Placement | NoRoom]:
        everyone = [record.uid for record in records]
        needed = gang.size - others
        if missing := max(0, needed - len(records)):
            are = "is" if missing == 1 else "are"
            text = f"of gang {gang.name!r} of {gang.size} pods {missing} {are} missing"
            return dict.fromkeys(everyone, waits(Reason.GANG_INCOMPLETE, text))
        found = self._together.places(records, (), NOTHING_KEPT, NOW)
        if not isinstance(found, NoRoom):
            return found
        without = found
        if 0 < needed < len(records):
            found = self._together.places(records[:needed], (), NOTHING_KEPT, NOW)
        text = f"gang {gang.name!r} of {gang.size} pods does not fit at once: {without.message}"
        held = dict.fromkeys(everyone, waits(Reason.GANG_NO_ROOM, text, without.reasons))
        return held if isinstance(found, NoRoom) else {**held, **found}

    def _next(self) -> DecisionId:
        self._decisions += 1
        return DecisionId(str(self._decisions))

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
        fleet.describe(node.name, _facts(node))
        fleet.hear(node.name, NOW)
        fleet.set_inventory(node.name, replace(inventory_of(node), slots=ENDLESS, registered=True))
        by_pod = sorted(node.grants, key=lambda grant: grant.pod)
        for pod, grants in groupby(by_pod, key=lambda grant: grant.pod):
            known = {each.id: each for card in node.cards for each in (card, *card.offered)}
            held = tuple(_held(grant, known[grant.card]) for grant in grants)
            fleet.book(node.name, f"grant {pod}", Booking(ref=pod, held=held))
            fleet.host(node.name, f"grant {pod}", HostUse())


def _record(id_: DecisionId, at: int, ask: PodAsk) -> PodRecord:
    """Member `at` of a gang, as the scheduler would know it."""
    uid = PodUid(f"{at:06}")
    facts = PodFacts(uid=uid, ref=ask.pod, ask=ask)
    return PodRecord(uid=uid, ref=ask.pod, decision=id_, facts=facts, stage=Stage.WAITING, since=NOW)


def _facts(node: InventoryNode) -> NodeFacts:
    partitions = {keys.NVIDIA_MIG_PREFIX + one.profile for card in node.cards for one in card.partitions}
    served = {keys.SLOT, *partitions}.union(*(one.resources for one in dialects.ALL))
    return replace(facts_of(node), allocatable=dict.fromkeys(served, ENDLESS))


def _held(grant: InventoryGrant, card: Card) -> Held:
    granted = CardGrant(
        card=grant.card,
        index=card.index,
        memory_mib=grant.memory_mib,
        core_percent=grant.core_percent,
        exclusive=grant.exclusive,
    )
    return Held(container=grant.container, kind=ContainerKind.MAIN, grants=(granted,), profile=card.profile)
