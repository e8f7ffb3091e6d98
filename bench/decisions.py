"""CPU time of one decision of the engine on a nearly full cluster where pods come and go."""

import gc
from collections.abc import Sequence
from dataclasses import replace
from time import thread_time_ns

from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.events import PodSeen, Tick
from sublet_scheduler.core.facts import PodFacts

from bench.beginning import NOW
from bench.cluster import CARDS_A_NODE, SHAPES, ZONES, Cluster, ask_for
from bench.figure import Figure, percentile, spread
from sublet.contract import keys
from sublet.contract.decision import Decision
from sublet.model.claim import PodAsk
from sublet.model.ids import DecisionId, PodUid
from sublet.model.placement import NoRoom, Placement

SIZES = (100, 1_000, 5_000, 20_000)
DECISIONS = 3_000
WARM = 500
WAITING = 2_000
MANY_SHAPES, MANY_ON = 500, 5_000
MEDIAN_AIMS = {5_000: "≤ 100 µs"}
AIMS = {5_000: "≤ 1,000 µs", 20_000: "≤ 3,000 µs"}
TOO_LARGE: dict[str, object] = {keys.GPU: "8", keys.GPU_MEMORY: "81920"}


def measure() -> list[Figure]:
    return [*(figure for nodes in SIZES for figure in _on(nodes)), *_many_shapes(), *_long_queue()]


def _on(nodes: int) -> list[Figure]:
    cluster = Cluster(nodes)
    asks = [ask_for(limits) for limits in SHAPES]
    first = [_first_us(cluster, ask) for ask in asks]
    gc.collect()
    gc.freeze()  # what a long-lived scheduler has kept is not looked at again and again
    _churn(cluster, asks, WARM)
    placed = _churn(cluster, asks, DECISIONS)
    held = [_timed(cluster, ask_for(TOO_LARGE)) for _ in range(20)]
    assert all(isinstance(outcome, NoRoom) for _, (_, outcome) in held)
    gc.unfreeze()
    where = f"{nodes:,} nodes × {CARDS_A_NODE} cards"
    return [
        *spread(
            f"decision, {where}",
            placed,
            "µs CPU",
            aim=AIMS.get(nodes, ""),
            median_aim=MEDIAN_AIMS.get(nodes, ""),
        ),
        _median_ms(f"first pod of a new shape, {where}", first),
        _median_ms(f"a pod that no node can take, {where}", [took_us for took_us, _ in held]),
    ]


def _first_us(cluster: Cluster, ask: PodAsk) -> float:
    took_us, (id_, outcome) = _timed(cluster, ask)
    cluster.keep(id_, outcome)
    return took_us


def _many_shapes() -> list[Figure]:
    """Pods of far more shapes than a cluster has, each bound to one of many groups of nodes."""
    cluster = Cluster(MANY_ON)
    asks = []
    for at in range(MANY_SHAPES):
        asked = ask_for({keys.GPU_MEMORY: str(1_024 + 37 * at), keys.GPU_CORE: str(1 + at % 20)})
        wishes = replace(asked.wishes, node_selector={"zone": f"z{at % ZONES}"})
        asks.append(replace(asked, wishes=wishes))
    for ask in asks:
        cluster.keep(*cluster.ask(ask))
        cluster.churn()
    _churn(cluster, asks, 2 * MANY_SHAPES)
    gc.collect()
    gc.freeze()
    placed = _churn(cluster, asks, DECISIONS)
    gc.unfreeze()
    where = f"{MANY_ON:,} nodes × {CARDS_A_NODE} cards"
    return spread(f"decision, {MANY_SHAPES} shapes × {ZONES} groups of nodes, {where}", placed, "µs CPU")


def _churn(cluster: Cluster, asks: Sequence[PodAsk], decisions: int) -> list[float]:
    """What each decision took that placed a pod."""
    placed: list[float] = []
    for _ in range(decisions):
        took_us, (id_, outcome) = _timed(cluster, cluster.draw.choice(asks))
        if isinstance(outcome, Placement):
            placed.append(took_us)
        cluster.keep(id_, outcome)
        cluster.churn()
    return placed


def _median_ms(what: str, samples_us: list[float]) -> Figure:
    return Figure(what=what, value=percentile(samples_us, 50) / 1000, unit="ms CPU")


def _timed(cluster: Cluster, ask: PodAsk) -> tuple[float, tuple[DecisionId, Placement | NoRoom]]:
    since = thread_time_ns()
    result = cluster.ask(ask)
    return (thread_time_ns() - since) / 1000, result


def _long_queue() -> list[Figure]:
    """The first pass over many waiting pods, none of which was tried before: reviews come between slices."""
    cluster = Cluster(MANY_ON)
    engine = cluster.engine
    engine.state.passed_s = NOW  # no pass is due before all are there
    for at in range(WAITING):
        asked = ask_for(SHAPES[at % len(SHAPES)], f"p{at}")
        decision = Decision(id=DecisionId(f"d{at}"), uid=None, placement=None)
        seen = PodFacts(
            uid=PodUid(f"u{at}"), ref=asked.pod, version="1", ask=asked, gated=True, decision=decision,
            decision_text="{}", proposed=True, created_s=float(at),
        )  # fmt: skip
        engine.handle(PodSeen(seen), now=NOW)
    gc.collect()
    gc.freeze()
    slices = [_tick(engine)]
    while engine.passing:
        slices.append(_tick(engine))
    gc.unfreeze()
    what = f"first pass over {WAITING:,} waiting pods, {MANY_ON:,} nodes × {CARDS_A_NODE} cards"
    return [
        Figure(what=f"{what}, {len(slices)} slices together", value=sum(slices), unit="ms CPU"),
        Figure(what=f"{what}, longest slice", value=max(slices), unit="ms CPU", aim="≤ 50 ms"),
    ]


def _tick(engine: Engine) -> float:
    since = thread_time_ns()
    engine.handle(Tick(), now=NOW + 1)
    return (thread_time_ns() - since) / 1e6
