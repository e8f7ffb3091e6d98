"""The ledger's entries as they stand on the bus, and the writes that bring them to what the engine wants."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from sublet.model.ids import NodeName
from sublet.model.placement import NodeLedger

CHECKS_AT_ONCE = 200
"""So many nodes are looked at in one step of a take-over, and other events come between the steps."""
FENCES_AT_ONCE = 64
"""So many writes that nobody waits for may be on their way: they must not delay those of waiting pods."""


@dataclass(slots=True)
class Ledgers:
    """One write is on its way per node at most; a failed one waits for the entry that beat it.

    A scheduler that takes over brings every entry to its own term, since an older one that still runs could
    go on with those that it did not touch. Entries that somebody waits for come first (`dirty`), all others
    in small portions (`unchecked`).
    """

    seen: dict[NodeName, NodeLedger] = field(default_factory=dict)
    in_flight: dict[NodeName, NodeLedger] = field(default_factory=dict)
    dirty: set[NodeName] = field(default_factory=set)
    unread: set[NodeName] = field(default_factory=set)
    """Nodes whose entry is unknown after a failed write."""
    owed: set[NodeName] = field(default_factory=set)
    """Nodes whose entry is not known to say what this scheduler found when it took over."""
    unchecked: deque[NodeName] = field(default_factory=deque)
    """Nodes whose entry may still be another's, or missing; nobody waits for them."""
    fences: set[NodeName] = field(default_factory=set)
    """Nodes of which a write that nobody waits for is on its way."""

    def take_over(self, nodes: Iterable[NodeName], awaited: Iterable[NodeName]) -> None:
        """All entries are known; those of `nodes` must become ours, of `awaited` at once."""
        self.dirty = set(awaited)
        self.owed = {*nodes, *self.dirty}
        self.unchecked = deque(sorted(self.owed - self.dirty))

    def check(self, node: NodeName) -> None:
        """A node that was not known when this scheduler took over needs an entry of ours, too."""
        if node not in self.seen:
            self.unchecked.append(node)

    @property
    def writable(self) -> set[NodeName]:
        """The nodes of `dirty` that need not wait for the outcome of an earlier write."""
        return self.dirty - self.in_flight.keys() - self.unread

    @property
    def more_to_check(self) -> bool:
        return bool(self.unchecked) and len(self.fences) < FENCES_AT_ONCE

    def fence(self, wanted: Callable[[NodeName], NodeLedger]) -> Iterator[NodeLedger]:
        """The next portion of entries to store that nobody waits for."""
        for _ in range(min(CHECKS_AT_ONCE, len(self.unchecked))):
            if not self.more_to_check:
                return
            node = self.unchecked.popleft()
            write = self.next_write(wanted(node))
            if write:
                self.fences.add(node)
                yield write

    def lose(self) -> None:
        """The bus is away: nothing is known and nothing can be written."""
        self.seen.clear()
        self.in_flight.clear()
        self.unread.clear()
        self.fences.clear()
        self.unchecked.clear()

    def take(self, entry: NodeLedger) -> bool:
        """Note an entry as it stands on the bus; False for old news."""
        known = self.seen.get(entry.node)
        if known and known.revision >= entry.revision and entry.node not in self.unread:
            return False
        self.seen[entry.node] = entry
        self.unread.discard(entry.node)
        self.dirty.add(entry.node)
        return True

    def next_write(self, wanted: NodeLedger) -> NodeLedger | None:
        """The entry to store, or None where the bus already says so, or a write is on its way."""
        node = wanted.node
        if node in self.in_flight or node in self.unread:
            return None
        self.dirty.discard(node)
        seen = self.seen.get(node)
        if seen and replace(wanted, revision=seen.revision) == seen:
            self.owed.discard(node)
            return None
        entry = replace(wanted, revision=seen.revision if seen else 0)
        self.in_flight[node] = entry
        return entry

    def written(self, node: NodeName, revision: int) -> NodeLedger | None:
        """Our write was stored; the entry as it stands now. None where it was not ours to know."""
        entry = self.in_flight.pop(node, None)
        if entry is None:
            return None
        self.fences.discard(node)
        self.owed.discard(node)
        stored = replace(entry, revision=revision)
        known = self.seen.get(node)
        if known is None or known.revision < revision:
            self.seen[node] = stored
        self.dirty.add(node)
        return stored

    def failed(self, node: NodeName, *, known: bool) -> None:
        if self.in_flight.pop(node, None) is None:
            return  # it was given up when the ledger was lost; what stands there was listed since
        self.fences.discard(node)
        if not known:
            self.unread.add(node)
        self.dirty.add(node)
