"""The ledger's entries as they stand on the bus, and the writes that bring them to what the engine wants."""

from dataclasses import dataclass, field, replace

from sublet.model.ids import NodeName
from sublet.model.placement import NodeLedger


@dataclass(slots=True)
class Ledgers:
    """One write is on its way per node at most; a failed one waits for the entry that beat it."""

    seen: dict[NodeName, NodeLedger] = field(default_factory=dict)
    in_flight: dict[NodeName, NodeLedger] = field(default_factory=dict)
    dirty: set[NodeName] = field(default_factory=set)
    unread: set[NodeName] = field(default_factory=set)
    """Nodes whose entry is unknown after a failed write."""

    def lose(self) -> None:
        """The bus is away: nothing is known and nothing can be written."""
        self.seen.clear()
        self.in_flight.clear()
        self.unread.clear()

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
        if seen is None and not wanted.grants and not wanted.closed:
            return None
        if seen and (seen.grants, seen.closed, seen.term) == (wanted.grants, wanted.closed, wanted.term):
            return None
        entry = replace(wanted, revision=seen.revision if seen else 0)
        self.in_flight[node] = entry
        return entry

    def written(self, node: NodeName, revision: int) -> NodeLedger | None:
        """Our write was stored; the entry as it stands now. None where it was not ours to know."""
        entry = self.in_flight.pop(node, None)
        if entry is None:
            return None
        stored = replace(entry, revision=revision)
        known = self.seen.get(node)
        if known is None or known.revision < revision:
            self.seen[node] = stored
        self.dirty.add(node)
        return stored

    def failed(self, node: NodeName, *, known: bool) -> None:
        self.in_flight.pop(node, None)
        if not known:
            self.unread.add(node)
        self.dirty.add(node)
