"""The scheduler's engine without one part of its policy, to show what that part is worth."""

from collections.abc import Mapping, Sequence

from sublet_scheduler.core.scoring.fragmentation import Weights

from bench.policies.sublet import SubletPolicy
from bench.referee.lines import Factory
from bench.referee.trace import Node, Target
from sublet.model.claim import Policy


def _with(weights: Weights) -> Factory:
    def make(nodes: Sequence[Node], target: Target, seed: int) -> SubletPolicy:
        made = SubletPolicy(nodes, target, seed, policy=Policy.FRAGMENTATION)
        made.engine.state.placer.fragmentation.weights = weights
        return made

    return make


ABLATIONS: Mapping[str, Factory] = {
    "without-price": _with(Weights(price=0.0)),
    "without-stranded": _with(Weights(stranded=0.0)),
}
