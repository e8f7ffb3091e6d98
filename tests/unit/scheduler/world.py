"""A scheduler with a ledger and an API server that do exactly what the engine's effects ask for.

Tests drive it in the words of the domain; the plumbing between effects and events is here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.facts import NodeFacts, PodFacts
from sublet_scheduler.core.flight.recorder import Recorder
from sublet_scheduler.core.limits import Quota
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import Rules
from sublet_scheduler.core.totals import WRITTEN

from sublet.contract import keys
from sublet.contract.decision import Decision
from sublet.model.card import Card, Heartbeat
from sublet.model.health import Verdict
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardUse, NodeLedger, NoRoom, Occupancy, Placement
from sublet.model.reasons import Refusal
from tests import builders
from tests.builders import SLOTS


@dataclass
class World:
    rules: Rules = field(default_factory=Rules)
    now: float = 1000.0
    ledger: dict[NodeName, NodeLedger] = field(default_factory=dict)
    pods: dict[PodUid, PodFacts] = field(default_factory=dict)
    nodes: dict[NodeName, NodeFacts] = field(default_factory=dict)
    inventories: dict[NodeName, tuple[Card, ...]] = field(default_factory=dict)
    quotas: dict[tuple[str, str], Quota] = field(default_factory=dict)
    released: dict[PodUid, Placement] = field(default_factory=dict)
    log: list[ef.Effect] = field(default_factory=list)
    hold_writes: bool = False
    hold_patches: bool = False
    held: list[ef.Effect] = field(default_factory=list)
    heard: list[tuple[float, ev.Event, list[ef.Effect]]] = field(default_factory=list)
    """Every event of the present engine with its time and effects, as a flight recorder has them."""
    term: int = 1
    lost: bool = False
    rebuilding: bool = False
    """The ledger's data was lost: grants of released pods return, also on cards that closed since."""
    protected: set[PodUid] = field(default_factory=set)
    """Pods whose disruption budget lets none of them go."""
    proven_gone: set[PodUid] = field(default_factory=set)
    physical: dict[PodUid, Placement] = field(default_factory=dict)
    """Pods whose containers really exist on their node, whatever the API server says of them."""
    stretch: int = 10_000
    """After so many events the flight recorder takes a picture of the engine and begins anew."""
    _revision: int = 0
    _version: int = 0
    _ids: int = 0

    def __post_init__(self) -> None:
        self.allowed = self.rules.overcommit
        self.start()

    # -- starting

    def start(self) -> None:
        """A (new) scheduler process over the same cluster and ledger."""
        self.engine = Engine(self.rules)
        self.recorder = Recorder(self.engine, release="test", events=self.stretch)
        self.heard.clear()
        self.held.clear()
        for node in self.nodes.values():
            self.send(ev.NodeSeen(node))
        self.send(ev.NodesListed())
        for (namespace, _), quota in self.quotas.items():
            self.send(ev.QuotaSeen(namespace, quota))
        self.send(ev.QuotasListed())
        for name, held in self.inventories.items():
            self._agent_speaks(name, held)
        for pod in list(self.pods.values()):
            self.send(ev.PodSeen(pod))
        self.send(ev.PodsListed())
        for entry in list(self.ledger.values()):
            self.send(ev.LedgerSeen(entry))
        self.send(ev.LedgerListed(self.term, complete=bool(self.ledger)))
        self.settle()

    def restart(self) -> None:
        self.term += 1
        self.start()

    def node(
        self,
        name: str,
        *held: Card,
        cpu_milli: int = 64_000,
        labels: dict[str, str] | None = None,
        **facts: Any,
    ) -> None:
        node = NodeName(name)
        self.nodes[node] = NodeFacts(
            name=node,
            labels=labels or {},
            cpu_milli=cpu_milli,
            memory_mib=facts.pop("memory_mib", 262_144),
            allocatable=facts.pop("allocatable", {keys.SLOT: SLOTS}),
            **facts,
        )
        self.inventories[node] = held
        self.send(ev.NodeSeen(self.nodes[node]))
        self._agent_speaks(node, held)
        self.settle()

    def quota(self, name: str, *, namespace: str = "default", **most: int) -> None:
        self.quotas[namespace, name] = Quota(name=name, **most)
        self.send(ev.QuotaSeen(namespace, self.quotas[namespace, name]))
        self.settle()

    def _agent_speaks(self, node: NodeName, held: tuple[Card, ...]) -> None:
        self.send(ev.InventorySeen(builders.inventory(node, *held)))
        self.beat(node)

    def beat(self, node: str) -> None:
        beat = Heartbeat(
            node=NodeName(node), boot_id="boot-1", epoch="epoch-1", seq=int(self.now * 1000), at_ms=0
        )
        self.send(ev.HeartbeatSeen(beat))

    def lose_ledger(self, *, data: bool = False) -> None:
        """The bus goes away; with `data` the bucket is made anew later."""
        self.lost = True
        self.send(ev.LedgerLost())
        if data:
            self.ledger.clear()
            self.rebuilding = True

    def ledger_back(self) -> None:
        for entry in list(self.ledger.values()):
            self.send(ev.LedgerSeen(entry))
        if not self.ledger:
            self.term += 1
        self.send(ev.LedgerListed(self.term, complete=bool(self.ledger)))
        self.settle()
        self.lost = self.rebuilding = False
        self._check()

    # -- users

    def ask(
        self, manifest: dict[str, Any] | None = None, **review: Any
    ) -> tuple[DecisionId, Placement | NoRoom | Refusal]:
        """Send an admission review; returns the decision id of the pod and the outcome."""
        self._ids += 1
        id_ = DecisionId(f"d{self._ids}")
        asked = builders.ask(manifest)
        self.send(ev.ReviewAsked(id_, asked, **review))
        answer = next(e for e in reversed(self.log) if isinstance(e, ef.Answer) and e.decision == id_)
        self.settle()
        return answer.id, answer.outcome

    def create(
        self, manifest: dict[str, Any] | None = None, *, uid: str = "", node: str | None = None, **facts: Any
    ) -> PodUid:
        """Create a pod all the way: admission, then the watch shows it."""
        manifest = manifest or builders.pod()
        id_, outcome = self.ask(manifest)
        assert not isinstance(outcome, Refusal), outcome
        placed = outcome if isinstance(outcome, Placement) else None
        return self.appears(manifest, id_, placed, uid=uid, node=node, **facts)

    def appears(
        self,
        manifest: dict[str, Any],
        id_: DecisionId,
        placement: Placement | None,
        *,
        uid: str = "",
        node: str | None = None,
        **facts: Any,
    ) -> PodUid:
        asked = builders.ask(manifest)
        self._version += 1
        new = PodUid(uid or f"uid-{manifest['metadata']['name']}-{self._version}")
        self.pods[new] = PodFacts(
            uid=new,
            ref=PodRef(manifest["metadata"]["namespace"], manifest["metadata"]["name"]),
            version=str(self._version),
            ask=replace(asked, node_name=NodeName(node)) if node else asked,
            node=NodeName(node) if node else None,
            gated=facts.pop("gated", node is None),
            decision=Decision(id=id_, uid=None, placement=placement),
            decision_text="{}",
            proposed=facts.pop("proposed", True),
            created_s=facts.pop("created_s", self.now),
            **facts,
        )
        self.send(ev.PodSeen(self.pods[new]))
        self.settle()
        return new

    def change(self, uid: PodUid, **facts: Any) -> None:
        """The pod's object changes and the watch shows it."""
        if facts.get("settled"):
            self.physical.pop(uid, None)
        self._version += 1
        self.pods[uid] = replace(self.pods[uid], version=str(self._version), **facts)
        self.send(ev.PodSeen(self.pods[uid]))
        self.settle()

    def bind(self, uid: PodUid) -> None:
        self.physical[uid] = self.released[uid]
        self.change(uid, node=self.released[uid].node, phase="Running")

    def delete(self, uid: PodUid, *, seen: bool = True) -> None:
        """The object goes; `seen` False: only its absence is noticed."""
        last = self.pods.pop(uid)
        self.send(ev.PodGone(uid, last if seen else None))
        self.settle()

    def terminated(self) -> None:
        """The containers of all pods that are being deleted end."""
        for uid in [uid for uid, one in self.pods.items() if one.deleting]:
            self.change(uid, phase="Failed", settled=True)
            self.delete(uid)

    def judge(self, verdict: Verdict) -> None:
        self.send(ev.VerdictSeen(verdict))
        self.settle()

    def occupancy(
        self,
        node: str,
        *,
        alive: Iterable[PodUid] = (),
        revision: int | None = None,
        prepared: Iterable[Any] = (),
        uses: Iterable[CardUse] = (),
        **facts: Any,
    ) -> None:
        """The node's agent looks around, after having read the ledger."""
        name = NodeName(node)
        entry = self.ledger.get(name)
        seen = Occupancy(
            node=name,
            boot_id=facts.pop("boot_id", "boot-1"),
            epoch="epoch-1",
            seq=1,
            at_ms=0,
            ledger_revision=(entry.revision if entry else 0) if revision is None else revision,
            checkpoint_read=True,
            pod_resources_read=True,
            cgroups_read=facts.pop("cgroups_read", True),
            processes_read=True,
            prepared=tuple(prepared),
            cards=tuple(uses),
            pods_with_cgroups=frozenset(alive),
        )
        if seen.cgroups_read:
            on_node = [uid for uid, placement in self.physical.items() if placement.node == name]
            for uid in set(on_node) - seen.pods_with_cgroups:
                del self.physical[uid]
            self.proven_gone |= self.released.keys() - seen.pods_with_cgroups
        self.send(ev.OccupancySeen(seen))
        self.settle()

    # -- time and effects

    def wait(self, seconds: float) -> None:
        """Let time pass; agents keep beating, ticks come when the engine wants them."""
        until = self.now + seconds
        while self.now < until:
            due = self.engine.due(self.now)
            self.now = min(until, max(self.now + 0.05, due if due is not None else until), self.now + 5)
            for node in self.inventories:
                self.beat(node)
            self.send(ev.Tick())
            self.settle()

    def send(self, event: ev.Event) -> None:
        effects = self.engine.handle(event, now=self.now)
        self.heard.append((self.now, event, effects))
        self.recorder.note(self.now, event, effects)
        self.recorder.rest()
        for effect in effects:
            if isinstance(effect, ef.ReleasePod) and effect.uid in self.pods:
                self._check_gang(self.pods[effect.uid])
        self.log += effects
        self.held += effects

    def settle(self) -> None:
        """Perform what the engine asked for until it asks for nothing more."""
        for _ in range(1000):
            due = self.engine.due(self.now)
            if not self.held and (due is None or due > self.now + 0.5):
                break
            waiting, self.held = self.held, []
            for effect in waiting:
                self._perform(effect)
            self._check()
            if due is not None and due <= self.now + 0.5:
                self.now = max(self.now, due)
                self.send(ev.Tick())
            if self.held == waiting and waiting:
                break
        self._check()

    def _perform(self, effect: ef.Effect) -> None:
        match effect:
            case ef.WriteLedger() if self.hold_writes:
                self.held.append(effect)
            case ef.WriteLedger(entry):
                self.store(entry)
            case ef.ReleasePod() | ef.MarkWaiting() if self.hold_patches:
                self.held.append(effect)
            case ef.ReleasePod() | ef.MarkWaiting():
                self.patch(effect)
            case ef.FindPod() if self.hold_patches:
                self.held.append(effect)
            case ef.FindPod(uid):
                self.send(ev.PodFound(uid, self.pods.get(uid)))
            case ef.EvictPods(uid, _, victims):
                staying = tuple(victim for victim, _ in victims if victim in self.protected)
                if staying:
                    self.send(ev.EvictionsRefused(uid, staying))
                for victim, _ in () if staying else victims:
                    if self.pods[victim].node is None:
                        self.send(ev.PodGone(victim, self.pods.pop(victim)))
                        continue
                    self.pods[victim] = replace(
                        self.pods[victim], deleting=True, version=f"deleting-{victim}"
                    )
                    self.send(ev.PodSeen(self.pods[victim]))
            case ef.WriteTotals(node):
                self.nodes[node] = with_totals(self.nodes[node], effect)
                self.send(ev.TotalsWritten(node, done=True))
                self.send(ev.NodeSeen(self.nodes[node]))
            case _:
                pass

    def store(self, entry: NodeLedger) -> None:
        """The bus's compare-and-set."""
        current = self.ledger.get(entry.node)
        if (current.revision if current else 0) != entry.revision:
            self.send(ev.LedgerWriteFailed(entry.node, current))
            return
        known = {(g.uid, g.grant.card) for g in current.grants} if current else set()
        new = {(g.uid, g.grant.card) for g in entry.grants} - known
        closed_before = set(current.closed if current else ()) & set(entry.closed)
        assert self.rebuilding or not {card for _, card in new} & closed_before, f"granted when closed: {new}"
        self._revision += 1
        self.ledger[entry.node] = replace(entry, revision=self._revision)
        self.send(ev.LedgerWritten(entry.node, self._revision))

    def patch(self, effect: ef.ReleasePod | ef.MarkWaiting) -> None:
        """The API server's guarded patch."""
        pod = self.pods.get(effect.uid)
        if pod is None:
            self.send(ev.PodPatched(effect.uid, done=False, pod=None))
            return
        if pod.version != effect.version:
            self.send(ev.PodPatched(effect.uid, done=False, pod=pod))
            return
        self._version += 1
        placement = effect.placement if isinstance(effect, ef.ReleasePod) else None
        after = "" if placement else effect.version
        decision = Decision(id=effect.decision, uid=effect.uid, placement=placement, after=after)
        changed = replace(pod, version=str(self._version), decision=decision, signed=True, proposed=False)
        if isinstance(effect, ef.ReleasePod):
            changed = replace(changed, gated=False)
            self.released[effect.uid] = effect.placement
        self.pods[effect.uid] = changed
        self.send(ev.PodPatched(effect.uid, done=True, pod=changed))

    # -- looking

    def stage(self, uid: PodUid) -> Stage | None:
        record = self.engine.state.records.get(uid)
        return record.stage if record else None

    def granted(self, uid: PodUid) -> list[str]:
        """The cards which the ledger grants to a pod."""
        return sorted(g.grant.card for e in self.ledger.values() for g in e.grants if g.uid == uid)

    def entry(self, node: str) -> NodeLedger:
        return self.ledger[NodeName(node)]

    def closed(self, node: str) -> list[str]:
        return [str(card) for card in self.entry(node).closed]

    def shown(self, node: str) -> NodeFacts:
        return self.nodes[NodeName(node)]

    def reports(self) -> list[str]:
        return [effect.code for effect in self.log if isinstance(effect, ef.Report)]

    def effects(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.log if isinstance(effect, kind)]

    def _check(self) -> None:
        """What must hold at every moment, whatever happened."""
        for uid, placement in () if self.lost else self.released.items():
            pod = self.pods.get(uid)
            over = pod is None or (pod.ended and (pod.settled or uid in self.proven_gone))
            if over or pod is None or pod.gated or pod.never_runs:
                continue
            entry = self.ledger[placement.node]
            shown = {(g.container, g.grant) for g in entry.grants if g.uid == uid}
            wanted = {(name, grant) for name, grants in placement.containers.items() for grant in grants}
            assert wanted <= shown, f"{uid} is released, but the ledger does not say so"
        users = {uid: p for uid, p in self.released.items() if self._may_run(uid)}
        self._check_users(users | self.physical)
        for entry in self.ledger.values():
            _check_entry(entry, self._known(entry.node))

    def _known(self, name: NodeName) -> dict[CardId, Card]:
        """The node's cards with what the first rules of this world allowed to promise of them."""
        labels = self.nodes[name].labels if name in self.nodes else {}
        return _units(self.allowed.on(one, labels) for one in self.inventories.get(name, ()))

    def _may_run(self, uid: PodUid) -> bool:
        return uid in self.pods and not (self.pods[uid].ended or self.pods[uid].never_runs)

    def _check_gang(self, pod: PodFacts) -> None:
        """No pod of a gang is released before the ledger shows cards for all of it."""
        gang = pod.ask.gang if pod.ask else None
        if gang is None or gang.derived:
            return
        granted = {grant.uid for entry in self.ledger.values() for grant in entry.grants}
        have = [
            uid
            for uid, one in self.pods.items()
            if one.ask and one.ask.gang == gang and (uid in granted or one.phase == "Succeeded")
        ]
        assert len(have) >= gang.size, f"{pod.ref} is released, of its gang only {have} have cards"

    def _check_users(self, users: dict[PodUid, Placement]) -> None:
        """Pods that may run or still do never share a card beyond what it has."""
        known = [one for name in self.inventories for one in self._known(name).items()]
        for uuid, one in known:
            grants = [
                g for p in users.values() for some in p.containers.values() for g in some if g.card == uuid
            ]
            assert sum(g.memory_mib or 0 for g in grants) <= one.most_mib, f"{uuid}: {users}"
            assert len(grants) <= 1 or not any(g.exclusive for g in grants), f"{uuid}: {users}"


