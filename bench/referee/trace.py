"""The openb trace of a production GPU cluster: its nodes, its pods, and workloads made from them.

CPU in thousandths of a core, memory of the host in MiB; a card is 1,000 thousandths.
"""

import csv
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CARD = 1_000
SOURCE = "github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023/csv"
NODES = "openb_node_list_gpu_node.csv"


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    cpu_milli: int
    mem_mib: int
    cards: int
    model: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod asks for; `gpu_milli` is per card, no models means any."""

    cpu_milli: int
    mem_mib: int
    num_gpu: int
    gpu_milli: int
    models: tuple[str, ...] = ()

    @property
    def demand(self) -> int:
        return self.num_gpu * self.gpu_milli


@dataclass(frozen=True, slots=True)
class Pod:
    id: str
    shape: Shape


Target = Sequence[tuple[Shape, float]]
"""Shapes and how often each comes; the weights sum to 1."""


def load_nodes(traces: Path) -> list[Node]:
    with _open(traces, NODES).open() as file:
        return [
            Node(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]


def load_shapes(traces: Path, workload: str) -> list[Shape]:
    """All pods of one trace, in the order of the file."""
    shapes = []
    with _open(traces, f"openb_pod_list_{workload}.csv").open() as file:
        for row in csv.DictReader(file):
            cards = int(row["num_gpu"])
            models = tuple(one for one in (row.get("gpu_spec") or "").split("|") if one)
            milli = min(int(row["gpu_milli"]), CARD) if cards else 0
            shapes.append(
                Shape(int(row["cpu_milli"]), int(row["memory_mib"]), cards, milli, models if cards else ())
            )
    return shapes


def _open(traces: Path, file: str) -> Path:
    if not (traces / file).exists():
        raise SystemExit(f"{traces} has no {file}; the trace is published in {SOURCE}")
    return traces / file


def history(shapes: Sequence[Shape], share: float = 0.95) -> Target:
    """The most frequent shapes, memory left out, that together make up `share` of all pods."""
    count = Counter(Shape(one.cpu_milli, 0, one.num_gpu, one.gpu_milli, one.models) for one in shapes)
    top: list[tuple[Shape, int]] = []
    seen = 0
    for shape, times in sorted(count.items(), key=_most_frequent_first):
        if seen >= share * len(shapes):
            break
        top.append((shape, times))
        seen += times
    return [(shape, times / seen) for shape, times in top]


def _most_frequent_first(counted: tuple[Shape, int]) -> tuple[object, ...]:
    shape, times = counted
    return (-times, shape.cpu_milli, shape.gpu_milli, shape.num_gpu, shape.models)


def inflate(shapes: Sequence[Shape], capacity: int, ratio: float, seed: int) -> list[Pod]:
    """A random permutation of the trace, then pods drawn from it, until they ask for ratio × capacity."""
    draw = random.Random(seed)
    order = list(shapes)
    draw.shuffle(order)
    pods: list[Shape] = []
    total = 0
    for shape in order:
        if total + shape.demand > ratio * capacity:
            break
        pods.append(shape)
        total += shape.demand
    else:
        while total + (shape := draw.choice(shapes)).demand <= ratio * capacity:
            pods.append(shape)
            total += shape.demand
    return [Pod(f"pod-{at}", shape) for at, shape in enumerate(pods)]
