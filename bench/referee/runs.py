"""The two experiments: an empty cluster is filled; a full one sees pods come and go."""

import heapq
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from bench.referee.ledger import Ledger, fragmentation
from bench.referee.trace import Node, Pod, Shape, Target


class Policy(Protocol):
    def place(self, pod: Pod) -> tuple[str, tuple[int, ...]] | None: ...

    def release(self, pod_id: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """`allocated` is the mean part of all cards in use, in percent, over the arrivals whose demand rounds to
    so many percent of the cards."""

    allocated: dict[int, float]
    fragmented_percent: float
    refused_though_feasible: int
    times_us: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    mean_allocated: float
    placed_share: float
    times_us: Sequence[float]


def run_fill(nodes: Sequence[Node], pods: Sequence[Pod], policy: Policy, target: Target) -> Fill:
    """No pod ever leaves, and a pod that does not fit is dropped (the inflation of Weng et al., 2023)."""
    ledger, times_us, arrived, refused = Ledger(nodes), list[float](), 0, 0
    curve: dict[int, list[float]] = {}
    for pod in pods:
        arrived += pod.shape.demand
        if not _ask(policy, ledger, pod, times_us):
            refused += any(ledger.fits(node.name, pod.shape) for node in nodes)
        at = round(100 * arrived / ledger.capacity)
        curve.setdefault(at, []).append(100 * ledger.used / ledger.capacity)
    return Fill(
        allocated={at: fmean(shares) for at, shares in curve.items()},
        fragmented_percent=100 * fragmentation(ledger, target) / ledger.capacity,
        refused_though_feasible=refused,
        times_us=times_us,
    )


def run_churn(
    nodes: Sequence[Node],
    shapes: Sequence[Shape],
    policy: Policy,
    seed: int,
    *,
    load: float = 1.05,
    arrivals: int = 60_000,
) -> Churn:
    """Pods arrive at random and live for exponential times; the last third of the arrivals is measured."""
    draw, ledger, times_us = random.Random(seed), Ledger(nodes), list[float]()
    warm = arrivals * 2 // 3
    gap = sum(one.demand for one in shapes) / len(shapes) / (load * ledger.capacity)
    now = since = start = area = 0.0
    wanted = placed = 0
    leaving: list[tuple[float, str]] = []
    for at in range(arrivals):
        now += draw.expovariate(1 / gap)
        pod = Pod(f"pod-{at}", draw.choice(shapes))
        life = draw.expovariate(1.0)
        while leaving and leaving[0][0] <= now:
            ended, pod_id = heapq.heappop(leaving)
            if at > warm:
                area, since = area + ledger.used * (ended - since), ended
            ledger.give(pod_id)
            policy.release(pod_id)
        if at > warm:
            area, since = area + ledger.used * (now - since), now
        elif at == warm:
            since = start = now
        done = _ask(policy, ledger, pod, times_us)
        if done:
            heapq.heappush(leaving, (now + life, pod.id))
        if at > warm:
            wanted, placed = wanted + pod.shape.demand, placed + done * pod.shape.demand
    return Churn(
        mean_allocated=100 * area / (now - start) / ledger.capacity,
        placed_share=100 * placed / wanted,
        times_us=times_us,
    )


def _ask(policy: Policy, ledger: Ledger, pod: Pod, times_us: list[float]) -> bool:
    begun = time.thread_time_ns()
    found = policy.place(pod)
    times_us.append((time.thread_time_ns() - begun) / 1_000)
    if found is None:
        return False
    ledger.take(pod, found[0], tuple(found[1]))
    return True
