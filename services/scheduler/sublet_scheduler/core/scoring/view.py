"""One node as the policy `fragmentation` sees it, with what several shapes ask of it kept for the next."""

from sublet_scheduler.core.assigning import Assigned
from sublet_scheduler.core.fleet import CardState, NodeState
from sublet_scheduler.core.kinds import Kind, kind_of
from sublet_scheduler.core.need import Load
from sublet_scheduler.core.scoring.tables import KindTable, Row, Tables, idle_cell, use_of

Lost = tuple[float, float, Kind]
"""Use lost beside what was taken, what was taken, and of which kind of card."""


class NodeView:
    """Uses are in thousandths of a card, weighted; see `tables`."""

    __slots__ = (
        "_after", "_best", "_cells", "_distinct", "_idle", "_tables", "_use", "cpu_milli", "free",
        "memory_mib", "node", "stranded", "version",
    )  # fmt: skip

    def __init__(self, node: NodeState, tables: Tables) -> None:
        self.node, self.version = node, node.version
        self._tables = tables
        facts = node.facts
        self.cpu_milli = (facts.cpu_milli if facts else 0) - node.cpu_milli
        self.memory_mib = (facts.memory_mib if facts else 0) - node.memory_mib
        self._cells: list[tuple[int, float]] = []
        self._distinct: dict[tuple[int, int, int, bool], tuple[KindTable, int, float, CardState]] = {}
        self._idle: dict[int, tuple[KindTable, Kind, int]] = {}
        for state in node.by_index:
            if state.open and not state.exclusive and state.shares < node.shares_per_card:
                self._take_in(state)
        self.free = sum(use for _, use in self._cells)
        self._after: dict[tuple[int, int], float] = {}
        self._best: dict[object, Lost | None] = {}
        row = tables.row(self.cpu_milli, self.memory_mib)
        self._use = self._use_at(row)
        self.stranded = 0.0

    def loss_of(self, load: Load, cpu_milli: int, memory_mib: int) -> Lost | None:
        """What a pod of one load costs on its best cards; None where it has no room."""
        if (cpu_milli and cpu_milli > self.cpu_milli) or (memory_mib and memory_mib > self.memory_mib):
            return None
        row = self._tables.row(self.cpu_milli - cpu_milli, self.memory_mib - memory_mib)
        key = (row.ranks, load.cards, load.exclusive, load.core_percent, load.memory_mib, load.parts)
        if key not in self._best:
            self._best[key] = self._whole(row, load) if load.exclusive else self._part(row, load)
        return self._best[key]

    def loss_on(self, state: CardState, load: Load, cpu_milli: int, memory_mib: int) -> float:
        """What one card costs, where nothing else is compared."""
        row = self._tables.row(self.cpu_milli - cpu_milli, self.memory_mib - memory_mib)
        table = self._tables.kind(kind_of(state.card))
        if load.exclusive:
            return row[table.cell(100, table.memory_mib or 0, unused=True)] * 1_000.0
        return self._fall(row, table, state, load)

    def loss_with(self, assigned: Assigned, cpu_milli: int, memory_mib: int) -> Lost:
        row = self._tables.row(self.cpu_milli - cpu_milli, self.memory_mib - memory_mib)
        lost, taken = self._use - self._use_at(row), 0.0
        for load, states in zip(assigned.loads, assigned.seats, strict=True):
            for state in states:
                table = self._tables.kind(kind_of(state.card))
                if load.exclusive:
                    taken += 1_000.0
                    lost += row[table.cell(100, table.memory_mib or 0, unused=True)] * 1_000.0
                else:
                    taken += use_of(load.core_percent, load.of_card(state.card), table.memory_mib)
                    lost += self._fall(row, table, state, load)
        first = next((states[0] for states in assigned.seats), None) or self.node.by_index[0]
        return lost, taken, kind_of(first.card)

    def _take_in(self, state: CardState) -> None:
        kind = kind_of(state.card)
        table = self._tables.kind(kind)
        free_core, free_mib, unused = state.free_core, state.free_mib, state.unused
        if unused:
            use = 1_000.0
            known = self._idle.get(table.number)
            self._idle[table.number] = (table, kind, known[2] + 1 if known else 1)
        elif state.card.memory_mib is None:
            return
        else:
            use = use_of(free_core, free_mib, table.memory_mib)
        cell = table.cell(free_core, free_mib, unused=unused)
        self._cells.append((cell, use))
        if state.card.memory_mib is not None:
            self._distinct.setdefault((table.number, free_core, free_mib, unused), (table, cell, use, state))

    def _use_at(self, row: Row) -> float:
        use = self._after.get(row.ranks)
        if use is None:
            use = 0.0
            for cell, free in self._cells:
                use += row[cell] * free
            for table, _, idle in self._idle.values():
                use += row[idle_cell(table.number, idle)] * idle * 1_000.0
            self._after[row.ranks] = use
        return use

    def _whole(self, row: Row, load: Load) -> Lost | None:
        for table, kind, idle in self._idle.values():
            if idle >= load.cards:
                lost = self._use - self._use_at(row) + load.cards * 1_000.0 * row[_unused_cell(table)]
                lost += self._fewer_idle(row, table, idle, load.cards)
                return lost, 1_000.0 * load.cards, kind
        return None

    def _part(self, row: Row, load: Load) -> Lost | None:
        best: Lost | None = None
        moved = self._use - self._use_at(row)
        core = load.core_percent
        for (_, free_core, free_mib, _), (table, _, _, state) in self._distinct.items():
            if core <= free_core and (mib := load.of_card(state.card)) <= free_mib:
                lost = moved + self._fall(row, table, state, load)
                if best is None or lost < best[0]:
                    best = (lost, use_of(core, mib, table.memory_mib), kind_of(state.card))
        return best

    def _fall(self, row: Row, table: KindTable, state: CardState, load: Load) -> float:
        """Of the use of one card when a part of it is taken."""
        free_core, free_mib, total = state.free_core, state.free_mib, table.memory_mib
        left_core, left_mib = free_core - load.core_percent, free_mib - load.of_card(state.card)
        before = row[table.cell(free_core, free_mib, unused=state.unused)]
        after = row[table.cell(left_core, left_mib, unused=False)]
        fall = before * use_of(free_core, free_mib, total) - after * use_of(left_core, left_mib, total)
        if state.unused and table.number in self._idle:
            fall += self._fewer_idle(row, table, self._idle[table.number][2], 1)
        return fall

    @staticmethod
    def _fewer_idle(row: Row, table: KindTable, idle: int, taken: int) -> float:
        left = idle - taken
        before = row[idle_cell(table.number, idle)] * idle
        return 1_000.0 * (before - (row[idle_cell(table.number, left)] * left if left else 0.0))


def _unused_cell(table: KindTable) -> int:
    return table.cell(100, table.memory_mib or 0, unused=True)
