"""The ballast: one pod a node that keeps CPU and memory for idle cards, resized as cards fill and empty.

For everybody but us it is a pod like others; in our own accounting it takes nothing, since it gives way to
every pod that gets a card: it is made smaller before such a pod is released.
"""

from collections.abc import Iterator

from sublet.model.ids import NodeName, PodUid
from sublet_scheduler.core.effects import BallastEffect, MakeBallast, RemoveBallast, ResizeBallast
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.node import HostUse, NodeState
from sublet_scheduler.core.ratio import LEAST, ballast_size, free_of, idle_cards, ratio_for
from sublet_scheduler.core.records import PodRecord, Stage
from sublet_scheduler.core.releases import Releases
from sublet_scheduler.core.size import Size
from sublet_scheduler.core.state import State

UNHEARD_S = 60.0
"""So long after the start a node may be unheard of: its agent's words come later than pods and nodes."""
PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Ballast:
    def __init__(self, state: State, releases: Releases) -> None:
        self._state = state
        self._releases = releases
        self.pods: dict[NodeName, PodFacts] = {}
        """By the node that each is for."""
        self._node_of: dict[PodUid, NodeName] = {}
        self._waits_for_word: set[NodeName] = set()
        """Nodes whose agent was not heard of since the start, which is soon ago."""
        self._looked = -1
        """Up to which change of the fleet nodes were looked at."""
        self._dirty: set[NodeName] = set()
        self._busy: set[NodeName] = set()
        """Nodes for which a write is on its way."""
        self._again: dict[NodeName, tuple[float, float]] = {}
        """After a failed write: when it may be tried again, and the pause before."""
        self._all_heard_s: float | None = None
        """From then on a node that was not heard of has no agent; None: nothing was looked at yet."""
        releases.waits_until = self.waits_until

    # -- what is told

    def seen(self, pod: PodFacts, now: float) -> None:
        if pod.ballast is None:
            return
        name = pod.ballast.node
        self.pods[name] = pod
        self._node_of[pod.uid] = name
        self._dirty.add(name)
        if pod.node:
            self._state.fleet.host(pod.node, pod.uid, None if pod.ended else HostUse())
            self._let_go(pod.node, now)

    def gone(self, uid: PodUid, now: float) -> bool:
        """Whether it was a ballast pod."""
        name = self._node_of.pop(uid, None)
        if name is None:
            return False
        pod = self.pods.get(name)
        self._dirty.add(name)
        if pod and pod.uid == uid:
            del self.pods[name]
            if pod.node:
                self._state.fleet.host(pod.node, uid, None)
                self._let_go(pod.node, now)
        return True

    def left(self, node: NodeName) -> None:
        """The node is gone, or its agent took its leave."""
        self._dirty.add(node)

    def written(self, node: NodeName, pod: PodFacts | None, *, done: bool, now: float) -> None:
        """What came of a write; `pod` is the pod as read afterwards, None where there is none."""
        self._busy.discard(node)
        self._dirty.add(node)
        if done:
            self._again.pop(node, None)
        else:
            _, pause_s = self._again.get(node, (now, PAUSE_S / 2))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self._again[node] = (now + pause_s, pause_s)
        before = self.pods.get(node)
        if pod:
            self.seen(pod, now)
        elif done and before:
            self.gone(before.uid, now)

    # -- releases

    def waits_until(self, record: PodRecord) -> float:
        """Until when a pod must wait for the ballast to make room for it, at the longest."""
        gated = record.facts is not None and record.facts.gated
        if record.node is None or not gated or not self._in_the_way(record.node):
            return float("-inf")
        return record.since + self._state.rules.ballast_wait_s

    def _in_the_way(self, node: NodeName) -> bool:
        """Whether the ballast, as kube-scheduler counts it, and what is promised are too much together."""
        pod, state = self.pods.get(node), self._state.fleet.nodes.get(node)
        if pod is None or pod.ballast is None or pod.node is None or pod.ended or state is None:
            return False
        counted, free = pod.ballast.counted, free_of(state)
        room = Size(
            cpu_milli=max(free.cpu_milli, LEAST.cpu_milli),
            memory_bytes=max(free.memory_bytes, LEAST.memory_bytes),
        )
        return not counted.within(room)

    def _let_go(self, node: NodeName, now: float) -> None:
        if not self._in_the_way(node):
            for record in self._state.on_node(node):
                self._releases.retry(record, now)

    # -- what is done

    def settle(self, now: float) -> None:
        """After every event: bring the ballast of nodes that changed to what it should be."""
        if not (self._state.rules.ratios or self.pods):
            return
        if self._all_heard_s is None:
            self._all_heard_s = now + UNHEARD_S
        changed = self._state.fleet.changed
        self._dirty.update(changed.since(self._looked))
        self._looked = changed.now
        for node in sorted(self._dirty - self._busy):
            if self._again.get(node, (now, 0.0))[0] > now:
                continue
            self._dirty.discard(node)
            effect = self._next(node, now)
            if effect:
                self._busy.add(node)
                self._state.effects.append(effect)

    def timers(self) -> Iterator[float]:
        """When something is to be tried again, monotonic seconds."""
        yield from (self._again[node][0] for node in self._dirty - self._busy if node in self._again)
        if self._all_heard_s is not None and self._waits_for_word:
            yield self._all_heard_s

    def tick(self, now: float) -> None:
        if self._all_heard_s is not None and now >= self._all_heard_s:
            self._dirty |= self._waits_for_word
            self._waits_for_word.clear()

    def wanted(self, node: NodeName) -> Size | None:
        """What the node's ballast shall ask for; None where it shall have none."""
        state = self._state.fleet.nodes.get(node)
        if state is None or state.facts is None or not _is_managed(state):
            return None
        ratio = ratio_for(state.facts.labels, self._state.rules.ratios)
        if ratio is None:
            return None
        idle = idle_cards(state, self._leaving(node))
        return ballast_size(ratio, idle_cards=idle, free=free_of(state))

    def _leaving(self, node: NodeName) -> set[str]:
        """Pods that kube-scheduler counts no more, though not all is proven to be gone."""
        return {record.uid for record in self._state.on_node(node) if record.stage is Stage.ENDING}

    def _next(self, node: NodeName, now: float) -> BallastEffect | None:
        pod, wanted = self.pods.get(node), self.wanted(node)
        if pod is None or pod.ballast is None:
            return self._first(node, wanted) if wanted else None
        if pod.deleting:
            return None
        if wanted is None and self._may_be_heard(node, now):
            self._waits_for_word.add(node)
            return None
        if wanted is None or pod.ended:
            return RemoveBallast(node, pod.uid, pod.ref)
        if pod.node is None:  # only a pod that runs can be resized
            fits = pod.ballast.asked.within(wanted)
            return None if fits else RemoveBallast(node, pod.uid, pod.ref)
        if pod.ballast.asked == wanted:
            return None
        return ResizeBallast(node, pod.uid, pod.ref, pod.version, wanted)

    def _first(self, node: NodeName, wanted: Size) -> MakeBallast | None:
        facts = self._state.fleet.nodes[node].facts
        if facts is None or facts.unschedulable or not facts.ready or wanted.within(LEAST):
            return None
        return MakeBallast(node, facts.uid, wanted)

    def _may_be_heard(self, node: NodeName, now: float) -> bool:
        state = self._state.fleet.nodes.get(node)
        unheard = state is not None and state.facts is not None and state.inventory is None
        return unheard and (self._all_heard_s is None or now < self._all_heard_s)


def _is_managed(node: NodeState) -> bool:
    """Whether its cards are ours to give. A silent agent changes nothing: pods still run there."""
    inventory = node.inventory
    return inventory is not None and not (inventory.problems or node.dra or node.foreign)
