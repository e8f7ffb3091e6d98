"""Keeps what the engine was told lately, after a picture of its memory, so that it can be told again.

Two stretches are kept, each a picture and the events after it; when the second is long enough and the engine
has nothing to do, a third is begun and the first is forgotten.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from sublet_scheduler.core.effects import Effect
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.events import Event, HeartbeatSeen
from sublet_scheduler.core.flight.decisions import Deciding, deciding, documents
from sublet_scheduler.core.flight.file import written_event, written_head, written_memory
from sublet_scheduler.core.flight.image import Image, image_of

EVENTS = 10_000
"""In one stretch; up to twice as many while the engine is never at rest."""
BEATS = 3
"""So many heartbeats count as one event: they are small, and most of what a large cluster tells."""

Entry = tuple[float, Event, tuple[Deciding, ...]]


@dataclass(slots=True)
class _Stretch:
    image: Image
    entries: list[Entry] = field(default_factory=list)
    weight: float = 0.0


class Recorder:
    """For an engine that was told nothing yet. It holds at most four times `events`."""

    def __init__(self, engine: Engine, *, release: str, events: int = EVENTS) -> None:
        self._engine = engine
        self._release = release
        self._events = events
        self._stretches: deque[_Stretch] = deque([_Stretch(image_of(engine))], maxlen=2)

    def note(self, now: float, event: Event, effects: list[Effect]) -> None:
        stretch = self._stretches[-1]
        stretch.entries.append((now, event, deciding(effects)))
        stretch.weight += 1 / BEATS if isinstance(event, HeartbeatSeen) else 1
        if stretch.weight >= 2 * self._events:
            self.rest()

    def rest(self) -> None:
        """The engine has nothing to do for a moment."""
        if self._stretches[-1].weight >= self._events and not self._engine.passing:
            self._stretches.append(_Stretch(image_of(self._engine)))

    def lines(self) -> Iterator[str]:
        """The flight up to now as JSON lines: a head, the engine's memory, then the events; each is written
        only when it is asked for."""
        stretches = [(one.image, list(one.entries)) for one in self._stretches]
        rules, release = self._engine.state.rules, self._release

        def lines() -> Iterator[str]:
            count = sum(len(entries) for _, entries in stretches)
            yield written_head(release=release, events=count, rules=rules)
            for path, value in stretches[0][0].items():
                yield from written_memory(path, value)
            for _, entries in stretches:
                for now, event, effects in entries:
                    yield written_event(now, event, documents(effects))

        return lines()
