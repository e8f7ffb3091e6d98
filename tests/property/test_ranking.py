"""Rankings say what a sort would say, and stay right whatever happens to the fleet."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sublet_scheduler.core.assigning import Patience
from sublet_scheduler.core.candidates import Candidates
from sublet_scheduler.core.eligible import Eligible
from sublet_scheduler.core.matching import place_objection
from sublet_scheduler.core.ranking import Levels, Ranking, Ranks
from sublet_scheduler.core.refusals import Refusals

from sublet.contract import keys
from sublet.model.claim import Policy
from sublet.model.ids import NodeName
from sublet.model.placement import Placement
from tests import builders
from tests.builders import container, pod
from tests.unit.scheduler.nodes import Nodes

SIZE = 150
PUTS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.none() | st.integers(0, 254)), max_size=80)


@settings(deadline=None)
@given(PUTS, st.sets(st.integers(0, SIZE - 1)))
def test_positions_come_by_score_then_by_place(puts: list[tuple[int, int | None]], out: set[int]) -> None:
    barred = int.from_bytes(bytes(255 if at in out else 0 for at in range(SIZE)), "little")
    wanted = dict(puts)
    expected = sorted((score, at) for at, score in wanted.items() if score is not None and at not in out)
    rankings: list[Ranking] = [Levels(SIZE), Ranks(SIZE)]
    for ranking in rankings:
        for at, score in puts:
            ranking.put(at, score)
        assert list(ranking.in_order(barred)) == [at for _, at in expected]
        turned = ranking.moved([*reversed(range(SIZE)), -1])
        there = [at for at, score in wanted.items() if score is not None]
        assert sorted(turned.in_order(0)) == sorted(SIZE - 1 - at for at in there)


LIMITS: list[dict[str, Any]] = [
    {"gpu_memory": 1024},
    {"gpu_memory": 5000, "gpu_core": 30, "cpu": "2"},
    {"gpu_memory_percent": 40},
    {"gpu": 1},
    {"gpu": 2},
    {"gpu": 2, "gpu_memory": 3000},
]
SPECS: list[dict[str, Any]] = [{}, {"nodeSelector": {"zone": "a"}}]
ASKS = [
    builders.ask(pod("pod", container("c", **limits), annotations=wishes, **spec))
    for limits in LIMITS
    for wishes in ({}, {keys.CARD_MODELS: "t4"}, {keys.CARD_POLICY: "spread"})
    for spec in SPECS
]


class Fleets(RuleBasedStateMachine):
    """Nodes come and go, pods come and go: a fresh look finds what the kept rankings and masks say."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = Nodes(node_policy=Policy.FRAGMENTATION, card_policy=Policy.FRAGMENTATION)
        self.booked: list[tuple[NodeName, str]] = []
        self.asked: set[int] = set()
        for at in range(3):
            self.add(at, at + 1, "a")

    @rule(at=st.integers(0, 7), count=st.integers(1, 4), zone=st.sampled_from(["a", "b"]))
    def add(self, at: int, count: int, zone: str) -> None:
        name = f"n{at}"
        if name not in self.nodes.fleet.nodes:
            model = "T4" if at % 2 else "A100"
            held = [builders.card(f"{name}-{one}", index=one, model=model) for one in range(count)]
            self.nodes.add(name, *held, labels={"zone": zone}, cpu_milli=8_000)

    @rule(at=st.integers(0, 7))
    def remove(self, at: int) -> None:
        name = NodeName(f"n{at}")
        state = self.nodes.fleet.nodes.get(name)
        if state and not state.bookings:
            self.nodes.fleet.describe(name, None)
            self.nodes.fleet.set_inventory(name, None)
            self.nodes.fleet.forget(name)

    @rule(at=st.integers(0, len(ASKS) - 1), learns=st.booleans())
    def decide(self, at: int, learns: bool) -> None:
        ask = ASKS[at]
        if learns:
            self.nodes.placer.observe(ask)
        outcome = self.nodes.placer.place(ask, now=0.0)
        self.asked.add(at)
        if isinstance(outcome, Placement):
            self.booked.append((outcome.node, self.nodes.keep(ask, outcome)))

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.booked:
            self.nodes.fleet.unbook(*self.booked.pop(data.draw(st.integers(0, len(self.booked) - 1))))

    @invariant()
    def kept_rankings_are_what_a_fresh_look_says(self) -> None:
        placer, fleet = self.nodes.placer, self.nodes.fleet
        afresh = Candidates(fleet, placer.fragmentation, Patience())
        for ask in (ASKS[at] for at in sorted(self.asked)):
            shape, _ = placer.shape(ask)
            kept = [node.name for node in placer.candidates.best_first(shape)]
            assert kept == [node.name for node in afresh.best_first(shape)]

    @invariant()
    def kept_refusals_are_what_a_fresh_look_says(self) -> None:
        placer, fleet = self.nodes.placer, self.nodes.fleet
        for ask in (ASKS[at] for at in sorted(self.asked)):
            shape, _ = placer.shape(ask)
            kept = placer.refusals.counts(ask, shape, now=0.0, avoid={}, kept=set())
            assert kept == Refusals(fleet, 15.0, Patience()).counts(ask, shape, now=0.0, avoid={}, kept=set())

    @invariant()
    def masks_bar_what_cannot_be_used(self) -> None:
        placer, fleet = self.nodes.placer, self.nodes.fleet
        for ask in (ASKS[at] for at in sorted(self.asked)):
            shape, _ = placer.shape(ask)
            barred = placer.eligible.barred(ask, shape.asked)
            assert barred == Eligible(fleet).barred(ask, shape.asked)
            for at, name in enumerate(fleet.order):
                if place_objection(fleet.nodes[name], ask):
                    assert barred >> 8 * at & 0xFF == 0xFF


TestFleets = Fleets.TestCase
TestFleets.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
