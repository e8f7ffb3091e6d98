"""Laws that hold in any history: `World` checks after every step that no card is promised beyond what it
has and that released and running pods are in the ledger."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sublet_scheduler.core import effects as ef
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.flight.file import read_flight
from sublet_scheduler.core.flight.replay import replay
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import Rules, doubtful_key

from sublet.contract import keys
from sublet.contract.overcommit import Overcommit
from sublet.model.ids import CardId, PodUid
from sublet.model.placement import Placement
from tests.builders import cards, container, pod, verdict
from tests.unit.scheduler.world import World

CARDS = [("n1", "n1-0"), ("n1", "n1-1"), ("n2", "n2-0")]
SHAPES: list[list[dict[str, Any]]] = [
    [container(gpu_memory=3 * 1024)],
    [container(gpu_memory=6 * 1024, gpu_core=40)],
    [container(gpu=1)],
    [container(gpu_core=50)],
    [container(nvidia=2)],
    [container("a", gpu_memory=2048), container("b", gpu_memory=4096)],
    [container(gpu_mem=5)],
]


class Histories(RuleBasedStateMachine):
    RULES = Rules()
    may_be_over = False
    """A ratio may have been lowered under what is promised."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(stretch=5, rules=self.RULES)
        self.world.node("n1", *cards("n1", 2))
        self.world.node("n2", *cards("n2", 1))
        self.count = 0
        self.seq = 1
        self.bound: dict[PodUid, bool] = {}

    def _pods(self, *, released: bool) -> list[PodUid]:
        return [uid for uid, one in self.world.pods.items() if (not one.gated) == released and not one.ended]

    @rule(
        shape=st.sampled_from(SHAPES),
        repeat=st.booleans(),
        priority=st.sampled_from([0, 0, 0, 1, 2]),
        wish=st.sampled_from([{}, {}, {keys.SERVICE_CLASS: "online"}, {keys.SERVICE_CLASS: "offline"}]),
    )
    def create(self, shape: list[dict[str, Any]], repeat: bool, priority: int, wish: dict[str, str]) -> None:
        self.count += not repeat
        manifest = pod(f"pod-{self.count}", *shape, priority=priority, annotations=wish)
        taken = any(one.ref.name == f"pod-{self.count}" for one in self.world.pods.values())
        if not taken:
            self.world.create(manifest)

    @rule(shape=st.sampled_from(SHAPES), gang=st.sampled_from(["one", "two"]), size=st.integers(2, 3))
    def create_a_member(self, shape: list[dict[str, Any]], gang: str, size: int) -> None:
        """`World` refuses the release of a member before the ledger shows cards for all of its gang."""
        self.count += 1
        name = f"{gang}-{size}"
        annotations = {keys.GANG: name, keys.GANG_SIZE: str(size)}
        self.world.create(pod(f"{name}-{self.count}", *shape, annotations=annotations))

    @rule(shape=st.sampled_from(SHAPES))
    def ask_and_vanish(self, shape: list[dict[str, Any]]) -> None:
        self.world.ask(pod("ghost", *shape))

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        pods = self.world.pods
        free = [uid for uid in self._pods(released=True) if not (pods[uid].node or pods[uid].deleting)]
        if free:
            self.world.bind(data.draw(st.sampled_from(free)))

    @rule(data=st.data(), settled=st.booleans())
    def end(self, data: st.DataObject, settled: bool) -> None:
        running = [uid for uid in self._pods(released=True) if self.world.pods[uid].node]
        if running:
            uid = data.draw(st.sampled_from(running))
            self.world.change(uid, phase="Failed", settled=settled)

    @rule()
    def evicted_pods_end(self) -> None:
        for uid in [uid for uid, one in self.world.pods.items() if one.deleting and one.node]:
            self.world.change(uid, phase="Failed", settled=True)

    @rule(cards=st.integers(0, 4))
    def limit(self, cards: int) -> None:
        self.world.quota("q", cards=cards)

    @rule(data=st.data())
    def begin_to_delete(self, data: st.DataObject) -> None:
        """A finalizer or the grace period keeps the object."""
        if self.world.pods:
            self.world.change(data.draw(st.sampled_from(list(self.world.pods))), deleting=True)

    @rule(data=st.data(), seen=st.booleans())
    def delete(self, data: st.DataObject, seen: bool) -> None:
        if self.world.pods:
            self.world.delete(data.draw(st.sampled_from(list(self.world.pods))), seen=seen)

    @rule(card=st.sampled_from(CARDS), bad=st.booleans())
    def judge(self, card: tuple[str, str], bad: bool) -> None:
        self.seq += 1
        self.world.judge(verdict(*card, bad=bad, seq=self.seq))

    @rule(node=st.sampled_from(["n1", "n2"]), readable=st.booleans())
    def look(self, node: str, readable: bool) -> None:
        alive = [uid for uid, placement in self.world.physical.items() if placement.node == node]
        self.world.occupancy(node, alive=alive, cgroups_read=readable)

    @rule(data=st.data())
    def containers_end(self, data: st.DataObject) -> None:
        pods = self.world.pods
        orphans = [uid for uid in self.world.physical if uid not in pods or pods[uid].ended]
        if orphans:
            del self.world.physical[data.draw(st.sampled_from(orphans))]

    @rule(writes=st.booleans(), patches=st.booleans())
    def hold(self, writes: bool, patches: bool) -> None:
        self.world.hold_writes, self.world.hold_patches = writes, patches
        self.world.settle()

    @precondition(lambda self: not self.world.lost)
    @rule()
    def restart(self) -> None:
        self.world.restart()

    @precondition(lambda self: not self.world.lost)
    @rule(data_too=st.booleans())
    def lose_the_bus(self, data_too: bool) -> None:
        self.world.held = [one for one in self.world.held if not isinstance(one, ef.WriteLedger)]
        self.world.lose_ledger(data=data_too)

    @precondition(lambda self: self.world.lost)
    @rule()
    def bus_is_back(self) -> None:
        self.world.hold_writes = False
        self.world.ledger_back()

    @rule(seconds=st.sampled_from([0.5, 11.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @invariant()
    def what_is_booked_is_what_the_records_hold(self) -> None:
        state = self.world.engine.state
        booked = {key for node in state.fleet.nodes.values() for key in node.bookings}
        held = {record.uid for record in state.records.values() if record.placement}
        promised = {id_ for id_, one in state.reservations.items() if isinstance(one.outcome, Placement)}
        doubtful = {doubtful_key(uid) for some in state.doubtful.values() for uid in some}
        assert booked == held | promised | doubtful
        assert {uid for uid, one in state.records.items() if one.stage is Stage.WAITING} == state.waiting

    @invariant()
    def no_card_is_promised_beyond_what_it_has(self) -> None:
        for node in self.world.engine.state.fleet.nodes.values():
            for card in node.cards.values():
                assert self.may_be_over or (card.free_mib >= 0 and card.free_core >= 0)
                assert card.shares <= 1 or not card.exclusive

    def teardown(self) -> None:
        """The same history gives the same effects and the same state again; so does the flight recorder,
        whose files begin with a picture of an engine in the midst of its work."""
        assert [step for step in replay(read_flight(self.world.recorder.lines())) if step.differs] == []
        again = Engine(self.world.rules)
        for now, event, effects in self.world.heard:
            assert again.handle(event, now=now) == effects
        mine, theirs = self.world.engine.state, again.state
        assert mine.records == theirs.records
        assert mine.ledgers == theirs.ledgers
        assert {n: s.bookings for n, s in mine.fleet.nodes.items()} == {
            n: s.bookings for n, s in theirs.fleet.nodes.items()
        }

    @precondition(lambda self: not self.world.lost and not self.world.held)
    @invariant()
    def a_scheduler_that_starts_now_knows_the_same(self) -> None:
        live = _essence(self.world)
        again = World(rules=self.world.rules)
        again.allowed = self.world.allowed
        again.ledger = dict(self.world.ledger)
        again.pods = dict(self.world.pods)
        again.nodes = dict(self.world.nodes)
        again.inventories = dict(self.world.inventories)
        again.now, again.term = self.world.now, self.world.term + 1
        again.hold_writes = again.hold_patches = True
        again._revision, again._version = self.world._revision, self.world._version
        again.start()
        assert _essence(again) == live


def _essence(world: World) -> dict[PodUid, list[tuple[str, CardId]]]:
    """Which pod holds which cards, in the ledger's eyes; what is only being written may differ."""
    return {
        record.uid: sorted((grant.container, grant.grant.card) for grant in record.grants)
        for record in world.engine.state.records.values()
        if record.stage in (Stage.RELEASING, Stage.FENCING, Stage.RELEASED, Stage.ENDING)
    }


def _ratio(ratio: str) -> Rules:
    entries = (f"A100:{ratio}",)
    return Rules(overcommit=Overcommit.read(memory=entries, core=entries))


class OvercommittedHistories(Histories):
    """Ratios change with every start of the scheduler, and what was promised stays: never more than the
    largest ratio allows (`World` checks it), and never more than the totals of the node show."""

    RULES = _ratio("2")
    may_be_over = True

    @precondition(lambda self: not self.world.lost)
    @rule(ratio=st.sampled_from(["1", "1.5", "2"]))
    def start_with_another_ratio(self, ratio: str) -> None:
        self.world.rules = _ratio(ratio)
        self.world.restart()

    @precondition(lambda self: not self.world.held)
    @invariant()
    def totals_hold_all_that_is_promised(self) -> None:
        for node in self.world.engine.state.fleet.nodes.values():
            shares = [card for card in node.by_index if not card.exclusive]
            shown = self.world.nodes[node.name].allocatable.get(keys.GPU_MEMORY, 0)
            assert shown >= sum(card.used_mib for card in shares)


TestOvercommittedHistories = pytest.mark.timeout(120)(OvercommittedHistories.TestCase)
TestOvercommittedHistories.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)

TestHistories = pytest.mark.timeout(120)(Histories.TestCase)
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


STEPS = ["condemn", "heal", "create", "commit", "release", "start", "end", "look"]


@pytest.mark.timeout(120)
@settings(max_examples=1000, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=14))
def test_no_interleaving_puts_a_pod_on_a_closed_card(steps: list[tuple[str, int]]) -> None:
    """`World.store` refuses a ledger entry that grants a card which it had closed before."""
    world = World()
    world.node("n1", *cards("n1", 2))
    world.hold_writes = world.hold_patches = True
    for number, (step, which) in enumerate(steps):
        running = [uid for uid, one in world.pods.items() if uid in world.released and not one.ended]
        match step:
            case "condemn" | "heal":
                world.judge(verdict("n1", f"n1-{which % 2}", bad=step == "condemn", seq=number + 1))
            case "create":
                world.create(pod(f"p{number}", container(gpu_memory=(which + 1) * 2048)))
            case "commit" | "release":
                world.hold_writes, world.hold_patches = step != "commit", step != "release"
                world.settle()
                world.hold_writes = world.hold_patches = True
            case "start" if running:
                uid = running[which % len(running)]
                if world.pods[uid].node is None:
                    world.bind(uid)
            case "end" if running:
                uid = running[which % len(running)]
                if world.pods[uid].node is not None:
                    world.change(uid, phase="Succeeded", settled=which % 2 == 0)
            case "look":
                world.occupancy("n1", alive=list(world.physical))
            case _:
                pass
