"""A flight as JSON lines: a head, then the engine's memory in pieces, then the events with what was decided.

The head names format, schema and release; a reader takes its own schema only, since an engine of another
release decides otherwise on purpose.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sublet.model.errors import BadRequest
from sublet_scheduler.core.events import Event
from sublet_scheduler.core.flight.codec import UNREADABLE, from_json, to_json
from sublet_scheduler.core.flight.decisions import Document
from sublet_scheduler.core.state import Rules

FORMAT = "sublet-flight"
SCHEMA = 1
"""Rises when a reader must look again."""
ITEMS_A_LINE = 8
FETCH = "Fetch the file from the scheduler's /flight, and leave it as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event, when it came (monotonic seconds of the scheduler), and what was decided then."""

    now: float
    event: Event
    decisions: Sequence[Document]


@dataclass(slots=True)
class Flight:
    release: str
    rules: Rules
    events: int
    memory: dict[str, Any] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)


def written_head(*, release: str, events: int, rules: Rules) -> str:
    head = {"format": FORMAT, "schema": SCHEMA, "sublet": release, "events": events}
    return _line({**head, "rules": to_json(rules)})


def written_memory(path: str, value: Any) -> Iterator[str]:
    """One attribute of the engine; a long one in several lines."""
    if not isinstance(value, dict):
        yield _line({"memory": path, "value": to_json(value)})
        return
    items = iter(value.items())
    some = list(islice(items, ITEMS_A_LINE))
    while some or not value:
        yield _line({"memory": path, "items": [[to_json(key), to_json(one)] for key, one in some]})
        some = list(islice(items, ITEMS_A_LINE))
        if not value:
            return


def written_event(now: float, event: Event, decisions: Sequence[Document]) -> str:
    return _line({"t": now, "event": to_json(event), **({"decisions": decisions} if decisions else {})})


def read_flight(lines: Iterable[str]) -> Flight:
    """Raises BadRequest, with the number of the line, where `lines` are no flight of this schema."""
    flight: Flight | None = None
    for number, line in enumerate(lines, 1):
        try:
            raw = json.loads(line)
            if flight is None:
                flight = _begun(raw)
            else:
                _take(flight, raw)
        except json.JSONDecodeError as error:
            raise BadRequest(f"line {number} is no part of a flight: it is not JSON", hint=FETCH) from error
        except UNREADABLE as error:
            raise BadRequest(
                f"line {number} is no part of a flight: it does not say what this release writes",
                hint="Read the file with the release that wrote it; the first line names it",
            ) from error
    if flight is None:
        raise BadRequest("the file is empty", hint=FETCH)
    if len(flight.told) != flight.events:
        raise BadRequest(
            f"the file ends after {len(flight.told)} of {flight.events} events", hint="Fetch it again, whole"
        )
    return flight


def _begun(raw: Mapping[str, Any]) -> Flight:
    if raw.get("format") != FORMAT:
        raise BadRequest(f"line 1 names no format {FORMAT!r}: the file is no flight", hint=FETCH)
    if raw["schema"] != SCHEMA:
        raise BadRequest(
            f"line 1 names schema {raw['schema']!r} of release {raw.get('sublet')!r}; known is {SCHEMA}",
            hint="Read the file with the release that wrote it",
        )
    rules = from_json(raw["rules"])
    if not isinstance(rules, Rules):
        raise TypeError("the head has no rules")
    return Flight(str(raw["sublet"]), rules, int(raw["events"]))


def _take(flight: Flight, raw: Mapping[str, Any]) -> None:
    if "event" in raw:
        event = from_json(raw["event"])
        if not isinstance(event, Event):
            raise TypeError(f"{type(event).__name__} is no event")
        flight.told.append(Told(now=float(raw["t"]), event=event, decisions=raw.get("decisions", [])))
    elif "items" in raw:
        into = flight.memory.setdefault(raw["memory"], {})
        into.update((from_json(key), from_json(value)) for key, value in raw["items"])
    else:
        flight.memory[raw["memory"]] = from_json(raw["value"])


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
