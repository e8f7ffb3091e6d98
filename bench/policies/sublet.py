"""The engine that the scheduler runs, asked as its webhook asks it.

A card of the trace is one of 16,000 MiB, so that a thousandth of it is 16 MiB exactly; compute is counted in
whole percent, rounded down.
"""

from collections.abc import Sequence
from itertools import count

from sublet_scheduler.core.effects import Answer
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.events import ReviewAsked
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.core.shapes import Policies
from sublet_scheduler.core.state import Rules

from bench.beginning import NOW, add_node, begin
from bench.referee.trace import CARD, Node, Pod, Shape, Target
from sublet.model import claim
from sublet.model.card import Card
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef
from sublet.model.placement import Placement

MIB_A_MILLI = 16


class SubletPolicy:
    def __init__(self, nodes: Sequence[Node], target: Target, seed: int, *, policy: claim.Policy) -> None:
        del seed  # no decision depends on chance
        workload = tuple((_ask(Pod("expected", shape)), weight) for shape, weight in target)
        self.engine = Engine(Rules(policies=Policies(policy, policy), workload=workload))
        for node in nodes:
            self._add(node)
        begin(self.engine, count(1).__next__)

    def place(self, pod: Pod) -> tuple[str, tuple[int, ...]] | None:
        effects = self.engine.handle(ReviewAsked(DecisionId(pod.id), _ask(pod)), now=NOW)
        [outcome] = [one.outcome for one in effects if isinstance(one, Answer)]
        if not isinstance(outcome, Placement):
            self.engine.state.unreserve(DecisionId(pod.id))
            return None
        return outcome.node, tuple(one.index for grants in outcome.containers.values() for one in grants)

    def release(self, pod_id: str) -> None:
        self.engine.state.unreserve(DecisionId(pod_id))

    def _add(self, node: Node) -> None:
        name = NodeName(node.name)
        facts = NodeFacts(name=name, cpu_milli=node.cpu_milli, memory_mib=node.mem_mib, pods=10**6)
        cards = tuple(
            Card(id=CardId(f"{node.name}/{at}"), index=at, model=node.model, memory_mib=CARD * MIB_A_MILLI)
            for at in range(node.cards)
        )
        add_node(self.engine, facts, cards, shares_per_card=CARD, slots=CARD * node.cards)


def _ask(pod: Pod) -> claim.PodAsk:
    shape = pod.shape
    return claim.PodAsk(
        pod=PodRef("trace", pod.id),
        claims=(_claim(shape),) if shape.num_gpu else (),
        wishes=claim.Wishes(card_models=tuple(sorted(one.lower() for one in shape.models))),
        cpu_milli=shape.cpu_milli,
        memory_mib=shape.mem_mib,
    )


def _claim(shape: Shape) -> claim.Claim:
    whole = shape.gpu_milli == CARD
    return claim.Claim(
        container="main",
        kind=claim.ContainerKind.MAIN,
        dialect="sublet",
        cards=shape.num_gpu,
        exclusive=whole,
        memory_mib=None if whole else shape.gpu_milli * MIB_A_MILLI,
        core_percent=100 if whole else shape.gpu_milli // 10,
    )
