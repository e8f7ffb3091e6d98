"""Laws of placing: what fits is found, nothing is promised twice, and the indices know what a scan knows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sublet_scheduler.core.assigning import Assigned, assign
from sublet_scheduler.core.fleet import Fleet
from sublet_scheduler.core.matching import node_objection
from sublet_scheduler.core.node import CardState, NodeState
from sublet_scheduler.core.placing import Placer
from sublet_scheduler.core.scoring.interface import PLAIN
from sublet_scheduler.core.scoring.workload import Workload
from sublet_scheduler.core.shapes import Policies, Shape

from sublet.contract import keys
from sublet.contract.overcommit import Overcommit
from sublet.model.card import Card, Link, Vendor
from sublet.model.claim import Claim, LinkWish, PodAsk, Policy
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from tests import builders
from tests.builders import card, container, pod
from tests.unit.scheduler.nodes import Nodes

LIMITS: list[dict[str, object]] = [
    {"gpu": 1},
    {"gpu": 2},
    {"gpu": 3},
    {"nvidia": 1},
    {"gpu_memory": 1024},
    {"gpu_memory": 4096, "gpu_core": 60},
    {"gpu_memory": 7000},
    {"gpu_memory_percent": 50},
    {"gpu_core": 30},
    {"gpu": 2, "gpu_memory": 3000},
    {"gpu_mem": 2},
    {"gpu_mem": 5},
    {"gpu_count": 1},
]
WISHES: list[dict[str, str]] = [
    {},
    {},
    {keys.LINK: "required"},
    {keys.NUMA: "same"},
    {keys.CARD_MODELS: "t4"},
    {keys.EXCLUDE_CARD_UUIDS: "n1-0,n2-1"},
    {keys.CARD_POLICY: "spread"},
    {keys.NODE_POLICY: "spread"},
]
MORE = Overcommit.read(memory=("A100:1.3",), core=("T4:2",))
CARDS = st.builds(
    lambda gib, model, vendor, numa: (gib, model, vendor, numa),
    st.sampled_from([4, 10, 10, None]),
    st.sampled_from(["A100", "A100", "T4"]),
    st.sampled_from([Vendor.NVIDIA, Vendor.NVIDIA, Vendor.NVIDIA, Vendor.AMD]),
    st.sampled_from([0, 0, 1, None]),
)


@st.composite
def fleets(draw: st.DrawFn) -> Nodes:
    policies = st.sampled_from(list(Policy))
    overcommit = draw(st.sampled_from([Overcommit(), Overcommit(), MORE]))
    nodes = Nodes(node_policy=draw(policies), card_policy=draw(policies), fleet=Fleet(overcommit))
    for at in range(draw(st.integers(1, 3))):
        kinds = draw(st.lists(CARDS, min_size=1, max_size=4))
        held = [
            replace(card(f"n{at}-{index}", index=index, gib=gib, model=model, vendor=vendor), numa=numa)
            for index, (gib, model, vendor, numa) in enumerate(kinds)
        ]
        pairs = draw(st.lists(st.sampled_from(list(Link)), min_size=6, max_size=6))
        joined = dict(zip(combinations(range(len(held)), 2), pairs, strict=False))
        nodes.add(
            f"n{at}", *(with_links(one, held, joined) for one in held), shares=draw(st.sampled_from([2, 16]))
        )
        for one in held:
            use(nodes, one, draw(st.sampled_from(["", "", "", "some", "much", "whole"])))
    return nodes


def with_links(one: Card, held: Sequence[Card], joined: dict[tuple[int, int], Link]) -> Card:
    links = {
        held[b if a == one.index else a].id: link for (a, b), link in joined.items() if one.index in (a, b)
    }
    return replace(one, links=links)


def use(nodes: Nodes, one: Card, how: str) -> None:
    if how == "whole":
        nodes.use(one.id, one.memory_mib, 100, exclusive=True)
    elif how and one.memory_mib is not None:
        nodes.use(one.id, one.memory_mib * (2 if how == "some" else 3) // 4, 40 if how == "some" else 70)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(LIMITS), min_size=1, max_size=3))
    manifest = pod("pod", *(container(f"c{at}", **limits) for at, limits in enumerate(chosen)))
    wishes = dict(draw(st.sampled_from(WISHES)))
    if all(set(limits) & {"gpu_memory", "gpu_mem", "gpu_core"} and "gpu" not in limits for limits in chosen):
        wishes |= draw(st.sampled_from([{}, {keys.SAME_CARD: "g"}]))
    manifest["metadata"]["annotations"] = wishes
    return manifest


def takes(claim: Claim, one: Card) -> int:
    if claim.exclusive:
        return one.memory_mib or 0
    if claim.memory_mib is not None:
        return claim.memory_mib
    part = claim.core_percent if claim.memory_percent is None else int(claim.memory_percent)
    return (one.memory_mib or 0) * part // 100


def ways(node: NodeState, ask: PodAsk) -> Iterator[dict[str, tuple[CardState, ...]]]:
    """Every way to put all claims on cards of `node`, by trying all: the specification in other words."""
    sets = [list(combinations(node.by_index, claim.cards)) for claim in ask.claims]
    for choice in product(*sets):
        found = {claim.container: cards for claim, cards in zip(ask.claims, choice, strict=True)}
        if all(_may(claim, cards, ask) for claim, cards in zip(ask.claims, choice, strict=True)) and (
            _together(node, ask, found)
        ):
            yield found


def _may(claim: Claim, cards: tuple[CardState, ...], ask: PodAsk) -> bool:
    wishes = ask.wishes
    if wishes.link is LinkWish.REQUIRED and any(
        a.card.links.get(b.card.id) is not Link.NVLINK for a, b in combinations(cards, 2)
    ):
        return False
    return all(
        (not claim.vendor or one.card.vendor == claim.vendor)
        and (not wishes.card_models or "t4" in one.card.model.lower())
        and one.card.id not in wishes.exclude_card_uuids
        and (claim.exclusive or one.card.memory_mib is not None)
        for one in cards
    )


def _together(node: NodeState, ask: PodAsk, found: dict[str, tuple[CardState, ...]]) -> bool:
    for one in node.by_index:
        mine = [claim for claim in ask.claims if one in found[claim.container]]
        if not mine:
            continue
        shares = one.shares + len(mine)
        alone = one.exclusive or any(claim.exclusive for claim in mine)
        if (
            (alone and shares > 1)
            or shares > node.shares_per_card
            or (
                one.card.memory_mib is not None
                and (
                    one.used_mib + sum(takes(claim, one.card) for claim in mine) > one.card.most_mib
                    or any(takes(claim, one.card) > one.card.memory_mib for claim in mine)
                )
            )
            or one.used_core + sum(claim.core_percent for claim in mine) > one.card.shareable_core_percent
        ):
            return False
    if ask.wishes.one_numa:
        numas = {one.card.numa for cards in found.values() for one in cards}
        if len(numas) > 1 or None in numas:
            return False
    groups: dict[str, set[CardId]] = {}
    for claim in ask.claims:
        group = "all" if ask.wishes.same_card else claim.one_card_group
        if group:
            groups.setdefault(group, set()).update(one.card.id for one in found[claim.container])
    return all(len(ids) == 1 for ids in groups.values())


@settings(deadline=None, max_examples=150)
@given(fleets(), pods())
def test_a_pod_is_placed_exactly_where_trying_everything_finds_a_way(
    nodes: Nodes, manifest: dict[str, Any]
) -> None:
    ask = builders.ask(manifest)
    outcome = nodes.placer.place(ask, now=0.0)
    possible = {node.name for node in nodes.fleet.nodes.values() if any(True for _ in ways(node, ask))}
    if isinstance(outcome, NoRoom):
        assert not possible
        assert sum(outcome.reasons.values()) >= 1
        return
    assert outcome.node in possible
    node = nodes.fleet.nodes[outcome.node]
    chosen = {
        name: tuple(node.cards[grant.card] for grant in grants) for name, grants in outcome.containers.items()
    }
    assert chosen in list(ways(node, ask))
    for claim in ask.claims:
        for grant in outcome.containers[claim.container]:
            one = node.cards[grant.card].card
            assert grant.index == one.index
            assert grant.memory_mib == (one.memory_mib if one.memory_mib is None else takes(claim, one))
            assert (grant.core_percent, grant.exclusive) == (claim.core_percent, claim.exclusive)


@settings(deadline=None, max_examples=150)
@given(fleets(), pods())
def test_every_card_and_every_node_counts_once_in_a_no(nodes: Nodes, manifest: dict[str, Any]) -> None:
    nodes.add("other", card("other-0"), labels={}, unschedulable=True)
    outcome = nodes.ask(manifest)
    if isinstance(outcome, NoRoom):
        counts = dict(outcome.reasons)
        larger = counts.pop(Reason.LARGER_THAN_ANY_NODE, 0)
        assert larger in (0, 1)
        cards = sum(len(node.cards) for node in nodes.fleet.nodes.values() if node.name != "other")
        assert sum(counts.values()) == cards + 1
        assert counts[Reason.UNSCHEDULABLE] == 1
        assert list(outcome.reasons) == [reason for reason in Reason if reason in outcome.reasons]


@settings(deadline=None, max_examples=100)
@given(fleets(), pods())
def test_what_is_larger_than_any_node_fits_on_no_empty_one(nodes: Nodes, manifest: dict[str, Any]) -> None:
    for key in (keys.LINK, keys.NUMA):
        manifest["metadata"]["annotations"].pop(key, None)
    ask = builders.ask(manifest)
    outcome = nodes.placer.place(ask, now=0.0)
    for node in nodes.fleet.nodes.values():
        for key in list(node.bookings):
            nodes.fleet.unbook(node.name, key)
    if isinstance(outcome, NoRoom) and Reason.LARGER_THAN_ANY_NODE in outcome.reasons:
        assert isinstance(nodes.placer.place(ask, now=0.0), NoRoom)


SHAPES = [
    pod("pod", container("c", **limits), annotations=wishes)
    for limits in LIMITS
    for wishes in ({}, {keys.NODE_POLICY: "spread"}, {keys.LINK: "required"})
]


class Indices(RuleBasedStateMachine):
    """Whatever happens to the fleet, the indices answer as a scan of all nodes does."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = Nodes()
        for at in range(4):
            self.nodes.add(f"n{at}", *builders.cards(f"n{at}", at % 3 + 1))
        self.booked: list[tuple[NodeName, str]] = []

    @rule(manifest=st.sampled_from(SHAPES))
    def decide(self, manifest: dict[str, Any]) -> None:
        ask = builders.ask(manifest)
        outcome = self.nodes.placer.place(ask, now=0.0)
        assert (outcome.node if isinstance(outcome, Placement) else None) == self.by_scan(ask)
        afresh = Placer.over(self.nodes.fleet, self.nodes.placer.defaults, 15.0, workload=Workload())
        assert afresh.place(ask, now=0.0) == outcome
        if isinstance(outcome, Placement):
            self.booked.append((outcome.node, self.nodes.keep(ask, outcome)))

    def by_scan(self, ask: PodAsk) -> NodeName | None:
        shape = Shape.of(ask, self.nodes.placer.defaults, None)
        fitting = []
        for node in self.nodes.fleet.nodes.values():
            if node_objection(node, ask, now=0.0, fresh_s=15.0):
                continue
            found = assign(node.by_index, shape.asked, shares_per_card=node.shares_per_card)
            if isinstance(found, Assigned):
                fitting.append((PLAIN[shape.node_policy](node, found), node.name))
        return min(fitting)[1] if fitting else None

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.booked:
            at = data.draw(st.integers(0, len(self.booked) - 1))
            self.nodes.fleet.unbook(*self.booked.pop(at))

    @rule(node=st.integers(0, 3), index=st.integers(0, 2), open_=st.booleans())
    def close(self, node: int, index: int, open_: bool) -> None:
        self.nodes.fleet.set_open(NodeName(f"n{node}"), CardId(f"n{node}-{index}"), open_=open_)

    @rule(node=st.integers(0, 3), count=st.integers(0, 4), gib=st.sampled_from([4, 10]))
    def exchange(self, node: int, count: int, gib: int) -> None:
        """Cards come and go; what was booked on cards that are gone stays booked."""
        name = f"n{node}"
        state = self.nodes.fleet.nodes[NodeName(name)]
        if not state.bookings:
            held = builders.cards(name, count, gib=gib)
            self.nodes.fleet.set_inventory(NodeName(name), builders.inventory(name, *held))

    @rule(node=st.integers(0, 3))
    def recount(self, node: int) -> None:
        name = NodeName(f"n{node}")
        self.nodes.fleet.set_inventory(name, self.nodes.fleet.nodes[name].inventory)

    @invariant()
    def nothing_is_promised_beyond_what_a_card_has(self) -> None:
        for node in self.nodes.fleet.nodes.values():
            for one in node.cards.values():
                assert one.free_mib >= 0
                assert one.free_core >= 0
                assert one.shares <= (1 if one.exclusive else 16)


TestIndices = Indices.TestCase
TestIndices.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_an_index_that_was_pushed_out_by_other_shapes_is_built_anew() -> None:
    nodes = Nodes()
    nodes.add("n1", card("A", gib=1000))
    for at in range(1, 600):
        assert isinstance(nodes.ask(pod("pod", container(gpu_memory=at))), Placement)
    assert nodes.placer.candidates.live_shapes == 512
    assert nodes.place(container(gpu_memory=1)) == {"main": ["A"]}
    assert Policies(Policy.BINPACK, Policy.BINPACK) == nodes.placer.defaults
