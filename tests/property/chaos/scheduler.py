"""A scheduler's process: the engine, and around it what the shell does, one hop of the network at a time.

Whatever goes to the API server or the bus is a generator that yields a request and is sent the answer, or
`LOST` where there came none; a request that was sent may be acted on after its sender is dead.
"""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from sublet_scheduler.core import effects as ef
from sublet_scheduler.core import events as ev
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.state import Rules

from sublet.model.card import Heartbeat
from sublet.model.claim import PodAsk
from sublet.model.ids import DecisionId, NodeName, PodUid
from sublet.model.placement import LedgerMeta, NodeLedger
from tests import builders
from tests.property.chaos.cluster import Cluster, written


class Lost:
    """No answer came; nobody knows whether the request was acted on."""


LOST: Final = Lost()
Request = Callable[[], Any]
Work = Generator[Request, Any, None]


class Died(Exception):
    """The process has ended itself: another writes the ledger."""


@dataclass
class Call:
    """One piece of work on its way; `answer` is there when the request was acted on."""

    work: Work
    request: Request
    acted: bool = False
    answer: Any = None


@dataclass
class Scheduler:
    name: str
    cluster: Cluster
    chance: Random
    paused: bool = False
    linked: bool = True
    """The bus can be reached."""
    calls: dict[str, Call] = field(default_factory=dict)
    answers: dict[DecisionId, ef.Answer] = field(default_factory=dict)
    log: list[tuple[float, ev.Event, list[ef.Effect]]] = field(default_factory=list)
    _inbox: deque[ev.Event] = field(default_factory=deque)
    _outcomes: deque[ev.Event] = field(default_factory=deque)
    _lanes: dict[str, deque[ef.Effect]] = field(default_factory=dict)
    _newest: dict[NodeName, ef.WriteLedger] = field(default_factory=dict)
    _told: dict[PodUid, PodFacts] = field(default_factory=dict)
    _heard: dict[NodeName, int] = field(default_factory=dict)
    _judged: dict[object, int] = field(default_factory=dict)
    _looks: dict[NodeName, int] = field(default_factory=dict)
    _meta: LedgerMeta | None = None
    _bucket: int = 0
    _at: int | None = None

    def __post_init__(self) -> None:
        self.engine = Engine(Rules(reservation_s=5.0))
        self._bucket = self.cluster.bucket
        for facts in self.cluster.objects.values():
            self._inbox.append(ev.NodeSeen(facts))
        for name, node in self.cluster.nodes.items():
            self._inbox.append(ev.InventorySeen(builders.inventory(name, *node.cards)))
        self._inbox += [ev.NodesListed(), ev.QuotasListed()]
        self.beat()
        self._begin("ledger", self._take_over())

    # -- what comes in

    @property
    def idle(self) -> bool:
        due = self.engine.due(self.cluster.now)
        return not (self._inbox or self._outcomes or self.calls) and (due is None or due > self.cluster.now)

    def beat(self) -> None:
        for name in self.cluster.nodes:
            seq = int(self.cluster.now * 1000)
            beat = Heartbeat(node=name, boot_id="boot-1", epoch="epoch-1", seq=seq, at_ms=0)
            self._inbox.append(ev.HeartbeatSeen(beat))

    def ask(self, id_: DecisionId, ask: PodAsk) -> None:
        self._inbox.append(ev.ReviewAsked(id_, ask))

    def hear_pods(self) -> bool:
        """The next event of the watch; the first one is the list."""
        if self._at is None:
            self.relist()
            return True
        if self._at >= len(self.cluster.news):
            return False
        event = self.cluster.news[self._at]
        self._at += 1
        if isinstance(event, ev.PodSeen):
            self._told[event.pod.uid] = event.pod
            self._inbox.append(event)
        elif self._told.pop(event.uid, None):
            self._inbox.append(event)
        return True

    def relist(self) -> None:
        """The watch broke: of what went meanwhile only the absence is told."""
        for uid, pod in self.cluster.pods.items():
            if self._told.get(uid) != pod:
                self._told[uid] = pod
                self._inbox.append(ev.PodSeen(pod))
        for uid in [uid for uid in self._told if uid not in self.cluster.pods]:
            del self._told[uid]
            self._inbox.append(ev.PodGone(uid))
        if self._at is None:
            self._inbox.append(ev.PodsListed())
        self._at = len(self.cluster.news)

    def hear_ledger(self) -> bool:
        """One entry as it stands now; what was written in between is not told.

        Raises:
            Died: another scheduler has taken the ledger over.
        """
        if not self.linked:
            return False
        meta = self.cluster.meta
        if meta and self._meta and meta.epoch == self._meta.epoch:
            self._refuse_younger(meta.term)
        if self._bucket != self.cluster.bucket:
            self._bucket = self.cluster.bucket
            self._heard.clear()
            self._begin("ledger", self._take_over())
            return True
        new = [one for one in self.cluster.ledger.values() if self._heard.get(one.node, 0) < one.revision]
        if not new:
            return False
        entry = self.chance.choice(new)
        self._heard[entry.node] = entry.revision
        self._inbox.append(ev.LedgerSeen(entry))
        return True

    def hear_nodes(self) -> bool:
        """What agents and healthd say."""
        heard = False
        for name, node in self.cluster.nodes.items():
            if node.occupancy and self._looks.get(name) != node.looks:
                self._looks[name] = node.looks
                self._inbox.append(ev.OccupancySeen(node.occupancy))
                heard = True
        for key, verdict in self.cluster.verdicts.items():
            if self._judged.get(key) != verdict.seq:
                self._judged[key] = verdict.seq
                self._inbox.append(ev.VerdictSeen(verdict))
                heard = True
        return heard

    def lose_the_bus(self) -> None:
        self.linked = False
        self._inbox.append(ev.LedgerLost())

    def reach_the_bus(self) -> None:
        self.linked = True
        self._begin("ledger", self._take_over())

    # -- the driver

    def turn(self) -> bool:
        """Handle one event; False where there is none.

        Raises:
            Died: another scheduler has taken the ledger over.
        """
        event = self._next()
        if event is None:
            return False
        effects = self.engine.handle(event, now=self.cluster.now)
        self.log.append((self.cluster.now, event, effects))
        for effect in effects:
            self._put(effect)
        meta = self._meta
        if meta and not meta.complete and self._rebuilt_under(meta.term) and "meta" not in self.calls:
            self._begin("meta", self._declare_complete(meta))
        return True

    def _next(self) -> ev.Event | None:
        if self._outcomes:
            return self._outcomes.popleft()
        due = self.engine.due(self.cluster.now)
        if due is not None and due <= self.cluster.now:
            return ev.Tick()
        return self._inbox.popleft() if self._inbox else None

    def _put(self, effect: ef.Effect) -> None:
        match effect:
            case ef.StepDown(term):
                raise Died(f"term {term}")
            case ef.Answer():
                self.answers[effect.decision] = effect
            case ef.WriteLedger(entry):
                self._newest[entry.node] = effect
                self._queue(f"entry {entry.node}", effect)
            case ef.ReleasePod() | ef.MarkWaiting():
                self._queue(f"pod {effect.uid}", effect)
            case ef.FindPod():
                self._queue(f"pod {effect.uid}", effect)
            case ef.WriteTotals():
                self.cluster.write_totals(effect)
                self._outcomes.append(ev.TotalsWritten(effect.node, done=True))
                self._inbox.append(ev.NodeSeen(self.cluster.objects[effect.node]))
            case _:
                pass

    def _queue(self, key: str, effect: ef.Effect) -> None:
        self._lanes.setdefault(key, deque()).append(effect)
        if key not in self.calls:
            self._next_of(key)

    def _next_of(self, key: str) -> None:
        while self._lanes.get(key) and key not in self.calls:
            effect = self._lanes[key].popleft()
            if isinstance(effect, ef.WriteLedger):
                self._begin(key, self._write(effect))
            elif isinstance(effect, ef.ReleasePod | ef.MarkWaiting):
                self._begin(key, self._patch(effect))
            elif isinstance(effect, ef.FindPod):
                self._begin(key, self._find(effect.uid))

    # -- the network

    def _begin(self, key: str, work: Work) -> None:
        self.calls.pop(key, None)
        try:
            self.calls[key] = Call(work, next(work))
        except StopIteration:
            return

    def act(self, key: str) -> None:
        """The request of one call arrives and is acted on."""
        call = self.calls[key]
        if not call.acted:
            call.acted, call.answer = True, call.request()

    def answer(self, key: str, *, lost: bool = False) -> None:
        """The answer arrives, or none does."""
        call = self.calls[key]
        try:
            call.request = call.work.send(LOST if lost else call.answer)
            call.acted = False
        except StopIteration:
            if self.calls.get(key) is call:
                del self.calls[key]
            self._next_of(key)

    def can_talk(self, key: str) -> bool:
        return self.linked or key.startswith("pod ")

    # -- the shell's ways with the bus

    @property
    def term(self) -> int:
        return self._meta.term if self._meta else 0

    def _refuse_younger(self, term: int) -> None:
        if self._meta and term > self.term:
            raise Died(f"term {term}")

    def _take_over(self) -> Work:
        self._inbox.append(ev.LedgerLost())
        cluster, above = self.cluster, 0
        while True:
            read = yield lambda: (cluster.meta, cluster.meta_revision)
            if read is LOST:
                continue
            found, revision = read
            meta = self._own_term(found, above)
            if meta != found:
                stored = yield partial(cluster.store_meta, meta, revision)
                if stored is LOST or not stored:
                    continue
            entries = yield lambda: list(cluster.ledger.values())
            if entries is LOST:
                continue
            above = max((one.term for one in entries), default=0)
            if above > meta.term:
                continue
            self._inbox += map(ev.LedgerSeen, entries)
            self._meta = meta
            self._inbox.append(ev.LedgerListed(term=meta.term, complete=meta.complete))
            return

    def _own_term(self, found: LedgerMeta | None, above: int) -> LedgerMeta:
        if found is None:
            epoch = f"epoch-{self.cluster.bucket}"
            return LedgerMeta(epoch=epoch, complete=False, term=max(self.term, above) + 1)
        if self._meta and found.epoch == self._meta.epoch:
            self._refuse_younger(found.term)
            if found.term == self.term > above:
                return found
        return replace(found, term=max(found.term, self.term, above) + 1)

    def _rebuilt_under(self, term: int) -> bool:
        return self.engine.rebuilt and self.engine.state.term == term

    def _declare_complete(self, meta: LedgerMeta) -> Work:
        cluster, done = self.cluster, replace(meta, complete=True)
        read = yield lambda: (cluster.meta, cluster.meta_revision)
        if read is LOST or read[0] not in (meta, done) or self._meta != meta:
            return
        if not self._rebuilt_under(meta.term):
            return
        stored = yield lambda: cluster.store_meta(done, read[1])
        if stored is not LOST and stored:
            self._meta = done

    def _is_awaited(self, effect: ef.WriteLedger) -> bool:
        return self._newest.get(effect.entry.node) is effect

    def _write(self, effect: ef.WriteLedger) -> Work:
        cluster, entry = self.cluster, effect.entry
        if not self._is_awaited(effect):
            return
        revision = yield lambda: cluster.store(entry)
        outcome: ev.Event | None
        if revision is LOST or revision is None:
            outcome = yield from self._look(effect)
        else:
            outcome = ev.LedgerWritten(entry.node, revision)
        if outcome is not None and self._is_awaited(effect):
            self._outcomes.append(outcome)

    def _look(self, effect: ef.WriteLedger) -> Generator[Request, Any, ev.Event | None]:
        cluster, node = self.cluster, effect.entry.node
        while self._is_awaited(effect):
            found = yield lambda: cluster.ledger.get(node, NodeLedger(node=node, term=0))
            if found is LOST:
                continue
            if replace(found, revision=effect.entry.revision) == effect.entry:
                return ev.LedgerWritten(node, found.revision)
            self._refuse_younger(found.term)
            return ev.LedgerWriteFailed(node, found)
        return None

    # -- the shell's ways with pods

    def _patch(self, effect: ef.ReleasePod | ef.MarkWaiting) -> Work:
        cluster, uid = self.cluster, effect.uid
        told = self._told.get(uid)
        if told is None or told.version != effect.version:
            pod = yield lambda: cluster.pods.get(uid)
            if pod is LOST:
                self._outcomes.append(ev.PatchUnclear(uid))
                return
            if pod is None or pod.version != effect.version:
                self._outcomes.append(_by_what_it_says(effect, pod))
                return
        after = yield lambda: cluster.patch(effect)
        if after is not LOST and after is not None:
            self._outcomes.append(ev.PodPatched(uid, done=True, pod=after))
            return
        pod = yield lambda: cluster.pods.get(uid)
        if pod is LOST:
            self._outcomes.append(ev.PatchUnclear(uid))
        else:
            self._outcomes.append(_by_what_it_says(effect, pod))

    def _find(self, uid: PodUid) -> Work:
        while (pod := (yield lambda: self.cluster.pods.get(uid))) is LOST:
            pass
        self._outcomes.append(ev.PodFound(uid, pod))


def _by_what_it_says(effect: ef.ReleasePod | ef.MarkWaiting, pod: PodFacts | None) -> ev.Event:
    if pod is None:
        return ev.PodPatched(effect.uid, done=False, pod=None)
    done = pod.decision == written(effect) and pod.gated is isinstance(effect, ef.MarkWaiting)
    return ev.PodPatched(effect.uid, done=done, pod=pod)