def _units(held: Iterable[Card]) -> dict[CardId, Card]:
    """Every card, and every partition as one."""
    return {each.id: each for one in held for each in (one, *one.offered)}


def with_totals(facts: NodeFacts, effect: ef.WriteTotals) -> NodeFacts:
    """The node as it is when the effect was carried out."""
    shown = {k: v for k, v in facts.capacity.items() if k not in effect.remove} | dict(effect.totals)
    allocatable = {k: v for k, v in facts.allocatable.items() if k not in effect.remove}
    labels = {k: v for k, v in facts.labels.items() if k != keys.CARDS_LABEL}
    if effect.label is not None:
        labels[keys.CARDS_LABEL] = effect.label
    names = {WRITTEN: ",".join(sorted(effect.totals))} if effect.totals else {}
    names |= {keys.GPU_MEM_UNIT: effect.unit} if effect.unit else {}
    return replace(
        facts,
        capacity=shown,
        allocatable=allocatable | dict(effect.totals),
        labels=labels,
        annotations=names,
    )


def _check_entry(entry: NodeLedger, known: dict[CardId, Card]) -> None:
    used: dict[CardId, list[Any]] = {}
    for grant in entry.grants:
        if not grant.heir:
            used.setdefault(grant.grant.card, []).append(grant.grant)
    for uuid, grants in used.items():
        if uuid not in known:
            continue
        most = known[uuid]
        assert sum(g.memory_mib or 0 for g in grants) <= most.most_mib, f"{uuid} overbooked"
        assert sum(g.core_percent for g in grants) <= most.shareable_core_percent, f"{uuid} overbooked"
        assert len(grants) == 1 or not any(g.exclusive for g in grants), f"{uuid} is not exclusive"
