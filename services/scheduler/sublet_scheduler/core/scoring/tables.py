"""How much of a target workload a card can serve, as tables filled when they are asked.

The *use* of a card is its free part, in thousandths, times the weight of all tasks that fit on it as it is.
Whether a task fits depends on the free CPU and memory of the host as well, but only on how many of the
tasks' sizes they reach: there is one *row* for each such rank. A *cell* is a state of a card that no task
tells from another: its kind, how many of the tasks' sizes it reaches, and whether it holds nothing at all.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sublet.model.card import Card
from sublet.model.ids import CardId
from sublet_scheduler.core.kinds import NO_KIND, Kind
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.scoring.workload import Task

Target = Sequence[tuple[Task, float]]

SLACK = 0.75
"""Part of the usual CPU and memory of the host for each card below which a card counts as stranded."""
_ROUNDED = 0.75
"""Memory of the host was rounded up to a power of two."""
_CORE_BITS, _KIND_BITS = 16, 32
_MOST_KEPT = 200_000


@dataclass(frozen=True, slots=True)
class _KindTask:
    """A task as one kind of card sees it."""

    weight: float
    cards: int
    whole: bool
    core_percent: int
    memory_mib: int
    cpu_rank: int
    host_rank: int


class KindTable:
    """What the tasks are on cards of one kind. `number` tells it from the others, `price` is the part of
    its cards that tasks bound to it are expected to ask for."""

    def __init__(self, kind: Kind, number: int, tasks: Sequence[_KindTask], price: float) -> None:
        self.memory_mib = kind[2]
        self.largest_mib = kind[2] or 0
        """Of one share."""
        self.card = _card(kind)
        self.whole_use = use_of(kind[5], kind[4], kind[2]) if kind[2] else 1_000.0
        """Of a card that holds nothing."""
        self.number = number
        self.price = price
        self._tasks = tasks
        self._sizes_mib = sorted({one.memory_mib for one in tasks if not one.whole})
        self._cores = sorted({one.core_percent for one in tasks if not one.whole})
        self._states: dict[int, tuple[int, int, float]] = {}
        self.unused_cell = self._cell(kind[5], kind[4], unused=True)

    def state(self, free_core: int, free_mib: int, unused: bool) -> tuple[int, int, float]:
        """A number for the state of a card, its cell, and what is free of it."""
        key = (free_mib << 12 | (free_core & 0x7FF)) << 1 | unused
        try:
            return self._states[key]
        except KeyError:
            if len(self._states) > _MOST_KEPT:
                self._states.clear()
            use = self.whole_use if unused else use_of(free_core, free_mib, self.memory_mib)
            found = (key << 8 | self.number, self._cell(free_core, free_mib, unused=unused), use)
            self._states[key] = found
            return found

    def _cell(self, free_core: int, free_mib: int, *, unused: bool) -> int:
        core, memory = bisect_right(self._cores, free_core), bisect_right(self._sizes_mib, free_mib)
        return self.number << _KIND_BITS | core << _CORE_BITS | memory << 1 | unused

    def weight(self, cell: int, cpu_rank: int, host_rank: int) -> float:
        """Of all tasks for one card that fit into the cell."""
        core = (cell >> _CORE_BITS) & 0xFFFF
        memory, unused = (cell & 0xFFFF) >> 1, cell & 1
        most_core = self._cores[core - 1] if core else -1
        most_mib = self._sizes_mib[memory - 1] if memory else -1
        return sum(
            one.weight
            for one in self._tasks
            if one.cpu_rank < cpu_rank
            and one.host_rank < host_rank
            and (
                unused and one.cards == 1
                if one.whole
                else one.core_percent <= most_core and one.memory_mib <= most_mib
            )
        )

    def sets(self, idle: int, cpu_rank: int, host_rank: int) -> float:
        """Of all tasks for several whole cards that find so many."""
        return sum(
            one.weight
            for one in self._tasks
            if one.whole and 1 < one.cards <= idle and one.cpu_rank < cpu_rank and one.host_rank < host_rank
        )


class Sized:
    """A load as every kind of card sees it; `number` tells it from loads of other sizes."""

    def __init__(self, load: Load, number: int) -> None:
        self.number = number
        self.cards, self.exclusive, self.core_percent = load.cards, load.exclusive, load.core_percent
        self.least_mib, self.by_card = load.memory_mib, load.by_card
        self._load = load
        self._mib: dict[int, int] = {}

    def mib(self, table: KindTable) -> int:
        if not self.by_card:
            return self.least_mib
        mib = self._mib.get(table.number)
        if mib is None:
            mib = self._mib[table.number] = self._load.of_card(table.card)
        return mib

    def use(self, table: KindTable) -> float:
        """What it takes of one card."""
        if self.exclusive:
            return table.whole_use
        return use_of(self.core_percent, self.mib(table), table.memory_mib)


class Row(dict[int, float]):
    """The weights of all cells at one rank of hosts; a negative cell stands for so many whole cards."""

    def __init__(self, kinds: Sequence[KindTable], number: int, ranks: tuple[int, int]) -> None:
        self.number = number
        self.falls: dict[int, float] = {}
        """By state of a card and size of a load, what of its use the card loses."""
        self._kinds = kinds
        self._ranks = ranks

    def __missing__(self, cell: int) -> float:
        if cell < 0:
            number, idle = divmod(-1 - cell, 256)
            weight = self._kinds[number].sets(idle, *self._ranks)
        else:
            weight = self._kinds[cell >> _KIND_BITS].weight(cell, *self._ranks)
        self[cell] = weight
        return weight


def idle_cell(kind: int, idle: int) -> int:
    return -1 - (kind << 8 | idle)


class Tables:
    """All that scores need of a target workload, for a fleet with so many `cards` of each kind."""

    def __init__(self, target: Target, cards: Mapping[Kind, int]) -> None:
        self.counted = cards
        self.target = target
        self._cpus = sorted({task.cpu_milli for task, _ in target})
        self._memories = sorted({task.memory_mib for task, _ in target})
        self._prices = _prices(target, cards)
        self._kinds: dict[Kind, KindTable] = {}
        self._numbered: list[KindTable] = []
        self._rows: dict[tuple[int, int], Row] = {}
        self._sizes: dict[object, Sized] = {}
        self.no_kind = self.kind(NO_KIND)
        cpu_per_use, memory_per_use = _host_per_use(target, cards)
        self._use_per_cpu = 1 / (SLACK * cpu_per_use) if cpu_per_use else None
        self._use_per_memory = 1 / (SLACK * memory_per_use) if memory_per_use else None

    def kind(self, kind: Kind) -> KindTable:
        table = self._kinds.get(kind)
        if table is None:
            tasks = [self._seen_by(kind, task, weight) for task, weight in self.target if accepts(task, kind)]
            table = KindTable(kind, len(self._numbered), tasks, self._prices.get(kind, 0.0))
            self._kinds[kind] = table
            self._numbered.append(table)
        return table

    def row(self, cpu_milli: int, memory_mib: int) -> Row:
        """For hosts with so much free."""
        ranks = (bisect_right(self._cpus, cpu_milli), bisect_right(self._memories, memory_mib))
        row = self._rows.get(ranks)
        if row is None:
            row = self._rows[ranks] = Row(self._numbered, len(self._rows), ranks)
        if len(row.falls) > _MOST_KEPT:
            row.falls.clear()
        return row

    def sized(self, load: Load) -> Sized:
        key = (load.cards, load.exclusive, load.core_percent, load.memory_mib, load.parts)
        sized = self._sizes.get(key)
        if sized is None:
            sized = self._sizes[key] = Sized(load, len(self._sizes))
        return sized

    def stranded(self, free: float, cpu_milli: int, memory_mib: int) -> float:
        """What of the free cards the host's CPU and memory do not reach for."""
        reached = free
        if self._use_per_cpu is not None and (by_cpu := cpu_milli * self._use_per_cpu) < reached:
            reached = by_cpu
        if self._use_per_memory is not None and (by_memory := memory_mib * self._use_per_memory) < reached:
            reached = by_memory
        return free - reached if reached > 0 else free

    def _seen_by(self, kind: Kind, task: Task, weight: float) -> _KindTask:
        load = task.load
        return _KindTask(
            weight,
            load.cards,
            load.exclusive,
            load.core_percent,
            load.of_card(_card(kind)),
            bisect_right(self._cpus, task.cpu_milli) - 1,
            bisect_right(self._memories, task.memory_mib) - 1,
        )


