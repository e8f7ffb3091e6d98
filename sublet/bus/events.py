"""Publishes public events: CloudEvents headers, and the event's id as the one that is stored once."""

from __future__ import annotations

from sublet.bus.port import Bus
from sublet.contract import cloudevents
from sublet.contract.cloudevents import Attributes


async def publish_event(
    bus: Bus, subject: str, event: Attributes, body: bytes, *, within_s: float | None = None
) -> None:
    """Store an event in the public stream; publishing the same event again stores nothing.

    Args:
        subject: from `sublet.contract.subjects.subject`.
        body: canonical protobuf JSON of the message that `event.dataschema` names.

    Raises:
        Unavailable: no answer in time; publish the same event again later.
    """
    headers = cloudevents.to_headers(event)
    await bus.publish(subject, body, once_id=event.id, headers=headers, within_s=within_s)
