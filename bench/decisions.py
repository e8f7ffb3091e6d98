"""CPU time of one decision of the engine on a nearly full cluster where pods come and go."""

import gc
from time import thread_time_ns

from bench.cluster import CARDS_A_NODE, SHAPES, Cluster, ask_for
from bench.figure import Figure, percentile, spread
from sublet.contract import keys
from sublet.model.claim import PodAsk
from sublet.model.ids import DecisionId
from sublet.model.placement import NoRoom, Placement

SIZES = (100, 1_000, 5_000)
DECISIONS = 3_000
AIM = "≤ 1,000 µs at 5,000 × 8"
TOO_LARGE: dict[str, object] = {keys.GPU: "8", keys.GPU_MEMORY: "81920"}


def measure() -> list[Figure]:
    return [figure for nodes in SIZES for figure in _on(nodes)]


def _on(nodes: int) -> list[Figure]:
    cluster = Cluster(nodes)
    asks = [ask_for(limits) for limits in SHAPES]
    first = [_timed(cluster, ask)[0] for ask in asks]
    gc.collect()
    gc.freeze()  # what a long-lived scheduler has kept is not looked at again and again
    placed: list[float] = []
    for _ in range(DECISIONS):
        took_us, (id_, outcome) = _timed(cluster, cluster.draw.choice(asks))
        if isinstance(outcome, Placement):
            placed.append(took_us)
        cluster.keep(id_, outcome)
        cluster.churn()
    held = [_timed(cluster, ask_for(TOO_LARGE)) for _ in range(20)]
    assert all(isinstance(outcome, NoRoom) for _, (_, outcome) in held)
    gc.unfreeze()
    where = f"{nodes:,} nodes × {CARDS_A_NODE} cards"
    return [
        *spread(f"decision, {where}", placed, "µs CPU", aim=AIM if nodes == max(SIZES) else ""),
        _median_ms(f"first pod of a new shape, {where}", first),
        _median_ms(f"a pod that no node can take, {where}", [took_us for took_us, _ in held]),
    ]


def _median_ms(what: str, samples_us: list[float]) -> Figure:
    return Figure(what=what, value=percentile(samples_us, 50) / 1000, unit="ms CPU")


def _timed(cluster: Cluster, ask: PodAsk) -> tuple[float, tuple[DecisionId, Placement | NoRoom]]:
    since = thread_time_ns()
    result = cluster.ask(ask)
    return (thread_time_ns() - since) / 1000, result
