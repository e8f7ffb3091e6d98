"""How much of a target workload a card can serve, as tables filled when they are asked.

The *use* of a card is its free part, in thousandths, times the weight of all tasks that fit on it as it is.
Whether a task fits depends on the free CPU and memory of the host as well, but only on how many of the
tasks' sizes they reach: that is the *host rank*, and there is one table for each. A *cell* is a state of a
card that no task tells from another: its kind, how many of the tasks' sizes it reaches, and whether it
holds nothing at all.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sublet.model.card import Card
from sublet.model.ids import CardId
from sublet_scheduler.core.kinds import Kind
from sublet_scheduler.core.scoring.workload import Task

Target = Sequence[tuple[Task, float]]

_CORE = 16
_KIND = 32
_MOST_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class _Sized:
    """A task as one kind of card sees it."""

    weight: float
    cards: int
    whole: bool
    core_percent: int
    memory_mib: int
    cpu_rank: int
    host_rank: int


class KindTable:
    """What the tasks are on cards of one kind. `number` tells it from the others."""

    def __init__(self, kind: Kind, number: int, tasks: Sequence[_Sized]) -> None:
        self.memory_mib = kind[2]
        self.number = number
        self.tasks = tasks
        self._sizes_mib = sorted({one.memory_mib for one in tasks if not one.whole})
        cores = sorted({one.core_percent for one in tasks if not one.whole})
        self._core_rank = [bisect_right(cores, free) for free in range(101)]
        self._cores = cores

    def cell(self, free_core: int, free_mib: int, *, unused: bool) -> int:
        core = self._core_rank[free_core] if 0 <= free_core <= 100 else bisect_right(self._cores, free_core)
        return self.number << _KIND | core << _CORE | bisect_right(self._sizes_mib, free_mib) << 1 | unused

    def weight(self, cell: int, cpu_rank: int, host_rank: int) -> float:
        """Of all tasks for one card that fit into the cell."""
        core = (cell >> _CORE) & 0xFFFF
        memory, unused = (cell & 0xFFFF) >> 1, cell & 1
        least_core = self._cores[core - 1] if core else -1
        least_mib = self._sizes_mib[memory - 1] if memory else -1
        return sum(
            one.weight
            for one in self.tasks
            if one.cpu_rank < cpu_rank
            and one.host_rank < host_rank
            and (
                unused and one.cards == 1
                if one.whole
                else one.core_percent <= least_core and one.memory_mib <= least_mib
            )
        )

    def sets(self, idle: int, cpu_rank: int, host_rank: int) -> float:
        """Of all tasks for several whole cards that find so many."""
        return sum(
            one.weight
            for one in self.tasks
            if one.whole and 1 < one.cards <= idle and one.cpu_rank < cpu_rank and one.host_rank < host_rank
        )


class Row(dict[int, float]):
    """The weights of all cells at one host rank; -1 - (kind << 8 | idle) is that of `idle` whole cards."""

    def __init__(self, kinds: Sequence[KindTable], cpu_rank: int, host_rank: int) -> None:
        self._kinds = kinds
        self.ranks = (cpu_rank, host_rank)

    def __missing__(self, cell: int) -> float:
        if cell < 0:
            number, idle = divmod(-1 - cell, 256)
            weight = self._kinds[number].sets(idle, *self.ranks)
        else:
            weight = self._kinds[cell >> _KIND].weight(cell, *self.ranks)
        self[cell] = weight
        return weight


def idle_cell(kind: int, idle: int) -> int:
    return -1 - (kind << 8 | idle)


class Tables:
    """All that scores need of a target workload, for a fleet with `cards` of each kind."""

    def __init__(self, target: Target, cards: Mapping[Kind, int]) -> None:
        self._target = target
        self._cpus = sorted({task.cpu_milli for task, _ in target})
        self._memories = sorted({task.memory_mib for task, _ in target})
        self._kinds: dict[Kind, KindTable] = {}
        self._numbered: list[KindTable] = []
        self._rows: dict[tuple[int, int], Row] = {}
        self.counted = cards
        for kind in sorted(cards, key=repr):
            self.kind(kind)
        self.price = _prices(target, cards)
        """Part of a kind's cards that tasks bound to it are expected to ask for."""
        self.cpu_per_use, self.memory_per_use = _host_per_use(target, cards)

    def kind(self, kind: Kind) -> KindTable:
        table = self._kinds.get(kind)
        if table is None:
            tasks = [self._sized(task, weight, kind) for task, weight in self._target if accepts(task, kind)]
            table = KindTable(kind, len(self._numbered), tasks)
            self._kinds[kind] = table
            self._numbered.append(table)
        return table

    def row(self, cpu_milli: int, memory_mib: int) -> Row:
        """For hosts with so much free."""
        ranks = (bisect_right(self._cpus, cpu_milli), bisect_right(self._memories, memory_mib))
        row = self._rows.get(ranks)
        if row is None:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            row = self._rows[ranks] = Row(self._numbered, *ranks)
        return row

    def _sized(self, task: Task, weight: float, kind: Kind) -> _Sized:
        load = task.load
        card = _card(kind)
        return _Sized(
            weight,
            load.cards,
            load.exclusive,
            load.core_percent,
            load.of_card(card),
            bisect_right(self._cpus, task.cpu_milli) - 1,
            bisect_right(self._memories, task.memory_mib) - 1,
        )


def accepts(task: Task, kind: Kind) -> bool:
    vendor, model, memory_mib, profile = kind
    if task.load.vendors and task.load.vendors != {vendor}:
        return False
    if memory_mib is None and not task.load.exclusive:
        return False
    if task.card_models and not any(part in model for part in task.card_models):
        return False
    return task.load.profiles == {profile} and not any(part in model for part in task.exclude_card_models)


def use_of(load_core: int, load_mib: int, memory_mib: int | None) -> float:
    """Thousandths of a card: half its compute, half its memory."""
    return 5.0 * load_core + (500.0 * load_mib / memory_mib if memory_mib else 0.0)


def _demand(task: Task, kind: Kind) -> float:
    load = task.load
    if load.exclusive:
        return 1_000.0 * load.cards
    return load.cards * use_of(load.core_percent, load.of_card(_card(kind)), kind[2])


def _prices(target: Target, cards: Mapping[Kind, int]) -> dict[Kind, float]:
    bound = dict.fromkeys(cards, 0.0)
    total = 0.0
    for task, weight in target:
        where = [kind for kind in sorted(cards, key=repr) if accepts(task, kind)]
        room = sum(cards[kind] for kind in where)
        for kind in where:
            asked = weight * _demand(task, kind) * cards[kind] / room
            total += asked
            if task.bound:
                bound[kind] += asked
    full = sum(cards.values())
    return {kind: min(1.0, bound[kind] / total * full / cards[kind]) for kind in cards if total}


def _host_per_use(target: Target, cards: Mapping[Kind, int]) -> tuple[float, float]:
    """CPU and memory of the host that tasks ask for with each thousandth of a card."""
    cpu = memory = asked = 0.0
    for task, weight in target:
        kind = next((kind for kind in sorted(cards, key=repr) if accepts(task, kind)), None)
        if kind:
            cpu += weight * task.cpu_milli
            memory += weight * task.memory_mib
            asked += weight * _demand(task, kind)
    return (cpu / asked, memory / asked) if asked else (0.0, 0.0)


def _card(kind: Kind) -> Card:
    return Card(id=CardId(""), index=0, memory_mib=kind[2])
