"""Tells a fresh engine what another was told, and says where it decides otherwise."""

from collections.abc import Iterator
from dataclasses import dataclass

from sublet.model.errors import BadRequest
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.flight.codec import UNREADABLE
from sublet_scheduler.core.flight.decisions import Document, deciding, documents
from sublet_scheduler.core.flight.file import FETCH, Flight, Told
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
        BadRequest: the engine's memory in `flight` is of another release or damaged; this engine fails at an
            event, which is named.
    """
    try:
        engine = engine_of(flight.rules, flight.memory)
    except UNREADABLE as error:
        raise BadRequest(
            "the engine's memory in it is damaged: it is not as this release writes it",
            hint=FETCH,
        ) from error
    for number, told in enumerate(flight.told, 1):
        decided = _decided(engine, told, number)
        if decided or told.decisions:
            yield Step(
                number=number,
                now=told.now,
                event=type(told.event).__name__,
                was=list(told.decisions),
                decided=decided,
            )


def _decided(engine: Engine, told: Told, number: int) -> list[Document]:
    try:
        return documents(deciding(engine.handle(told.event, now=told.now)))
    except (*UNREADABLE, IndexError, AssertionError) as error:
        where = f"event {number}, {type(told.event).__name__}"
        raise BadRequest(
            f"the engine fails at {where}: {type(error).__name__}: {error}",
            hint="If the file is as the scheduler wrote it, this is a fault of Sublet: report both",
        ) from error
