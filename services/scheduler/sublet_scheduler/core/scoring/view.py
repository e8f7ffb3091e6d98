"""One node as the policy `fragmentation` sees it, with what several shapes ask of it kept for the next.

Uses are in thousandths of a card, weighted by the target workload; see `tables`.
"""

from sublet_scheduler.core.assigning import Assigned
from sublet_scheduler.core.fleet import CardState, NodeState
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.scoring.tables import KindTable, Row, Sized, Tables, idle_cell

Lost = tuple[float, float, KindTable]
"""Use lost, the sum of what was taken included; what was taken; and of which kind of card."""


class NodeView:
    __slots__ = (
        "_best", "_cells", "_idle", "_parts", "_tables", "_used", "cpu_milli", "free", "memory_mib", "node",
        "stranded", "use", "version",
    )  # fmt: skip

    def __init__(self, node: NodeState, tables: Tables) -> None:
        self.node, self.version = node, node.version
        self._tables = tables
        facts = node.facts
        self.cpu_milli = (facts.cpu_milli if facts else 0) - node.cpu_milli
        self.memory_mib = (facts.memory_mib if facts else 0) - node.memory_mib
        self._cells: list[tuple[int, float]] = []
        self._parts: dict[int, tuple[KindTable, int, int, bool, int]] = {}
        """Cards that may be shared, by their state: kind, free core, free MiB, unused, how many."""
        self._idle: dict[int, tuple[KindTable, int]] = {}
        self._best: dict[int, Lost | None] = {}
        self._used: dict[int, float] = {}
        self.free = 0.0
        most_shares = node.shares_per_card
        kind, table = None, None
        for state in node.by_index:
            if not state.open or state.exclusive or state.shares >= most_shares:
                continue
            if table is None or state.kind is not kind:
                kind, table = state.kind, tables.kind(state.kind)
            self._take_in(state, table)
        self.use = self._use_at(tables.row(self.cpu_milli, self.memory_mib))
        self.stranded = tables.stranded(self.free, self.cpu_milli, self.memory_mib)

    def _take_in(self, state: CardState, table: KindTable) -> None:
        card = state.card
        total = table.memory_mib
        unused = not (state.shares or card.used_outside_mib)
        free_core = 100 - state.used_core
        free_mib = (total or 0) - state.used_mib - card.used_outside_mib
        if unused:
            before = self._idle.get(table.number)
            self._idle[table.number] = (table, before[1] + 1 if before else 1)
        elif total is None:
            return
        code, cell, use = table.state(free_core, free_mib, unused)
        self._cells.append((cell, use))
        self.free += use
        if total is not None:
            alike = self._parts.get(code)
            self._parts[code] = (table, free_core, free_mib, unused, alike[4] + 1 if alike else 1)

    def lost(self, row: Row, asked: Sized | None) -> Lost | None:
        """What one load costs on its best cards, where the host is left at `row`; None without room."""
        if asked is None:
            return self.use - self._use_at(row), 0.0, self._tables.no_kind
        key = row.number << 20 | asked.number
        try:
            return self._best[key]
        except KeyError:
            found = self._best[key] = self._whole(row, asked) if asked.exclusive else self._part(row, asked)
            return found

    def lost_with(self, row: Row, assigned: Assigned) -> Lost:
        """What a pod costs with its loads on the cards that were chosen."""
        lost, taken, first = self.use - self._use_at(row), 0.0, self._tables.no_kind
        for load, states in zip(assigned.loads, assigned.seats, strict=True):
            asked = self._tables.sized(load)
            for state in states:
                first = self._tables.kind(state.kind)
                fall, took = self._on(row, asked, state, first)
                lost, taken = lost + fall, taken + took
        return lost, taken, first

    def fall(self, row: Row, load: Load, state: CardState) -> float:
        """What one card costs."""
        return self._on(row, self._tables.sized(load), state, self._tables.kind(state.kind))[0]

    def _on(self, row: Row, asked: Sized, state: CardState, table: KindTable) -> tuple[float, float]:
        if asked.exclusive:
            return 1_000.0 * row[table.unused_cell], 1_000.0
        return self._fall(row, asked, table, state.free_core, state.free_mib, state.unused), asked.use(table)

    def _use_at(self, row: Row) -> float:
        try:
            return self._used[row.number]
        except KeyError:
            use = 0.0
            for cell, free in self._cells:
                use += row[cell] * free
            for number, (_, idle) in self._idle.items():
                use += row[idle_cell(number, idle)] * idle * 1_000.0
            self._used[row.number] = use
            return use

    def _whole(self, row: Row, asked: Sized) -> Lost | None:
        lost, taken, wanted = self.use - self._use_at(row), 0.0, asked.cards
        for table, idle in sorted(self._idle.values(), key=lambda one: row[one[0].unused_cell]):
            some = min(wanted, idle)
            lost += some * 1_000.0 * row[table.unused_cell] + _fewer_idle(row, table.number, idle, some)
            taken, wanted = taken + 1_000.0 * some, wanted - some
            if not wanted:
                return lost, taken, table
        return None

    def _part(self, row: Row, asked: Sized) -> Lost | None:
        core, kept, size, wanted = asked.core_percent, row.falls, asked.number, asked.cards
        mib, sized_for = 0, None
        least, on = 0.0, None
        found: list[tuple[float, KindTable, int]] = []
        for code, (table, free_core, free_mib, unused, count) in self._parts.items():
            if core > free_core:
                continue
            if table is not sized_for:
                mib, sized_for = asked.mib(table), table
            if mib > free_mib:
                continue
            fall = None if unused else kept.get(code << 20 | size)
            if fall is None:
                fall = self._fall(row, asked, table, free_core, free_mib, unused)
                if not unused:
                    kept[code << 20 | size] = fall
            if wanted > 1:
                found.append((fall, table, count))
            elif on is None or fall < least:
                least, on = fall, table
        moved = self.use - self._use_at(row)
        if on is not None:
            return moved + least, asked.use(on), on
        return _several(sorted(found, key=_by_fall), asked, moved)

    def _fall(
        self, row: Row, asked: Sized, table: KindTable, free_core: int, free_mib: int, unused: bool
    ) -> float:
        """Of the use of one card when a part of it is taken."""
        _, cell, use = table.state(free_core, free_mib, unused)
        _, left, left_use = table.state(free_core - asked.core_percent, free_mib - asked.mib(table), False)
        fall = row[cell] * use - row[left] * left_use
        if unused and table.number in self._idle:
            fall += _fewer_idle(row, table.number, self._idle[table.number][1], 1)
        return fall


def _by_fall(found: tuple[float, KindTable, int]) -> float:
    return found[0]


def _several(found: list[tuple[float, KindTable, int]], asked: Sized, lost: float) -> Lost | None:
    """The cheapest cards, as if each were taken alone."""
    wanted, taken = asked.cards, 0.0
    for fall, table, count in found:
        some = min(wanted, count)
        lost, taken, wanted = lost + some * fall, taken + some * asked.use(table), wanted - some
        if not wanted:
            return lost, taken, table
    return None


def _fewer_idle(row: Row, kind: int, idle: int, taken: int) -> float:
    left = idle - taken
    before = row[idle_cell(kind, idle)] * idle
    return 1_000.0 * (before - (row[idle_cell(kind, left)] * left if left else 0.0))
