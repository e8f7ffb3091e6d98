"""The target workload: what pods are expected to ask for, learned from those that were seen.

Every observation weighs a little more than the one before, so that old ones fade; the number of tasks is
bounded. It depends on nothing but the observations and their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sublet.model.claim import Claim, ContainerKind, PodAsk
from sublet.model.ids import PodRef
from sublet_scheduler.core.need import Load, loads_of

WINDOW = 10_000
"""About so many observations count; a workload that is given counts as half of that."""
MOST_TASKS = 512
"""Tasks that are remembered; the lightest are forgotten first."""
MOST_IN_TARGET = 256
_MATERIAL = 0.05
"""A target that moved by less than this part of its weight is not worth new scores."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one load of a pod asks of a card, and its pod of the host. CPU in thousandths of a core."""

    load: Load
    cpu_milli: int
    memory_mib: float
    """The mean of the pods that are alike otherwise."""
    card_models: tuple[str, ...]
    exclude_card_models: tuple[str, ...]

    @property
    def bound(self) -> bool:
        """It may not take any card."""
        return bool(self.card_models or self.exclude_card_models)


Key = tuple[object, ...]


def _guessed(**amounts: Any) -> PodAsk:
    claim = Claim(container="", kind=ContainerKind.MAIN, dialect="", **amounts)
    return PodAsk(pod=PodRef("", ""), claims=(claim,))


FIRST_GUESS = (
    (_guessed(exclusive=True), 4.0),
    *((_guessed(memory_percent=Fraction(part), core_percent=part), 2.0) for part in (50, 25, 12)),
)
"""Until more is known: whole cards and parts of all sizes. It weighs as little as so many pods."""


@dataclass(slots=True)
class Seen:
    """How often a task was asked for. The mean of the host's memory belongs to the task as it is told."""

    task: Task
    weight: float = 0.0
    memory_mib: float = 0.0
    """Sum over what was seen."""

    def told(self) -> Task:
        return replace(self.task, memory_mib=self.memory_mib / self.weight)


class Workload:
    """`expected` are pods and how often each comes; where nothing is expected a first guess serves."""

    def __init__(self, expected: Sequence[tuple[PodAsk, float]] = ()) -> None:
        self._tasks: dict[Key, Seen] = {}
        self._weight = 1.0
        """Of the next observation."""
        self._since = 0.0
        """Weight of what came since the target was taken last."""
        self._target: dict[Key, float] = {}
        known = [(ask, weight) for ask, weight in expected if ask.claims]
        scale = WINDOW / 2 / sum(weight for _, weight in known) if known else 1.0
        for ask, weight in known or FIRST_GUESS:
            self._add(ask, loads_of(ask), scale * weight)

    def observe(self, ask: PodAsk, loads: Sequence[Load]) -> None:
        """A pod that was not counted before asks for cards."""
        if not loads:
            return
        self._add(ask, loads, self._weight)
        self._weight *= 1 + 1 / WINDOW
        if self._weight > 1_000:
            self._rescale()

    @property
    def moved(self) -> bool:
        """Whether so much came since the last target that a new one may differ."""
        return self._since >= max(1.0, sum(self._target.values()) / 4)

    def target(self, *, afresh: bool) -> list[tuple[Task, float]] | None:
        """The heaviest tasks with weights that sum to 1; None where the last answer is still good, unless
        it is wanted `afresh`."""
        heaviest = sorted(self._tasks.items(), key=_heaviest_first)[:MOST_IN_TARGET]
        total = sum(seen.weight for _, seen in heaviest)
        before, self._since = self._target, 0.0
        then = sum(before.values())
        self._target = {key: seen.weight for key, seen in heaviest}
        if before and not afresh:
            keys = [*self._target, *(key for key in before if key not in self._target)]
            moved = sum(abs(self._target.get(k, 0.0) / total - before.get(k, 0.0) / then) for k in keys)
            if moved < _MATERIAL:
                self._target = before
                return None
        return [(seen.told(), seen.weight / total) for _, seen in heaviest]

    def _add(self, ask: PodAsk, loads: Sequence[Load], weight: float) -> None:
        for load in loads:
            key = _key(load, ask)
            seen = self._tasks.get(key)
            if seen is None:
                seen = self._tasks[key] = Seen(_task(load, ask))
            seen.weight += weight
            seen.memory_mib += weight * ask.memory_mib
            self._since += weight
        if len(self._tasks) > MOST_TASKS:
            self._tasks = dict(sorted(self._tasks.items(), key=_heaviest_first)[: MOST_TASKS * 3 // 4])

    def _rescale(self) -> None:
        scale, self._weight = 1 / self._weight, 1.0
        self._since *= scale
        for seen in self._tasks.values():
            seen.weight *= scale
            seen.memory_mib *= scale
        self._target = {key: weight * scale for key, weight in self._target.items()}


def _heaviest_first(known: tuple[Key, Seen]) -> float:
    return -known[1].weight


def _task(load: Load, ask: PodAsk) -> Task:
    wishes = ask.wishes
    return Task(load, ask.cpu_milli, ask.memory_mib, wishes.card_models, wishes.exclude_card_models)


def _key(load: Load, ask: PodAsk) -> Key:
    return (
        load.cards,
        load.exclusive,
        load.core_percent,
        load.memory_mib,
        load.parts,
        load.vendors,
        load.profiles,
        ask.cpu_milli,
        ask.wishes.card_models,
        ask.wishes.exclude_card_models,
    )
