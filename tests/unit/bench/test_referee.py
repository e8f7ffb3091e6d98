"""The referee believes nobody, and the scheduler's engine passes before it."""

import io
import json
from collections.abc import Sequence
from functools import cache

import pytest

from bench.openb import factory, judge
from bench.policies import fgd, scan
from bench.policies.sublet import SubletPolicy
from bench.referee.ledger import BadPlacement, Ledger, fragmentation
from bench.referee.lines import serve
from bench.referee.standin import stand_in
from bench.referee.trace import CARD, Node, Pod, Shape, Target, history, inflate
from sublet.model.claim import Policy

NODES, SHAPES = stand_in(7, nodes=80, pods=400)
ONE = [Node("n1", 8_000, 8_000, 2, "T4")]
HALF = Shape(1_000, 1_000, 1, 500)


@cache
def allocated(policy: str, *, known: bool = True) -> float:
    target = history(SHAPES)
    made = factory(policy)(NODES, target if known else (), 0)
    return judge(made, NODES, SHAPES, target, "fill", 0, 0)["alloc@100"]


@pytest.mark.parametrize(
    ("node", "cards", "shape"),
    [
        ("n9", (0,), HALF),
        ("n1", (2,), HALF),
        ("n1", (0, 1), HALF),
        ("n1", (0, 0), Shape(0, 0, 2, CARD)),
        ("n1", (0,), Shape(8_001, 0, 1, 500)),
        ("n1", (0,), Shape(0, 0, 1, 500, ("A10",))),
    ],
)
def test_what_cannot_be_is_not_believed(node: str, cards: tuple[int, ...], shape: Shape) -> None:
    with pytest.raises(BadPlacement):
        Ledger(ONE).take(Pod("p", shape), node, cards)


def test_a_card_is_not_given_away_twice() -> None:
    ledger = Ledger(ONE)
    ledger.take(Pod("a", Shape(0, 0, 1, 600)), "n1", (0,))
    with pytest.raises(BadPlacement):
        ledger.take(Pod("b", HALF), "n1", (0,))
    ledger.give("a")
    ledger.take(Pod("b", HALF), "n1", (0,))
    assert ledger.used == 500


def test_what_no_expected_task_can_use_is_fragmented() -> None:
    ledger = Ledger(ONE)
    assert fragmentation(ledger, [(HALF, 1.0)]) == 0
    ledger.take(Pod("a", Shape(0, 0, 1, 810)), "n1", (0,))
    assert fragmentation(ledger, [(HALF, 1.0)]) == 190


def test_a_workload_is_the_trace_in_another_order_and_more_of_it() -> None:
    capacity = CARD * sum(node.cards for node in NODES)
    pods = inflate(SHAPES, 2 * capacity, 1.0, 3)
    assert sorted(map(repr, SHAPES)) == sorted(repr(pod.shape) for pod in pods[: len(SHAPES)])
    assert [one.shape for one in pods] != [one.shape for one in inflate(SHAPES, 2 * capacity, 1.0, 4)]
    assert sum(one.shape.demand for one in pods) <= 2 * capacity


def test_the_engine_leaves_less_unused_than_first_fit_and_fgd() -> None:
    engine = allocated("fragmentation")
    assert engine > allocated("first-fit")
    assert engine > allocated("fgd")


def test_the_engine_learns_in_a_few_hundred_pods_what_to_expect() -> None:
    assert allocated("fragmentation", known=False) > allocated("binpack") + 1


def test_the_engine_places_the_same_whatever_the_order_of_the_nodes() -> None:
    def run(nodes: Sequence[Node]) -> list[object]:
        policy = SubletPolicy(nodes, (), 0, policy=Policy.FRAGMENTATION)
        return [policy.place(Pod(str(at), shape)) for at, shape in enumerate(SHAPES[:300])]

    assert run(NODES) == run(NODES[::-1])


def test_nothing_is_refused_that_would_fit() -> None:
    nodes, shapes = stand_in(8)
    assert (len(nodes), len(shapes)) == (200, 1_000)
    target = history(shapes)
    made = factory("fragmentation")(nodes, target, 0)
    assert judge(made, nodes, shapes, target, "fill", 0, 0)["refused_though_feasible"] == 0


def test_requests_and_answers_are_lines_of_json() -> None:
    place = {"op": "place", "cpu_milli": 0, "mem_mib": 0, "num_gpu": 1, "gpu_milli": 600, "models": []}
    requests = [
        {
            "op": "init",
            "seed": 0,
            "nodes": [{"name": "n1", "cpu_milli": 8, "mem_mib": 8, "cards": 1, "model": "T4"}],
            "target": [],
        },
        place | {"id": "a"},
        place | {"id": "b"},
        {"op": "release", "id": "a"},
        place | {"id": "b"},
    ]
    answers = io.StringIO()
    serve(factory("fragmentation"), io.StringIO("\n".join(map(json.dumps, requests))), answers)
    assert [json.loads(line) for line in answers.getvalue().splitlines()] == [
        {"ok": True},
        {"node": "n1", "cards": [0]},
        {"node": None},
        {"ok": True},
        {"node": "n1", "cards": [0]},
    ]


def test_fgd_is_the_gradient_of_the_definition() -> None:
    target: Target = [(HALF, 0.5), (Shape(2_000, 0, 1, CARD), 0.3), (Shape(1_000, 0, 2, CARD), 0.2)]
    ledger = Ledger(ONE)
    policy = fgd.fgd(ONE, target, 0)
    assert isinstance(policy, scan.Scan)
    for pod in (Pod("a", HALF), Pod("b", Shape(7_000, 0, 0, 0))):
        free = sum(ledger.free["n1"])
        used = fgd.Gradient(target).use("T4", ledger.cpu["n1"], ledger.free["n1"])
        assert free - used == pytest.approx(fragmentation(ledger, target))
        found = policy.place(pod)
        assert found
        ledger.take(pod, *found)
