"""What a follower of a bucket was told so far: turns snapshots and hints into changes, each told once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sublet.bus.port import Change, Deleted, Entry, Reset, Synced, Upserted


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All keys at one moment or newer; what is above `sequence` may be in it or not."""

    created: str
    sequence: int
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The newest message under a key, which may be a delete marker."""

    key: str
    value: bytes
    revision: int
    deleted: bool
    write_id: str


class View:
    """What a follower was told so far, so that it is told each thing once."""

    def __init__(self) -> None:
        self.floor = 0  # the snapshot speaks for everything up to here
        self._created: str | None = None
        self._known: dict[str, int] = {}
        self._highest = 0

    def take(self, snapshot: Snapshot) -> Iterator[Change]:
        """What the snapshot changes; also the first one, and the first of a bucket created anew."""
        first = self._created is None
        anew = not first and (snapshot.created != self._created or snapshot.sequence < self._highest)
        if anew:
            self._known.clear()
            self._highest = 0
            yield Reset()
        self._created, self.floor = snapshot.created, snapshot.sequence
        for key, entry in snapshot.entries.items():
            if entry.revision > self._known.get(key, 0):
                self._remember(key, entry.revision)
                yield Upserted(entry=entry)
        for key in sorted(self._known.keys() - snapshot.entries.keys()):
            del self._known[key]
            yield Deleted(key=key, revision=snapshot.sequence)
        if first or anew:
            yield Synced()

    def hint(self, heard: Heard) -> Change | None:
        if heard.revision <= max(self.floor, self._known.get(heard.key, 0)):
            return None
        if not heard.deleted:
            self._remember(heard.key, heard.revision)
            return Upserted(entry=Entry(key=heard.key, value=heard.value, revision=heard.revision))
        self._highest = max(self._highest, heard.revision)
        if self._known.pop(heard.key, None) is None:
            return None
        return Deleted(key=heard.key, revision=heard.revision)

    def _remember(self, key: str, revision: int) -> None:
        self._known[key] = revision
        self._highest = max(self._highest, revision)
