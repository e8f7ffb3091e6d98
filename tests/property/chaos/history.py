"""One random history: all that may go wrong does, then nothing does any more, and all must come right."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from sublet_scheduler.core.facts import PodFacts

from sublet.model.claim import PodAsk
from sublet.model.health import Verdict
from sublet.model.ids import DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import Placement
from sublet.model.reasons import Refusal
from tests.builders import ask, cards, container, pod, verdict
from tests.property.chaos.cluster import Cluster, Node
from tests.property.chaos.scheduler import Died, Request, Scheduler

SHAPES = (
    [container(gpu_memory=3 * 1024)],
    [container(gpu_memory=6 * 1024, gpu_core=40)],
    [container(gpu=1)],
    [container(gpu_core=50)],
    [container("a", gpu_memory=2048), container("b", gpu_memory=4096)],
)
NAMES = [f"pod-{number}" for number in range(7)]
ROUNDS = 80


@dataclass
class Review:
    """The API server waits for an answer of `asked`; then it creates the pod, or does not."""

    id: DecisionId
    ask: PodAsk
    asked: Scheduler


@dataclass
class History:
    seed: int
    schedulers_most: int
    may_lose_data: bool
    cluster: Cluster = field(default_factory=Cluster)
    schedulers: list[Scheduler] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    strays: list[Request] = field(default_factory=list)
    """Requests of processes that are dead, still on their way."""
    started: int = 0
    asked: int = 0
    judged: int = 0

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.trouble = self.chance.choice([0.05, 0.2, 0.5, 1.0])
        self.cluster.add_node("n1", cards("n1", 2))
        self.cluster.add_node("n2", cards("n2", 1))

    def run(self, steps: int) -> None:
        actions = self._actions()
        kinds, weights = [one for one, _ in actions], [weight for _, weight in actions]
        for _ in range(steps):
            self.chance.choices(kinds, weights)[0]()
            self.cluster.check()
        self._calm_down()
        for _ in range(ROUNDS):
            self._settle()
            if not self.cluster.pods and not any(one.grants for one in self.cluster.ledger.values()):
                break
            self._go_on()
        for _ in range(2):  # promises to pods that never came
            self._go_on()
            self._settle()
        self._nothing_is_left()

    # -- what goes wrong

    def _actions(self) -> list[tuple[Callable[[], None], float]]:
        wrong: list[tuple[Callable[[], None], float]] = [
            (self._kill, 0.4),
            (self._pause, 0.6),
            (self._resume, 2.0),
            (self._lose_the_bus, 0.4),
            (self._reach_the_bus, 2.0),
            (self._relist, 0.3),
            (self._lose_an_answer, 1.0),
            (self._stray, 1.0),
        ]
        if self.may_lose_data:
            wrong.append((self.cluster.lose_the_ledger, 0.1))
        return [
            *((action, weight * self.trouble) for action, weight in wrong),
            (self._start, 1.0),
            (self._work, 60.0),
            (self._ask, 3.0),
            (self._admit, 4.0),
            (self._edit, 0.5),
            (self._judge, 1.0),
            (self._time, 2.0),
            (self._bind, 2.0),
            (self._start_a_container, 4.0),
            (self._finish, 1.0),
            (self._delete, 0.8),
            (self._ask_to_go, 0.5),
            (self._clean, 2.0),
            (self._agent_hears, 4.0),
            (self._agent_looks, 2.0),
        ]

    def _alive(self) -> list[Scheduler]:
        return [one for one in self.schedulers if not one.paused]

    def _start(self) -> None:
        if len(self.schedulers) < self.schedulers_most:
            self.started += 1
            self.cluster.happened.append(f"scheduler {self.started} starts")
            self.schedulers.append(Scheduler(f"s{self.started}", self.cluster, self.chance))

    def _kill(self) -> None:
        if self.schedulers:
            self._die(self.chance.choice(self.schedulers))

    def _die(self, scheduler: Scheduler) -> None:
        self.cluster.happened.append(f"{scheduler.name} dies")
        self.schedulers.remove(scheduler)
        self.strays += [call.request for call in scheduler.calls.values() if not call.acted]

    def _stray(self) -> None:
        if self.strays:
            request = self.strays.pop(self.chance.randrange(len(self.strays)))
            if self.chance.random() < 0.7:
                request()

    def _pause(self) -> None:
        if self._alive():
            self.chance.choice(self._alive()).paused = True

    def _resume(self) -> None:
        for one in self.schedulers:
            one.paused = one.paused and self.chance.random() < 0.5

    def _lose_the_bus(self) -> None:
        linked = [one for one in self._alive() if one.linked]
        if linked:
            self.chance.choice(linked).lose_the_bus()

    def _reach_the_bus(self) -> None:
        for one in self._alive():
            if not one.linked:
                one.reach_the_bus()

    def _relist(self) -> None:
        if self._alive():
            self.chance.choice(self._alive()).relist()

    def _lose_an_answer(self) -> None:
        for one in self._alive():
            if one.calls:
                key = self.chance.choice(sorted(one.calls))
                self._guarded(one, lambda one=one, key=key: one.answer(key, lost=True))  # type: ignore[misc]

    def _edit(self) -> None:
        if self.cluster.pods:
            self.cluster.change(self.chance.choice(sorted(self.cluster.pods)))

    def _judge(self) -> None:
        name = self.chance.choice(sorted(self.cluster.nodes))
        card = self.chance.choice(self.cluster.nodes[name].cards)
        self.judged += 1
        self.cluster.verdicts[name, card.id] = verdict(
            name, card.id, bad=self.chance.random() < 0.5, seq=self.judged
        )

    # -- what goes on

    def _guarded(self, scheduler: Scheduler, step: Callable[[], object]) -> None:
        try:
            step()
        except Died:
            self._die(scheduler)

    def _work(self) -> None:
        """Some scheduler does one of the things that it has to do."""
        if not self._alive():
            return
        one = self.chance.choice(self._alive())
        steps: list[Callable[[], object]] = [
            one.turn,
            one.turn,
            one.turn,
            one.hear_pods,
            one.hear_ledger,
            one.hear_nodes,
        ]
        for key, call in one.calls.items():
            if not one.can_talk(key):
                steps.append(lambda key=key: one.answer(key, lost=True))  # type: ignore[misc]
            elif call.acted:
                steps.append(lambda key=key: one.answer(key))  # type: ignore[misc]
            else:
                steps.append(lambda key=key: one.act(key))  # type: ignore[misc]
        self._guarded(one, self.chance.choice(steps))

    def _ask(self) -> None:
        name = self.chance.choice(NAMES)
        used = {one.ref.name for one in self.cluster.pods.values()} | {
            one.ask.pod.name for one in self.reviews
        }
        if name in used or not self.schedulers:
            return
        self.asked += 1
        review = Review(
            DecisionId(f"d{self.asked}"),
            ask(pod(name, *self.chance.choice(SHAPES))),
            self.chance.choice(self.schedulers),
        )
        review.asked.ask(review.id, review.ask)
        self.reviews.append(review)

    def _admit(self) -> None:
        """The pod is created as the answer says, or before there is one, or never."""
        if not self.reviews:
            return
        review = self.reviews.pop(self.chance.randrange(len(self.reviews)))
        answer = review.asked.answers.get(review.id)
        outcome = answer.outcome if answer else None
        if self.chance.random() < 0.1 or isinstance(outcome, Refusal):
            return
        placed = outcome if isinstance(outcome, Placement) else None
        self.cluster.create(PodRef("default", review.ask.pod.name), review.ask, review.id, placed)

    def _time(self) -> None:
        self.cluster.now += self.chance.choice([0.1, 1.0, 4.0, 12.0])
        for one in self._alive():
            one.beat()

    def _bind(self) -> None:
        free = [uid for uid, one in self.cluster.pods.items() if _is_free(one)]
        if free:
            self.cluster.bind(self.chance.choice(free))

    def _start_a_container(self) -> None:
        node = self._node()
        if node.bound:
            self.cluster.start(node, self.chance.choice(sorted(node.bound)))

    def _finish(self) -> None:
        """The containers end; sometimes the node is lost and only the API server says so."""
        node = self._node()
        if node.running:
            uid = self.chance.choice(sorted(node.running))
            pod = self.cluster.pods.get(uid)
            if pod and not pod.ended and self.chance.random() < 0.3:
                self.cluster.change(uid, phase="Failed", settled=False)
                return
            self.cluster.stop(node, uid)
            if pod and not pod.ended:
                self.cluster.change(uid, phase="Succeeded", settled=True)

    def _delete(self) -> None:
        """By force where it is bound: nobody waits for its containers."""
        if self.cluster.pods:
            uid = self.chance.choice(sorted(self.cluster.pods))
            self.cluster.happened.append(f"deleted {uid}")
            self.cluster.remove(uid)

    def _ask_to_go(self) -> None:
        """It is being deleted; a finalizer or its containers keep the object."""
        if self.cluster.pods:
            uid = self.chance.choice(sorted(self.cluster.pods))
            self.cluster.happened.append(f"deleting {uid}")
            self.cluster.change(uid, deleting=True)

    def _clean(self) -> None:
        """The kubelet notices that an object is gone."""
        node = self._node()
        for uid in sorted(node.bound - self.cluster.pods.keys())[:1]:
            self.cluster.stop(node, uid)

    def _agent_hears(self) -> None:
        name = self.chance.choice(sorted(self.cluster.nodes))
        self._tell_agent(name)

    def _tell_agent(self, name: NodeName) -> None:
        node, meta = self.cluster.nodes[name], self.cluster.meta
        node.complete = bool(meta and meta.complete)
        entry = self.cluster.ledger.get(name)
        if entry and (node.entry is None or node.entry.revision < entry.revision):
            node.entry = entry

    def _agent_looks(self) -> None:
        self.cluster.look(self.chance.choice(sorted(self.cluster.nodes)))

    def _node(self) -> Node:
        return self.cluster.nodes[self.chance.choice(sorted(self.cluster.nodes))]

    # -- all comes right

    def _calm_down(self) -> None:
        self.cluster.happened.append("nothing goes wrong any more")
        while len(self.schedulers) > 1:
            self._die(self.chance.choice(self.schedulers))
        for request in self.strays:
            request()
        self.strays.clear()
        for one in self.schedulers:
            one.paused = False
            if not one.linked:
                one.reach_the_bus()
        for key, last in list(self.cluster.verdicts.items()):
            self.judged += 1
            self.cluster.verdicts[key] = _good(last, self.judged)
        self.reviews.clear()

    def _settle(self) -> None:
        """Let the scheduler do all that it has to do."""
        for _ in range(5_000):
            if not self.schedulers:
                self._start()
            [one] = self.schedulers
            self._guarded(one, lambda one=one: self._one_turn(one))  # type: ignore[misc]
            self.cluster.check()
            if one in self.schedulers and not self._hears(one) and one.idle:
                return
        raise AssertionError("the scheduler never comes to rest")

    def _hears(self, one: Scheduler) -> bool:
        try:
            return one.hear_pods() or one.hear_ledger() or one.hear_nodes()
        except Died:
            self._die(one)
            return True

    def _one_turn(self, one: Scheduler) -> None:
        if one.turn():
            return
        for key in list(one.calls):
            if key in one.calls:
                one.act(key)
                one.answer(key)

    def _go_on(self) -> None:
        """Time passes, and every pod makes its way to its end."""
        cluster = self.cluster
        cluster.now += 5.0
        for one in self.schedulers:
            one.beat()
        for uid in [uid for uid, one in cluster.pods.items() if _is_free(one)]:
            cluster.bind(uid)
        for name, node in cluster.nodes.items():
            self._tell_agent(name)
            for uid in sorted(node.bound):
                self._run_on(node, uid)
            cluster.look(name)
        bound = {uid for node in cluster.nodes.values() for uid in node.bound}
        over = [uid for uid, one in cluster.pods.items() if one.ended or one.deleting]
        for uid in [uid for uid in over if uid not in bound]:
            cluster.remove(uid)

    def _run_on(self, node: Node, uid: PodUid) -> None:
        pod = self.cluster.pods.get(uid)
        if pod is None:
            self.cluster.stop(node, uid)
        elif uid in node.running or pod.ended or pod.deleting:
            self.cluster.stop(node, uid)
            self.cluster.remove(uid, phase="Succeeded", settled=True)
        else:
            self.cluster.start(node, uid)

    def _nothing_is_left(self) -> None:
        cluster, [scheduler] = self.cluster, self.schedulers
        assert not cluster.pods, f"stuck: {[(one.uid, one.gated, one.node) for one in cluster.pods.values()]}"
        grants = [one for entry in cluster.ledger.values() for one in entry.grants]
        assert not grants, f"never freed: {grants}"
        state = scheduler.engine.state
        assert not state.records
        assert not [key for node in state.fleet.nodes.values() for key in node.bookings]
        assert cluster.meta is not None
        assert cluster.meta.complete
        assert {name: entry.term for name, entry in cluster.ledger.items()} == dict.fromkeys(
            cluster.nodes, cluster.meta.term
        )


def _is_free(pod: PodFacts) -> bool:
    """Whether kube-scheduler binds it."""
    return not pod.gated and pod.node is None and not pod.deleting


def _good(last: Verdict, seq: int) -> Verdict:
    return verdict(last.node, last.card, bad=False, seq=seq)