def accepts(task: Task, kind: Kind) -> bool:
    vendor, model, memory_mib, profile, *_ = kind
    if task.load.vendors and task.load.vendors != {vendor}:
        return False
    if memory_mib is None and not task.load.exclusive:
        return False
    if task.card_models and not any(part in model for part in task.card_models):
        return False
    return task.load.profiles == {profile} and not any(part in model for part in task.exclude_card_models)


def use_of(core_percent: int, memory_mib: int, of_mib: int | None) -> float:
    """Thousandths of a card: half for its compute, half for its memory."""
    return 5.0 * core_percent + (500.0 * memory_mib / of_mib if of_mib else 0.0)


def _demand(task: Task, kind: Kind) -> float:
    load = task.load
    if load.exclusive:
        return 1_000.0 * load.cards
    return load.cards * use_of(load.core_percent, load.of_card(_card(kind)), kind[2])


def _prices(target: Target, cards: Mapping[Kind, int]) -> dict[Kind, float]:
    kinds = sorted(cards, key=repr)
    bound = dict.fromkeys(kinds, 0.0)
    total = 0.0
    for task, weight in target:
        where = [kind for kind in kinds if accepts(task, kind)]
        room = sum(cards[kind] for kind in where)
        for kind in where:
            asked = weight * _demand(task, kind) * cards[kind] / room
            total += asked
            if task.bound:
                bound[kind] += asked
    full = sum(cards.values())
    return {kind: min(1.0, bound[kind] / total * full / cards[kind]) for kind in kinds if total}


def _host_per_use(target: Target, cards: Mapping[Kind, int]) -> tuple[float, float]:
    """CPU and memory of the host that tasks ask for with each thousandth of a card."""
    kinds = sorted(cards, key=repr)
    cpu = memory = asked = 0.0
    for task, weight in target:
        kind = next((kind for kind in kinds if accepts(task, kind)), None)
        if kind:
            cpu += weight * task.cpu_milli
            memory += weight * task.memory_mib * _ROUNDED
            asked += weight * _demand(task, kind)
    return (cpu / asked, memory / asked) if asked else (0.0, 0.0)


def _card(kind: Kind) -> Card:
    return Card(id=CardId(""), index=0, memory_mib=kind[2])
