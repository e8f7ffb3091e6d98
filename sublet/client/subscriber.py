"""Reads the public stream and turns its messages into events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from sublet.bus.jetstream import open_bus
from sublet.bus.port import Bus, Message
from sublet.contract import cloudevents, subjects
from sublet.model.errors import BadRequest
from sublet.model.ids import CardId, NodeName
from sublet.runtime.log import warn_only

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicEvent:
    """One fact, with the CloudEvents attributes of the same names.

    `sequence` only rises within one `subject`: a reader that sees a smaller one again may skip it. `position`
    is the place in the stream: pass the last one as `since` to go on after it. `node` and `card` are `None`
    where none is concerned. `data` is the body, with the field names of protobuf JSON.
    """

    id: str
    type: str
    source: str
    subject: str
    time: datetime
    sequence: int
    position: int
    kind: str
    node: NodeName | None
    card: CardId | None
    data: Mapping[str, Any]
    traceparent: str = ""


class Client:
    """A subscriber of one bus; needs only the right to read the public stream.

    Args:
        url: ``nats://[user:password@]host:port``.
        name: how the server's monitoring calls this client.
    """

    def __init__(self, url: str, *, name: str = "sublet-client") -> None:
        self._url = url
        self._name = name

    async def events(
        self,
        *,
        kinds: Collection[str] | None = None,
        node: str | None = None,
        card: str | None = None,
        since: int | datetime | None = None,
        follow: bool = True,
    ) -> AsyncGenerator[PublicEvent, None]:
        """Yield events in order, each once, across lost connections and restarts of the server.

        Args:
            kinds: of ``card health share pod audit``; `None` for all.
            node: only events of this node.
            card: only events of the card with this uuid.
            since: `None` for new ones only; an event's `position` for those after it, 0 for all that are
                stored; a time with a zone for those stored from then on.
            follow: False ends after what is stored now.

        Raises:
            BadRequest: an unknown kind, or a time without a zone.
            Unavailable: with ``follow=False``, when the server cannot be reached.
        """
        warn_only()
        patterns = _patterns(kinds, node, card)
        if isinstance(since, datetime) and since.tzinfo is None:
            raise BadRequest(f"since={since.isoformat()} has no time zone")
        async with (
            open_bus(self._url, name=self._name) as bus,
            aclosing(read_events(bus, patterns, since=since, follow=follow)) as stored,
        ):
            async for event in stored:
                yield event


async def read_events(
    bus: Bus, patterns: Collection[str], *, since: int | datetime | None = None, follow: bool = True
) -> AsyncGenerator[PublicEvent, None]:
    """Yield the readable events of a bus that is already open; what is not an event is logged and skipped."""
    messages = bus.subscribe(subjects.EVENTS_STREAM, tuple(patterns), since=since, follow=follow)
    async with aclosing(messages):
        async for message in messages:
            try:
                event = parse(message)
            except BadRequest as error:
                log.warning("event.unreadable", subject=message.subject, error=str(error))
                continue
            yield event


def events(
    url: str,
    *,
    kinds: Collection[str] | None = None,
    node: str | None = None,
    card: str | None = None,
    since: int | datetime | None = None,
    follow: bool = True,
) -> AsyncGenerator[PublicEvent, None]:
    """``Client(url).events(...)``."""
    return Client(url).events(kinds=kinds, node=node, card=card, since=since, follow=follow)


def parse(message: Message) -> PublicEvent:
    """Read one message of the public stream.

    Raises:
        BadRequest: its subject, headers or body are not those of an event.
    """
    place = subjects.parse_subject(message.subject)
    attributes = cloudevents.from_headers(message.headers)
    try:
        data = json.loads(message.body)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadRequest(f"the body is a JSON {type(data).__name__}, not an object")
    return PublicEvent(
        id=attributes.id,
        type=attributes.type,
        source=attributes.source,
        subject=attributes.subject,
        time=attributes.time,
        sequence=attributes.sequence,
        position=message.sequence,
        kind=place.kind,
        node=place.node,
        card=place.card,
        data=data,
        traceparent=attributes.traceparent,
    )


def _patterns(kinds: Collection[str] | None, node: str | None, card: str | None) -> list[str]:
    wanted = subjects.EVENT_KINDS if kinds is None else tuple(dict.fromkeys(kinds))
    unknown = [kind for kind in wanted if kind not in subjects.EVENT_KINDS]
    if unknown or not wanted:
        raise BadRequest(f"kinds={list(wanted)} names no event", hint=f"Known: {subjects.EVENT_KINDS}")
    return [subjects.pattern(kind, node, card) for kind in wanted]
