"""A small cluster and its pods, drawn from a seed: for tests, where the real trace is not at hand.

The mix is that of the trace in coarse strokes: most nodes have many cards and little CPU, a third of the pods
ask for a part of a card, half for a whole one, some for several or none, some for a certain model.
"""

import random
from collections.abc import Sequence

from bench.referee.trace import CARD, Node, Shape

_NODES = ((96_000, 8, "G2"), (96_000, 2, "T4"), (64_000, 2, "P100"), (128_000, 8, "G3"))
_PARTS = (100, 250, 470, 500, 810)


def stand_in(seed: int, *, nodes: int = 200, pods: int = 1_000) -> tuple[Sequence[Node], Sequence[Shape]]:
    draw = random.Random(seed)
    return (
        [_node(draw, f"node-{at:03d}") for at in range(nodes)],
        [_shape(draw) for _ in range(pods)],
    )


def _node(draw: random.Random, name: str) -> Node:
    cpu_milli, cards, model = draw.choices(_NODES, (45, 32, 15, 8))[0]
    return Node(name, cpu_milli, cpu_milli * 4, cards, model)


def _shape(draw: random.Random) -> Shape:
    cpu_milli = draw.choice((1_000, 4_000, 6_000, 8_000, 12_000, 16_000))
    models = (draw.choice(("T4", "G3")),) if draw.random() < 0.1 else ()
    kind = draw.random()
    if kind < 0.13:
        return Shape(cpu_milli, cpu_milli * 2, 0, 0)
    if kind < 0.5:
        return Shape(cpu_milli, cpu_milli * 2, 1, draw.choice(_PARTS), models)
    cards = draw.choices((1, 2, 4, 8), (90, 4, 3, 3))[0]
    return Shape(cpu_milli * cards, cpu_milli * 2 * cards, cards, CARD, models if cards <= 2 else ())
