"""The server's JetStream API in JSON: one request, one checked answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from sublet.bus.layout import Bucket, Layout, Stream
from sublet.model.errors import BadRequest, Conflict, NotFound, Unavailable

_STREAM_NOT_FOUND: Final = 10059
_STREAM_NAME_IN_USE: Final = 10058
_WRONG_LAST_SEQUENCE: Final = (10071, 10164)
_MESSAGE_TOO_LARGE: Final = 10054
_SECOND_NS: Final = 1_000_000_000


class StreamMissing(NotFound):
    """The stream does not exist on this server."""


class Refused(Unavailable):
    """The server will not, for a reason of its own: full, not configured so, no right to.

    `number` is the server's for it.
    """

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number


async def request(
    client: Client, subject: str, body: bytes, *, within_s: float, headers: Mapping[str, str] | None = None
) -> Msg:
    """Send one request and wait for its answer.

    Raises:
        nats.errors.NoRespondersError: nobody listens on `subject`.
        nats.errors.TimeoutError: no answer in time.
    """
    try:
        answer = await client.request(
            subject, body, timeout=within_s, headers=dict(headers) if headers else None
        )
    except (nats.errors.MaxPayloadError, nats.errors.BadSubjectError) as error:
        raise BadRequest(f"{subject}: {len(body)} bytes cannot be sent: {error}") from error
    raise_lost_cancel()
    return answer


def raise_lost_cancel() -> None:
    """Be cancelled after all: `wait_for` of Python 3.11, which the client uses, loses a cancel that meets
    the answer."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def call(client: Client, api: str, body: Mapping[str, Any], *, within_s: float) -> dict[str, Any]:
    """Call ``$JS.API.<api>``."""
    answer = await request(client, f"$JS.API.{api}", json.dumps(body).encode(), within_s=within_s)
    return checked(answer.data, what=api)


def checked(data: bytes, *, what: str) -> dict[str, Any]:
    """Read an answer of the API; its errors become ours."""
    answer: dict[str, Any] = json.loads(data)
    error = answer.get("error")
    if error is None:
        return answer
    number, text = error.get("err_code", 0), error.get("description", "")
    if number in _WRONG_LAST_SEQUENCE:
        raise Conflict(f"{what}: {text}", hint="Read again and decide anew")
    if number == _STREAM_NOT_FOUND:
        raise StreamMissing(f"{what}: {text}")
    if number == _MESSAGE_TOO_LARGE:
        raise BadRequest(f"{what}: {text}", hint="The limits stand in sublet.bus.layout")
    if error.get("code") == 503:
        raise Unavailable(f"{what}: {text}")
    raise Refused(f"{what}: {text} ({number})", number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """`created` tells a stream from a later one of the same name; `subjects` are those that hold messages."""

    created: str
    last_sequence: int
    subjects: frozenset[str] = frozenset()


async def stream_facts(
    client: Client, stream: str, *, subjects: str | None = None, within_s: float
) -> StreamFacts:
    """Ask for a stream, with all its subjects that match `subjects`.

    Raises:
        StreamMissing: it does not exist.
    """
    names: set[str] = set()
    first: dict[str, Any] | None = None
    while True:
        question = {} if subjects is None else {"subjects_filter": subjects, "offset": len(names)}
        answer = await call(client, f"STREAM.INFO.{stream}", question, within_s=within_s)
        first = first or answer  # the sequence before the names were listed: what is newer comes as a hint
        page = answer["state"].get("subjects") or {}
        names.update(page)
        if not page or len(names) >= answer.get("total", 0):
            return StreamFacts(
                created=first["created"],
                last_sequence=first["state"]["last_seq"],
                subjects=frozenset(names),
            )


async def ensure_layout(client: Client, layout: Layout, *, within_s: float) -> None:
    """Create what is missing and adapt what differs; safe when several processes do it at once."""
    for stream in layout.streams:
        await _ensure(client, _stream_config(stream, layout.replicas), within_s=within_s)
    for bucket in layout.buckets:
        await _ensure(client, _bucket_config(bucket, layout.replicas), within_s=within_s)


async def _ensure(client: Client, config: dict[str, Any], *, within_s: float) -> None:
    name = config["name"]
    try:
        await call(client, f"STREAM.CREATE.{name}", config, within_s=within_s)
    except Refused as refusal:
        if refusal.number != _STREAM_NAME_IN_USE:
            raise
        await call(client, f"STREAM.UPDATE.{name}", config, within_s=within_s)


def bucket_stream(bucket: str) -> str:
    return f"KV_{bucket}"


def key_subject(bucket: str, key: str) -> str:
    return f"$KV.{bucket}.{key}"


def _stream_config(stream: Stream, replicas: int) -> dict[str, Any]:
    return {
        "name": stream.name,
        "subjects": list(stream.subjects),
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "num_replicas": replicas,
        "max_age": int(stream.max_age_s * _SECOND_NS),
        "max_bytes": stream.max_bytes,
        "max_msg_size": stream.max_message_bytes,
        "duplicate_window": int(stream.dedupe_s * _SECOND_NS),
        "allow_direct": True,
    }


def _bucket_config(bucket: Bucket, replicas: int) -> dict[str, Any]:
    """As the server's own key-value clients lay a bucket out, with a history of one."""
    return {
        "name": bucket_stream(bucket.name),
        "subjects": [key_subject(bucket.name, ">")],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": replicas,
        "max_msgs_per_subject": 1,
        "max_bytes": bucket.max_bytes,
        "max_msg_size": bucket.max_value_bytes,
        "duplicate_window": 120 * _SECOND_NS,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
        "deny_delete": True,
    }
