"""The referee's own account of what is in use, and what it refuses to believe."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.referee.trace import CARD, Node, Pod, Shape, Target


class BadPlacement(Exception):
    """The policy answered what cannot be."""


@dataclass
class Ledger:
    nodes: Sequence[Node]
    held: dict[str, tuple[str, tuple[int, ...], Shape]] = field(default_factory=dict)
    used: int = 0

    def __post_init__(self) -> None:
        self.cpu = {one.name: one.cpu_milli for one in self.nodes}
        self.mem = {one.name: one.mem_mib for one in self.nodes}
        self.free = {one.name: [CARD] * one.cards for one in self.nodes}
        self.model = {one.name: one.model for one in self.nodes}
        self.capacity = CARD * sum(one.cards for one in self.nodes)

    def fits(self, name: str, shape: Shape) -> bool:
        return (
            self.cpu[name] >= shape.cpu_milli
            and self.mem[name] >= shape.mem_mib
            and (not shape.models or self.model[name] in shape.models)
            and sum(free >= shape.gpu_milli for free in self.free[name]) >= shape.num_gpu
        )

    def take(self, pod: Pod, name: str, cards: tuple[int, ...]) -> None:
        shape = pod.shape
        if pod.id in self.held:
            raise BadPlacement(f"{pod.id} placed twice")
        if name not in self.free:
            raise BadPlacement(f"{pod.id}: no node {name}")
        if len(cards) != shape.num_gpu or len(set(cards)) != len(cards):
            raise BadPlacement(f"{pod.id}: wants {shape.num_gpu} distinct cards, got {cards}")
        free = self.free[name]
        if any(not 0 <= card < len(free) or free[card] < shape.gpu_milli for card in cards):
            raise BadPlacement(f"{pod.id}: cards {cards} of {name} lack {shape.gpu_milli} milli: {free}")
        if not self.fits(name, shape):
            raise BadPlacement(f"{pod.id}: {name} lacks CPU or memory, or is a {self.model[name]}")
        self._apply(name, cards, shape, -1)
        self.held[pod.id] = (name, cards, shape)

    def give(self, pod_id: str) -> None:
        name, cards, shape = self.held.pop(pod_id)
        self._apply(name, cards, shape, 1)

    def _apply(self, name: str, cards: Sequence[int], shape: Shape, sign: int) -> None:
        self.cpu[name] += sign * shape.cpu_milli
        self.mem[name] += sign * shape.mem_mib
        for card in cards:
            self.free[name][card] += sign * shape.gpu_milli
        self.used -= sign * shape.demand


def fragmentation(ledger: Ledger, target: Target) -> float:
    """Free thousandths that a task drawn from `target` cannot be expected to use, from the definition."""
    lost = 0.0
    for node in ledger.nodes:
        free = ledger.free[node.name]
        for shape, weight in target:
            usable = 0
            if shape.num_gpu and ledger.fits(node.name, shape):
                usable = sum(one for one in free if one >= shape.gpu_milli)
            lost += weight * (sum(free) - usable)
    return lost
