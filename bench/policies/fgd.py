"""Fragmentation gradient descent as its authors run it (Weng et al., USENIX ATC 2023).

The score is the whole part of 100 × sigmoid of the fall of fragmentation in cards; ties go to one random
order. Written as the loss of what a node can serve, which is the same and a sum over cards.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import exp

from bench.policies.scan import Books, Scan
from bench.referee.trace import CARD, Node, Shape, Target


class Gradient:
    def __init__(self, target: Target) -> None:
        self._tasks = [(shape, weight) for shape, weight in target if shape.num_gpu]
        self._cpus = sorted({shape.cpu_milli for shape, _ in self._tasks})
        self._one: dict[tuple[str, int], list[float]] = {}
        self._sets: dict[tuple[str, int], list[float]] = {}

    def use(self, model: str, cpu: int, free: Sequence[int]) -> float:
        """Expected thousandths that a task drawn from the target can use."""
        key = (model, bisect_right(self._cpus, cpu))
        if key not in self._one:
            self._fill(key)
        one = self._one[key]
        return sum(one[part] for part in free) + self._sets[key][sum(part == CARD for part in free)]

    def best(self, books: Books, shape: Shape) -> tuple[float, int]:
        """The least loss on the node, and the free part of the card that has it."""
        model, cpu = books.node.model, books.cpu - shape.cpu_milli
        before = self.use(model, books.cpu, books.free)
        if shape.num_gpu != 1 or shape.gpu_milli == CARD:
            left = shape.num_gpu
            after = []
            for free in books.free:
                taken = left > 0 and free == CARD
                left -= taken
                after.append(0 if taken else free)
            return before - self.use(model, cpu, after), CARD
        found = []
        for free in {one for one in books.free if one >= shape.gpu_milli}:
            after = list(books.free)
            after[after.index(free)] -= shape.gpu_milli
            found.append((before - self.use(model, cpu, after), free))
        return min(found)

    def _fill(self, key: tuple[str, int]) -> None:
        model, rank = key
        fitting = [
            (shape, weight)
            for shape, weight in self._tasks
            if bisect_right(self._cpus, shape.cpu_milli) <= rank
            and (not shape.models or model in shape.models)
        ]
        one = [0.0] * (CARD + 1)
        sets = [0.0] * 17
        for shape, weight in fitting:
            if shape.num_gpu == 1:
                for free in range(shape.gpu_milli, CARD + 1):
                    one[free] += weight * free
            else:
                for idle in range(shape.num_gpu, 17):
                    sets[idle] += weight * idle * CARD
        self._one[key], self._sets[key] = one, sets


class _Fgd(Scan):
    def __init__(self, nodes: Sequence[Node], target: Target, seed: int) -> None:
        self._gradient = Gradient(target)
        self._chosen: dict[int, float] = {}
        super().__init__(nodes, seed, self._rank, card=self._preferred)
        self._best_free = CARD
        self._least: tuple[float, ...] = ()

    def _rank(self, books: Books, shape: Shape) -> tuple[float, ...]:
        loss, free = self._gradient.best(books, shape)
        gained = (shape.demand - loss) / CARD - shape.demand / CARD
        rank = (-int(100 / (1 + exp(-gained))),)
        if not self._least or rank < self._least:
            self._least, self._best_free = rank, free
        return rank

    def _preferred(self, free: int) -> float:
        """Called once a node was chosen."""
        self._least = ()
        return abs(free - self._best_free)


def fgd(nodes: Sequence[Node], target: Target, seed: int) -> Scan:
    return _Fgd(nodes, target, seed)
