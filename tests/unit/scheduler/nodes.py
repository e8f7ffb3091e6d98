"""A fleet and its placer without the engine around them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sublet_scheduler.core.facts import NodeFacts, Taint
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.node import Booking, Held, HostUse
from sublet_scheduler.core.placing import Placer
from sublet_scheduler.core.scoring.workload import Workload
from sublet_scheduler.core.shapes import Policies

from sublet.contract import keys
from sublet.model.card import Card
from sublet.model.claim import ContainerKind, PodAsk, Policy
from sublet.model.ids import CardId, NodeName, PodRef
from sublet.model.placement import CardGrant, NoRoom, Placement
from sublet.model.reasons import Reason
from tests import builders

EVERYTHING = dict.fromkeys((*keys.NATIVE_RESOURCES, keys.SLOT, keys.NVIDIA_GPU), 10**9) | {
    keys.ALIYUN_GPU_MEM: 10**9,
    keys.ALIYUN_GPU_COUNT: 10**9,
}


@dataclass
class Nodes:
    node_policy: Policy = Policy.BINPACK
    card_policy: Policy = Policy.BINPACK
    fleet: Fleet = field(default_factory=Fleet)
    workload: Workload = field(default_factory=Workload)
    _bookings: int = 0

    def __post_init__(self) -> None:
        policies = Policies(self.node_policy, self.card_policy)
        self.placer = Placer.over(self.fleet, policies, 15.0, workload=self.workload)

    def add(
        self,
        name: str,
        *held: Card,
        shares: int = 16,
        taints: tuple[Taint, ...] = (),
        labels: Mapping[str, str] | None = None,
        problems: tuple[str, ...] = (),
        **facts: Any,
    ) -> None:
        defaults: dict[str, Any] = {
            "cpu_milli": 64_000,
            "memory_mib": 262_144,
            "labels": labels or {},
            "allocatable": EVERYTHING,
        }
        node = NodeName(name)
        state = self.fleet.node(node)
        state.facts = NodeFacts(name=node, taints=taints, **(defaults | facts))
        self.fleet.hear(node, 0.0)
        self.fleet.set_inventory(node, builders.inventory(name, *held, shares=shares, problems=problems))

    def use(
        self, card: str, mib: int | None = 0, core: int = 0, *, exclusive: bool = False, group: str = ""
    ) -> str:
        """Book a share on a card; returns the key under which it can be freed."""
        [node] = [one for one in self.fleet.nodes.values() if card in one.cards]
        self._bookings += 1
        key = f"booking-{self._bookings}"
        index = node.cards[CardId(card)].card.index
        grant = CardGrant(
            card=CardId(card), index=index, memory_mib=mib, core_percent=core, exclusive=exclusive
        )
        held = (Held(container="main", kind=ContainerKind.MAIN, grants=(grant,)),)
        same_card = ("default", group) if group else None
        self.fleet.book(node.name, key, Booking(ref=PodRef("default", key), held=held, same_card=same_card))
        return key

    def keep(self, ask: PodAsk, placement: Placement) -> str:
        """Book a placement as a pod that was decided."""
        self._bookings += 1
        key = f"booking-{self._bookings}"
        held = tuple(
            Held(
                container=claim.container,
                kind=claim.kind,
                grants=placement.containers[claim.container],
                counted=not claim.heir,
                profile=claim.profile or "",
            )
            for claim in ask.claims
        )
        group = ask.wishes.same_card
        same_card = (ask.pod.namespace, group) if group else None
        booking = Booking(
            ref=ask.pod,
            held=held,
            same_card=same_card,
            replica_of=ask.owner if ask.wishes.apart else "",
        )
        self.fleet.book(placement.node, key, booking)
        return key

    def fill_host(self, name: str, cpu_milli: int = 0, memory_mib: int = 0) -> None:
        self._bookings += 1
        use = HostUse(cpu_milli=cpu_milli, memory_mib=memory_mib)
        self.fleet.host(NodeName(name), f"host-{self._bookings}", use)

    def ask(self, manifest: dict[str, Any], *, now: float = 0.0) -> Placement | NoRoom:
        return self.placer.place(builders.ask(manifest), now=now)

    def place(self, *containers: dict[str, Any], **how: Any) -> dict[str, list[str]]:
        """Container -> cards of a pod that must find room."""
        outcome = self.ask(builders.pod("pod", *containers, **how))
        assert isinstance(outcome, Placement), outcome
        return {name: [one.card for one in grants] for name, grants in outcome.containers.items()}

    def hold(self, *containers: dict[str, Any], now: float = 0.0, **how: Any) -> Mapping[Reason, int]:
        """The reasons of a pod that must find none."""
        outcome = self.ask(builders.pod("pod", *containers, **how), now=now)
        assert isinstance(outcome, NoRoom), outcome
        assert outcome.message
        return outcome.reasons

    def message(self, *containers: dict[str, Any], **how: Any) -> str:
        outcome = self.ask(builders.pod("pod", *containers, **how))
        assert isinstance(outcome, NoRoom), outcome
        return outcome.message
