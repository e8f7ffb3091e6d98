"""One node as the policy `fragmentation` sees it, with what several shapes ask of it kept for the next.

Uses are in thousandths of a card, weighted by the target workload; see `tables`.
"""

from collections.abc import Iterator

from sublet_scheduler.core.assigning import Assigned
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.node import CardState, NodeState
from sublet_scheduler.core.scoring.tables import KindTable, Row, Sized, Tables, idle_cell

Lost = tuple[float, float, KindTable]
"""Use lost, the sum of what was taken included; what was taken; and of which kind of card."""


Part = tuple[int, int, int, bool, KindTable, int]
"""Cards in one state that may be shared: free MiB, free core, number of the state, unused, kind, how many."""


_SIZE_BITS, _IDLE_SHIFT = 20, 128


class NodeView:
    _cells: list[tuple[int, float]]
    _idle: dict[int, tuple[KindTable, int]]
    __slots__ = (
        "_best", "_cells", "_idle", "_parts", "_tables", "_used", "cpu_milli", "free", "memory_mib", "node",
        "rows", "stranded", "use", "version",
    )  # fmt: skip

    def __init__(self, node: NodeState, tables: Tables) -> None:
        self.node, self.version = node, node.version
        self._tables = tables
        facts = node.facts
        self.cpu_milli = (facts.cpu_milli if facts else 0) - node.cpu_milli
        self.memory_mib = (facts.memory_mib if facts else 0) - node.memory_mib
        self._cells, self._idle = [], {}
        self.rows: dict[tuple[int, int], Row] = {}
        """By the CPU and memory of the host that are taken."""
        self._best: dict[int, Lost | None] = {}
        self._used: dict[int, float] = {}
        parts = self._take_in(node, tables)
        self._parts = sorted(parts, key=_most_free_first) if len(parts) > 1 else parts
        self.free = sum([use for _, use in self._cells])
        self.use = self._use_at(tables.row(self.cpu_milli, self.memory_mib))
        self.stranded = tables.stranded(self.free, self.cpu_milli, self.memory_mib)

    def _take_in(self, node: NodeState, tables: Tables) -> list[Part]:
        parts: dict[int, Part] = {}
        most_shares = node.shares_per_card
        kind, table = None, tables.no_kind
        for state in node.by_index:
            if not state.open or state.exclusive or state.shares >= most_shares:
                continue
            if state.kind is not kind:
                kind, table = state.kind, tables.kind(state.kind)
            total = state.total_mib
            outside = state.card.used_outside_mib
            unused = not (state.shares or outside)
            if unused:
                self._idle[table.number] = (table, self._idle.get(table.number, (table, 0))[1] + 1)
            elif not total:
                continue
            free_core, free_mib = state.total_core - state.used_core, total - state.used_mib - outside
            if free_mib < 0 or free_core < 0:
                free_core, free_mib = max(0, free_core), max(0, free_mib)
            code, cell, use = table.state(free_core, free_mib, unused)
            self._cells.append((cell, use))
            if total:
                alike = parts.get(code)
                count = alike[5] + 1 if alike else 1
                parts[code] = (free_mib, free_core, code << _SIZE_BITS, unused, table, count)
        return [self._with_idle(one) if one[3] else one for one in parts.values()]

    def _with_idle(self, part: Part) -> Part:
        """What an idle card loses depends on how many there are."""
        free_mib, free_core, code, unused, table, count = part
        idle = self._idle[table.number][1]
        return (free_mib, free_core, code | idle << _IDLE_SHIFT, unused, table, count)

    def lost(self, row: Row, asked: Sized | None) -> Lost | None:
        """What one load costs on its best cards, where the host is left at `row`; None without room."""
        if asked is None:
            return self.use - self._use_at(row), 0.0, self._tables.no_kind
        key = row.number << _SIZE_BITS | asked.number
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
            return table.whole_use * row[table.unused_cell], table.whole_use
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
            lost += some * table.whole_use * row[table.unused_cell]
            lost += _fewer_idle(row, table.number, idle, some)
            taken, wanted = taken + table.whole_use * some, wanted - some
            if not wanted:
                return lost, taken, table
        return None

    def _part(self, row: Row, asked: Sized) -> Lost | None:
        found = list(self._falls(row, asked))
        if not found:
            return None
        moved = self.use - self._use_at(row)
        if asked.cards > 1:
            return _several(sorted(found, key=_by_fall), asked, moved)
        least, table, _ = found[0] if len(found) == 1 else min(found, key=_by_fall)
        return moved + least, asked.use(table), table

    def _falls(self, row: Row, asked: Sized) -> Iterator[tuple[float, KindTable, int]]:
        """What each state of cards with room would lose, its kind, and how many cards are in it."""
        core, kept, size, least_mib = asked.core_percent, row.falls, asked.number, asked.least_mib
        by_card = asked.by_card
        for free_mib, free_core, code, unused, table, count in self._parts:
            if free_mib < least_mib:
                return
            if core > free_core or least_mib > table.largest_mib or (by_card and asked.mib(table) > free_mib):
                continue
            fall = kept.get(code | size)
            if fall is None:
                fall = kept[code | size] = self._fall(row, asked, table, free_core, free_mib, unused)
            yield fall, table, count

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


def _most_free_first(part: Part) -> int:
    return -part[0]


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
