"""Whether a node may take a pod at all: selectors, affinity, taints, CPU, memory, the node's preparation."""

from collections.abc import Mapping

from sublet.contract import keys
from sublet.model.claim import PodAsk, Requirement
from sublet.model.ids import NodeName
from sublet.model.reasons import Reason
from sublet_scheduler.core.facts import NodeFacts, Taint
from sublet_scheduler.core.node import NodeState

HELD_EFFECTS = ("NoSchedule", "NoExecute")
CORDONED = Taint(key="node.kubernetes.io/unschedulable")
"""Kubernetes' own taint of a cordoned node; who tolerates it (DaemonSet pods) may go there."""


def place_objection(node: NodeState, ask: PodAsk) -> Reason | None:
    """The first thing against `node` that does not depend on what is in use, nor on its agent."""
    facts = node.facts
    if facts is not None and not all(_holds(one, facts.labels, facts.name) for one in ask.wishes.needs):
        return Reason.OTHER_MEMORY_UNIT
    if facts is None or not selects(ask, facts):
        return Reason.NODE_SELECTOR
    if any(
        taint.effect in HELD_EFFECTS and not taint.tolerated_by(ask.wishes.tolerations)
        for taint in facts.taints
        if not (facts.unschedulable and taint.key == CORDONED.key)
    ):
        return Reason.TAINT
    cordoned = facts.unschedulable and not CORDONED.tolerated_by(ask.wishes.tolerations)
    if cordoned or not facts.ready:
        return Reason.UNSCHEDULABLE
    return None


def node_objection(node: NodeState, ask: PodAsk, *, now: float, fresh_s: float) -> Reason | None:
    """The first thing against `node`, before its cards are looked at."""
    facts = node.facts
    against = place_objection(node, ask)
    if against or facts is None:
        return against
    # like kube-scheduler: who asks for nothing fits everywhere
    if ask.cpu_milli and node.cpu_milli + ask.cpu_milli > facts.cpu_milli:
        return Reason.INSUFFICIENT_CPU
    if ask.memory_mib and node.memory_mib + ask.memory_mib > facts.memory_mib:
        return Reason.INSUFFICIENT_HOST_MEMORY
    if len(node.hosts) + 1 > facts.pods:
        return Reason.TOO_MANY_PODS
    if not node.cards:
        return Reason.NO_CARDS
    return unprepared(node, now=now, fresh_s=fresh_s) or _missing_total(node, ask)


def unprepared(node: NodeState, *, now: float, fresh_s: float) -> Reason | None:
    """Why the node is not managed, if it is not."""
    if node.inventory is None or node.beat_s is None or now - node.beat_s > fresh_s:
        return Reason.AGENT_SILENT
    if node.dra or node.foreign or Reason.FOREIGN_PLUGIN in node.inventory.problems:
        return Reason.FOREIGN_PLUGIN
    if Reason.MIG_UNSUPPORTED in node.inventory.problems:
        return Reason.MIG_UNSUPPORTED
    if not node.inventory.registered:
        return Reason.NODE_NOT_PREPARED
    return None


def _missing_total(node: NodeState, ask: PodAsk) -> Reason | None:
    if not any(card.open for card in node.cards.values()):
        return None  # then the totals are gone with the cards, which say why
    shown = node.facts.allocatable if node.facts else {}
    # there is a total of every resource but of profiles, of which a node has those of its partitions
    wanted = (name for name in ask.resources if not name.startswith(keys.NVIDIA_MIG_PREFIX))
    return None if all(name in shown for name in wanted) else Reason.NODE_NOT_PREPARED


def totals_lag(node: NodeState, ask: PodAsk) -> bool:
    """Whether kube-scheduler would not see room on `node` that its cards have: totals follow the cards
    with a delay, and pods without a claim use them up. To be asked after the cards were."""
    shown = node.facts.allocatable if node.facts else {}
    return any(
        node.resources.get(name, 0) + amount > shown.get(name, 0) for name, amount in ask.resources.items()
    )


def selects(ask: PodAsk, facts: NodeFacts) -> bool:
    """Whether node selector, required affinity and spec.nodeName let the pod on the node."""
    if ask.node_name and ask.node_name != facts.name:
        return False
    if any(facts.labels.get(key) != value for key, value in ask.wishes.node_selector.items()):
        return False
    terms = ask.wishes.affinity
    return not terms or any(
        term and all(_holds(one, facts.labels, facts.name) for one in term) for term in terms
    )


def only_node(ask: PodAsk) -> NodeName | None:
    """The one node that the pod names, by spec.nodeName or as DaemonSet pods do; None if it is open."""
    if ask.node_name:
        return ask.node_name
    names = [
        {one.values for one in term if one.field and one.operator == "In"} for term in ask.wishes.affinity
    ]
    if names and all(len(one) == 1 for one in names) and len({frozenset(one) for one in names}) == 1:
        [values] = names[0]
        return NodeName(values[0]) if len(values) == 1 else None
    return None


def _holds(one: Requirement, labels: Mapping[str, str], name: NodeName) -> bool:
    value: str | None = name if one.field and one.key == "metadata.name" else labels.get(one.key)
    match one.operator:
        case "In":
            return value is not None and value in one.values
        case "NotIn":
            return value is None or value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, one)
        case _:
            return False


def _compares(value: str | None, one: Requirement) -> bool:
    try:
        left, right = int(value or ""), int(one.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if one.operator == "Gt" else left < right
