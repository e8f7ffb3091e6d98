"""Policies that look at every node for every pod, made anew from what their authors publish.

Each keeps its own books; a policy says how good a node is (the least is taken) and which card. Ties go to
one random order of the nodes, drawn once for each seed, or to chance at every decision.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.referee.trace import CARD, Node, Pod, Shape, Target


@dataclass(slots=True)
class Books:
    """One node as a policy knows it."""

    node: Node
    cpu: int
    mem: int
    free: list[int]

    def fits(self, shape: Shape) -> bool:
        return (
            self.cpu >= shape.cpu_milli
            and self.mem >= shape.mem_mib
            and (not shape.models or self.node.model in shape.models)
            and sum(one >= shape.gpu_milli for one in self.free) >= shape.num_gpu
        )


Score = Callable[[Books, Shape], tuple[float, ...]]
"""Of a node that fits; less is better."""
CardKey = Callable[[int], float]
"""Of a card's free thousandths; less is better."""


def tightest(free: int) -> float:
    return free


def emptiest(free: int) -> float:
    return -free


class Scan:
    def __init__(
        self,
        nodes: Sequence[Node],
        seed: int,
        score: Score,
        *,
        card: CardKey = tightest,
        chance: bool = False,
        whole: bool = False,
    ) -> None:
        self._draw = random.Random(seed)
        self._books = [Books(one, one.cpu_milli, one.mem_mib, [CARD] * one.cards) for one in nodes]
        self._draw.shuffle(self._books)
        self._score, self._card = score, card
        self._chance, self._whole = chance, whole
        self._held: dict[str, tuple[Books, tuple[int, ...], Shape]] = {}

    def place(self, pod: Pod) -> tuple[str, tuple[int, ...]] | None:
        asked = pod.shape
        if self._whole and asked.num_gpu:  # cards cannot be shared: a part takes all of one
            asked = Shape(asked.cpu_milli, asked.mem_mib, asked.num_gpu, CARD, asked.models)
        best: list[Books] = []
        least: tuple[float, ...] | None = None
        for books in self._books:
            if books.fits(asked):
                score = self._score(books, asked)
                if least is None or score < least:
                    least, best = score, [books]
                elif score == least and self._chance:
                    best.append(books)
        if not best:
            return None
        chosen = self._draw.choice(best) if self._chance else best[0]
        fitting = [at for at, free in enumerate(chosen.free) if free >= asked.gpu_milli]
        cards = tuple(sorted(fitting, key=lambda at: (self._card(chosen.free[at]), at))[: asked.num_gpu])
        self._move(chosen, cards, asked, -1)
        self._held[pod.id] = (chosen, cards, asked)
        return chosen.node.name, cards

    def release(self, pod_id: str) -> None:
        self._move(*self._held.pop(pod_id), 1)

    @staticmethod
    def _move(books: Books, cards: Sequence[int], shape: Shape, sign: int) -> None:
        books.cpu += sign * shape.cpu_milli
        books.mem += sign * shape.mem_mib
        for at in cards:
            books.free[at] += sign * shape.gpu_milli


def first_fit(nodes: Sequence[Node], _: Target, seed: int) -> Scan:
    """The first node with room in one random order."""
    return Scan(nodes, seed, lambda _books, _shape: ())


def chance(nodes: Sequence[Node], _: Target, seed: int) -> Scan:
    """Any node with room, and any card."""
    draw = random.Random(seed + 1)
    return Scan(nodes, seed, lambda _books, _shape: (), card=lambda _: draw.random(), chance=True)


def best_fit(nodes: Sequence[Node], _: Target, seed: int) -> Scan:
    """Least left of CPU and cards, weighed alike as parts of the largest node."""
    cpu, gpu = max(one.cpu_milli for one in nodes), CARD * max(one.cards for one in nodes)

    def left(books: Books, shape: Shape) -> tuple[float, ...]:
        return ((books.cpu - shape.cpu_milli) / cpu + (sum(books.free) - shape.demand) / gpu,)

    return Scan(nodes, seed, left)


def stock(nodes: Sequence[Node], _: Target, seed: int) -> Scan:
    """kube-scheduler with a device plugin: least allocated CPU and memory, ties to chance, whole cards."""
    return Scan(nodes, seed, _least_allocated, chance=True, whole=True)


def gpushare(nodes: Sequence[Node], _: Target, seed: int) -> Scan:
    """gpushare-scheduler-extender: kube-scheduler chooses the node, on it the fullest card that fits."""
    return Scan(nodes, seed, _least_allocated, chance=True)


def hami(nodes: Sequence[Node], _: Target, seed: int) -> Scan:
    """HAMi's defaults: the fullest node, on it the emptiest card."""

    def emptiness(books: Books, shape: Shape) -> tuple[float, ...]:
        return ((sum(books.free) - shape.demand) / max(1, len(books.free)),)

    return Scan(nodes, seed, emptiness, card=emptiest)


def kai(nodes: Sequence[Node], _: Target, seed: int) -> Scan:
    """Like KAI-Scheduler's bin-packing: shared cards are filled first, then the node with the least free."""
    return Scan(nodes, seed, lambda books, shape: (not _fills_shared(books, shape), float(sum(books.free))))


def _fills_shared(books: Books, shape: Shape) -> bool:
    return shape.num_gpu > 0 and any(shape.gpu_milli <= free < CARD for free in books.free)


def _least_allocated(books: Books, shape: Shape) -> tuple[float, ...]:
    cpu = (books.cpu - shape.cpu_milli) / books.node.cpu_milli
    mem = (books.mem - shape.mem_mib) / books.node.mem_mib
    return (-int(100 * (cpu + mem) / 2),)
