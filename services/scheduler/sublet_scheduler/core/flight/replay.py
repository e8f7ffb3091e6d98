"""Tells a fresh engine what another was told, and says where it decides otherwise."""

from collections.abc import Iterator
from dataclasses import dataclass

from sublet_scheduler.core.flight.decisions import Document, deciding, documents
from sublet_scheduler.core.flight.file import Flight
from sublet_scheduler.core.flight.image import engine_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event that led to decisions: `number` counts events from 1; `was` is what the scheduler decided,
    `decided` what this engine does."""

    number: int
    now: float
    event: str
    was: list[Document]
    decided: list[Document]

    @property
    def differs(self) -> bool:
        return self.was != self.decided


def replay(flight: Flight) -> Iterator[Step]:
    """Every event at which the scheduler or this engine decided something.

    Raises:
        BadRequest: the engine's memory in `flight` is of another release.
    """
    engine = engine_of(flight.rules, flight.memory)
    for number, told in enumerate(flight.told, 1):
        decided = documents(deciding(engine.handle(told.event, now=told.now)))
        if decided or told.decisions:
            yield Step(
                number=number,
                now=told.now,
                event=type(told.event).__name__,
                was=list(told.decisions),
                decided=decided,
            )
