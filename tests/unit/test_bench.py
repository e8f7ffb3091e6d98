"""The figures of the benchmarks page are what was measured, and its measurements run."""

import pytest

from bench.cluster import SHAPES, Cluster, ask_for
from bench.figure import Figure, percentile, spread
from sublet.model.placement import NoRoom, Placement


@pytest.mark.parametrize(("percent", "value"), [(50, 50.0), (99, 99.0), (100, 100.0), (0, 1.0)])
def test_a_percentile_is_a_sample_that_so_many_do_not_exceed(percent: float, value: float) -> None:
    assert percentile([float(one) for one in range(100, 0, -1)], percent) == value
    assert percentile([7.0], percent) == 7.0


def test_a_figure_is_written_with_its_unit_and_aim() -> None:
    assert (
        Figure(what="x", value=1234.5, unit="/s", aim="≥ 800 /s").row() == "| x | 1,234 /s | ≥ 800 /s | met |"
    )
    assert Figure(what="x", value=0.01234, unit="ms").row() == "| x | 0.0123 ms |  |  |"


@pytest.mark.parametrize(
    ("value", "aim", "verdict"),
    [
        (800.0, "≥ 800 /s", "met"),
        (799.9, "≥ 800 /s", "missed"),
        (1000.0, "≤ 1,000 µs at 5,000 × 8", "met"),
        (1000.1, "≤ 1,000 µs at 5,000 × 8", "missed"),
        (0.5, "≤ 0.4 ms", "missed"),
        (3.0, "3 a year were put in", ""),
    ],
)
def test_a_figure_says_whether_its_aim_is_met(value: float, aim: str, verdict: str) -> None:
    assert Figure(what="x", value=value, unit="", aim=aim).row().endswith(f"| {verdict} |")


def test_the_aim_stands_beside_the_99th_percentile() -> None:
    median, tail = spread("x", [1.0, 2.0, 3.0], "ms", aim="≤ 9 ms")
    assert (median.value, median.aim) == (2.0, "")
    assert (tail.value, tail.aim) == (3.0, "≤ 9 ms")


def test_the_measured_cluster_is_full_and_stays_so() -> None:
    cluster = Cluster(10)
    assert 0.85 < cluster.used_mib / cluster.total_mib <= 0.9
    for limits in (*SHAPES, *SHAPES, *SHAPES):
        id_, outcome = cluster.ask(ask_for(limits))
        assert isinstance(outcome, Placement | NoRoom)
        cluster.keep(id_, outcome)
        cluster.churn()
    assert 0.8 < cluster.used_mib / cluster.total_mib <= 0.9
    assert cluster.engine.state.reservations == {}
    used = sum(card.used_mib for node in cluster.engine.state.fleet.nodes.values() for card in node.by_index)
    assert used == cluster.used_mib
