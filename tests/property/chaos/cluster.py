"""What is true: the objects of the API server, the ledger's bucket, and what runs on the nodes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.facts import NodeFacts, PodFacts

from sublet.contract import keys
from sublet.contract.decision import Decision
from sublet.model.card import Card
from sublet.model.claim import PodAsk
from sublet.model.health import Verdict
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardGrant, GrantState, LedgerMeta, NodeLedger, Occupancy, Placement
from tests.builders import SLOTS
from tests.unit.scheduler.world import with_totals


@dataclass
class Node:
    """A node with its kubelet and its agent; `entry` and `complete` are what the agent knows of the ledger,
    `bound` the pods that the kubelet knows of, also some whose object is gone."""

    cards: tuple[Card, ...]
    entry: NodeLedger | None = None
    complete: bool = False
    bound: set[PodUid] = field(default_factory=set)
    cgroups: set[PodUid] = field(default_factory=set)
    running: dict[PodUid, frozenset[tuple[str, CardGrant]]] = field(default_factory=dict)
    occupancy: Occupancy | None = None
    looks: int = 0


@dataclass
class Cluster:
    now: float = 1000.0
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    objects: dict[NodeName, NodeFacts] = field(default_factory=dict)
    pods: dict[PodUid, PodFacts] = field(default_factory=dict)
    news: list[ev.PodSeen | ev.PodGone] = field(default_factory=list)
    """Every change of a pod, in the order of the API server's watch."""
    verdicts: dict[tuple[NodeName, CardId], Verdict] = field(default_factory=dict)
    ledger: dict[NodeName, NodeLedger] = field(default_factory=dict)
    meta: LedgerMeta | None = None
    meta_revision: int = 0
    bucket: int = 0
    """Counts how often the bucket was made anew."""
    happened: list[str] = field(default_factory=list)
    """The history in words, for whoever has to understand a failure."""
    _revision: int = 0
    _version: int = 0

    # -- the API server

    def add_node(self, name: str, cards: tuple[Card, ...]) -> None:
        self.nodes[NodeName(name)] = Node(cards)
        self.objects[NodeName(name)] = NodeFacts(
            name=NodeName(name), cpu_milli=64_000, memory_mib=262_144, allocatable={keys.SLOT: SLOTS}
        )

    def create(self, ref: PodRef, ask: PodAsk, id_: DecisionId, placement: Placement | None) -> PodUid:
        self._version += 1
        uid = PodUid(f"{ref.name}/{self._version}")
        self._keep(
            PodFacts(
                uid=uid,
                ref=ref,
                version=str(self._version),
                ask=ask,
                gated=True,
                decision=Decision(id=id_, uid=None, placement=placement),
                decision_text="{}",
                proposed=True,
                created_s=self.now,
            )
        )
        return uid

    def change(self, uid: PodUid, **facts: object) -> PodFacts:
        self._version += 1
        pod = replace(self.pods[uid], version=str(self._version), **facts)  # type: ignore[arg-type]
        self._keep(pod)
        return pod

    def remove(self, uid: PodUid, **facts: object) -> None:
        """The object goes; its last state is told by the watch."""
        last = replace(self.pods.pop(uid), **facts)  # type: ignore[arg-type]
        self.news.append(ev.PodGone(uid, last))

    def patch(self, effect: ef.ReleasePod | ef.MarkWaiting) -> PodFacts | None:
        """The patched pod; None where the guards of the patch do not hold."""
        pod = self.pods.get(effect.uid)
        if pod is None or pod.version != effect.version:
            return None
        if isinstance(effect, ef.MarkWaiting):
            return self.change(effect.uid, decision=written(effect), signed=True, proposed=False)
        self.happened.append(f"released {effect.uid} to {effect.placement.node}")
        return self.change(effect.uid, decision=written(effect), signed=True, proposed=False, gated=False)

    def write_totals(self, effect: ef.WriteTotals) -> None:
        self.objects[effect.node] = with_totals(self.objects[effect.node], effect)

    def _keep(self, pod: PodFacts) -> None:
        self.pods[pod.uid] = pod
        self.news.append(ev.PodSeen(pod))

    # -- the bucket

    def store(self, entry: NodeLedger) -> int | None:
        """The new revision; None where somebody else was faster."""
        current = self.ledger.get(entry.node)
        if (current.revision if current else 0) != entry.revision:
            return None
        self._revision += 1
        self.ledger[entry.node] = replace(entry, revision=self._revision)
        grants = sorted(f"{one.uid}:{one.grant.card}:{one.state}" for one in entry.grants)
        self.happened.append(f"stored {entry.node} term {entry.term} {grants} closed {list(entry.closed)}")
        return self._revision

    def store_meta(self, meta: LedgerMeta, revision: int) -> bool:
        if revision != self.meta_revision:
            return False
        self._revision += 1
        self.meta, self.meta_revision = meta, self._revision
        self.happened.append(f"meta term {meta.term} complete {meta.complete}")
        return True

    def lose_the_ledger(self) -> None:
        self.ledger.clear()
        self.meta, self.meta_revision = None, 0
        self.bucket += 1
        self.happened.append("the ledger is lost")

    # -- nodes

    def bind(self, uid: PodUid) -> None:
        node = self.placement(uid).node
        self.change(uid, node=node)
        self.nodes[node].bound.add(uid)

    def placement(self, uid: PodUid) -> Placement:
        decision = self.pods[uid].decision
        assert decision is not None
        assert decision.placement is not None
        return decision.placement

    def start(self, node: Node, uid: PodUid) -> None:
        """The kubelet asks the agent whether the container may start; the agent's word is the ledger's."""
        node.cgroups.add(uid)
        entry = node.entry
        if uid in node.running or not node.complete or entry is None:
            return
        grants = [one for one in entry.grants if one.uid == uid]
        ending = any(one.state is GrantState.ENDING for one in grants)
        if not grants or ending or {one.grant.card for one in grants} & set(entry.closed):
            return
        node.running[uid] = frozenset((one.container, one.grant) for one in grants)
        self.happened.append(f"started {uid} on {entry.node}")
        if uid in self.pods:
            self.change(uid, phase="Running")

    def stop(self, node: Node, uid: PodUid) -> None:
        """Nothing of the pod is left on the node."""
        node.running.pop(uid, None)
        node.cgroups.discard(uid)
        node.bound.discard(uid)

    def look(self, name: NodeName) -> None:
        """The agent looks around, after it has read what it knows of the ledger."""
        node = self.nodes[name]
        node.looks += 1
        node.occupancy = Occupancy(
            node=name,
            boot_id="boot-1",
            epoch="epoch-1",
            seq=node.looks,
            at_ms=0,
            ledger_revision=node.entry.revision if node.entry else 0,
            checkpoint_read=True,
            pod_resources_read=True,
            cgroups_read=True,
            processes_read=True,
            pods_with_cgroups=frozenset(node.cgroups),
        )

    # -- what must hold at every moment

    def check(self) -> None:
        for entry in self.ledger.values():
            self._check_room(entry.node, [one.grant for one in entry.grants if not one.heir])
        for name, node in self.nodes.items():
            self._check_room(name, [grant for grants in node.running.values() for _, grant in grants])
        if self.meta is None or not self.meta.complete:
            return
        for uid, pod in self.pods.items():
            if not (pod.gated or pod.ended or pod.never_runs):
                placement = self.placement(uid)
                wanted = {(name, one) for name, some in placement.containers.items() for one in some}
                self._check_granted(uid, placement.node, wanted, "is released")
        for name, node in self.nodes.items():
            for uid, grants in node.running.items():
                self._check_granted(uid, name, grants, "runs")

    def _check_granted(
        self, uid: PodUid, node: NodeName, wanted: Iterable[tuple[str, CardGrant]], what: str
    ) -> None:
        entry = self.ledger.get(node)
        shown = {(one.container, one.grant) for one in entry.grants if one.uid == uid} if entry else set()
        assert set(wanted) <= shown, f"{uid} {what} on {node}, and the ledger does not say so"

    def _check_room(self, node: NodeName, grants: list[CardGrant]) -> None:
        for card in self.nodes[node].cards:
            mine = [one for one in grants if one.card == card.id]
            assert sum(one.memory_mib or 0 for one in mine) <= (card.memory_mib or 0), f"{card.id} overbooked"
            assert sum(one.core_percent for one in mine) <= 100, f"{card.id} overbooked"
            assert len(mine) <= 1 or not any(one.exclusive for one in mine), f"{card.id} is not exclusive"


def written(effect: ef.ReleasePod | ef.MarkWaiting) -> Decision:
    """The decision that a patch writes into its pod."""
    if isinstance(effect, ef.MarkWaiting):
        return Decision(id=effect.decision, uid=effect.uid, placement=None, after=effect.version)
    return Decision(id=effect.decision, uid=effect.uid, placement=effect.placement)
