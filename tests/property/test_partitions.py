"""Laws of partitions: however cards are divided meanwhile, nobody gets what another container can reach."""

from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from sublet.contract import keys
from sublet.model.card import Card
from sublet.model.claim import Policy
from sublet.model.ids import NodeName
from sublet.model.placement import NoRoom
from tests import builders
from tests.builders import card, container, pod
from tests.unit.scheduler.nodes import EVERYTHING, Nodes

NODE = NodeName("n1")
PROFILES = ("1g.5gb", "3g.20gb")
MIG = tuple(keys.NVIDIA_MIG_PREFIX + profile for profile in PROFILES)
CARDS = ("A", "B")

LAYOUTS: list[list[str] | None] = [None, [], [PROFILES[0]], [PROFILES[0]] * 2, [PROFILES[1], PROFILES[0]]]
"""Whole, or in MIG mode with so many partitions."""
ASKS = st.sampled_from(
    [
        [{MIG[0]: 1}],
        [{MIG[0]: 2}],
        [{MIG[1]: 1}],
        [{MIG[0]: 1}, {MIG[1]: 1}],
        [{keys.NVIDIA_GPU: 1}],
        [{keys.GPU_MEMORY: 1000}],
        [{keys.NVIDIA_GPU: 1}, {MIG[0]: 1}],
    ]
)
DIVIDE = st.tuples(st.just("divide"), st.sampled_from(CARDS), st.sampled_from(LAYOUTS))
PLACE = st.tuples(st.just("place"), ASKS, st.sampled_from([{}, {keys.CARD_POLICY: "spread"}]))
END = st.tuples(st.just("end"), st.integers(0, 20), st.none())
CLOSE = st.tuples(st.just("close"), st.sampled_from(CARDS), st.booleans())
STEPS = st.lists(st.one_of(DIVIDE, PLACE, DIVIDE, PLACE, END, CLOSE), min_size=8, max_size=24)


@dataclass
class Stage:
    """A node of two cards, and which UUIDs the live pods hold; a partition is named after its card."""

    nodes: Nodes = field(default_factory=lambda: Nodes(card_policy=Policy.FRAGMENTATION))
    layouts: dict[str, Card] = field(default_factory=dict)
    held: dict[str, list[str]] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        for at, name in enumerate(CARDS):
            self.layouts[name] = card(name, index=at, gib=40)
        self.nodes.add("n1", *self.layouts.values(), allocatable=EVERYTHING | dict.fromkeys(MIG, 99))

    def divide(self, name: str, layout: list[str] | None) -> None:
        parts: dict[str, str] | None = None if layout is None else {}
        for profile in layout or ():
            self.made += 1
            parts = (parts or {}) | {f"{name}/{self.made}": profile}
        self.layouts[name] = card(name, index=CARDS.index(name), gib=40, parts=parts)
        self.nodes.fleet.set_inventory(NODE, builders.inventory("n1", *self.layouts.values()))

    def place(self, limits: list[dict[str, Any]], annotations: dict[str, str]) -> None:
        wanted = [container(f"c{at}", **one) for at, one in enumerate(limits)]
        ask = builders.ask(pod("p", *wanted, annotations=annotations))
        outcome = self.nodes.placer.place(ask, now=0.0)
        if isinstance(outcome, NoRoom):
            return
        given = [grant.card for grants in outcome.containers.values() for grant in grants]
        self.check(given, [claim.profile for claim in ask.claims for _ in range(claim.cards)])
        self.held[self.nodes.keep(ask, outcome)] = [str(one) for one in given]

    def check(self, given: list[Any], profiles: list[str | None]) -> None:
        assert len(set(given)) == len(given)
        others = {one for some in self.held.values() for one in some}
        for one, profile in zip(given, profiles, strict=True):
            name = one.partition("/")[0]
            now = self.layouts[name]
            assert name not in (self.nodes.fleet.nodes[NODE].closed)
            if profile is None:
                assert not now.mig
                assert not any(other.startswith(f"{name}/") for other in others), f"{one} over {others}"
            else:
                assert one in {part.uuid for part in now.partitions if part.profile == profile}
                assert others.isdisjoint({one, name}), f"{one} over {others}"

    def end(self, which: int) -> None:
        if self.held:
            key = sorted(self.held)[which % len(self.held)]
            del self.held[key]
            self.nodes.fleet.unbook(NODE, key)


@settings(deadline=None, max_examples=300)
@given(STEPS)
def test_a_partition_is_never_shared_and_a_card_never_given_beside_its_partitions(steps: list[Any]) -> None:
    stage = Stage()
    for what, first, second in steps:
        match what:
            case "divide":
                stage.divide(first, second)
            case "place":
                stage.place(first, second)
            case "end":
                stage.end(first)
            case _:
                stage.nodes.fleet.set_open(NODE, first, open_=second)


@settings(deadline=None, max_examples=150)
@given(STEPS)
def test_what_is_booked_and_undone_in_any_order_leaves_every_partition_free(steps: list[Any]) -> None:
    stage = Stage()
    for what, first, second in steps:
        if what == "divide":
            stage.divide(first, second)
        elif what == "place":
            stage.place(first, second)
        elif what == "end":
            stage.end(first)
    while stage.held:
        stage.end(0)
    node = stage.nodes.fleet.nodes[NODE]
    assert all(one.unused and not one.used_mib and not one.used_core for one in node.by_index)
    for one in node.by_index:
        assert one.free_siblings == sum(
            other.card.parent == one.card.parent for other in node.by_index
        ) * bool(one.card.parent)
