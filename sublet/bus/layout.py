"""Which streams and buckets exist, with their limits and the reason for each, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sublet.contract import subjects

_DAY_S: Final = 24 * 3600
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A journal of messages; the oldest go when a limit is reached."""

    name: str
    subjects: tuple[str, ...]
    max_age_s: float
    max_bytes: int
    max_message_bytes: int
    dedupe_s: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The newest value of each key; a write beyond `max_bytes` is refused."""

    name: str
    max_bytes: int
    max_value_bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    streams: tuple[Stream, ...]
    buckets: tuple[Bucket, ...]
    replicas: int = 1


LAYOUT: Final = Layout(
    streams=(
        Stream(
            name=subjects.SIGNALS_STREAM,
            subjects=(f"{subjects.PREFIX}.{subjects.SIGNAL}.>",),
            max_age_s=1 * _DAY_S,
            max_bytes=256 * _MIB,
            max_message_bytes=64 * 1024,
            dedupe_s=120,
            why="healthd may be down for a night and still judge what happened; the raw text of a signal is "
            "at most 1 KiB, so 256 MiB hold several hundred thousand",
        ),
        Stream(
            name=subjects.MANUAL_STREAM,
            subjects=(f"{subjects.PREFIX}.{subjects.MANUAL}.>",),
            max_age_s=30 * _DAY_S,
            max_bytes=16 * _MIB,
            max_message_bytes=16 * 1024,
            dedupe_s=120,
            why="what people ask of healthd, a few hundred bytes each; done when healthd is there again, "
            "and stays for a month to tell who asked",
        ),
        Stream(
            name=subjects.EVENTS_STREAM,
            subjects=tuple(f"{subjects.PREFIX}.{kind}.>" for kind in subjects.EVENT_KINDS),
            max_age_s=7 * _DAY_S,
            max_bytes=512 * _MIB,
            max_message_bytes=256 * 1024,
            dedupe_s=600,
            why="a subscriber that was away for a weekend misses nothing; a service that restarts publishes "
            "the events it had not confirmed again, which takes it minutes at most",
        ),
    ),
    buckets=(
        Bucket(
            name=subjects.INVENTORY_BUCKET,
            max_bytes=256 * _MIB,
            max_value_bytes=512 * 1024,
            why="three keys a node; 5,000 nodes at 16 KiB are 240 MiB",
        ),
        Bucket(
            name=subjects.VERDICTS_BUCKET,
            max_bytes=256 * _MIB,
            max_value_bytes=64 * 1024,
            why="one key a card; 40,000 cards at 2 KiB are 80 MiB",
        ),
        Bucket(
            name=subjects.HEALTHD_BUCKET,
            max_bytes=4 * _MIB,
            max_value_bytes=512 * 1024,
            why="two keys: the breaker with the cards it took out in the last minutes; that healthd lives",
        ),
        Bucket(
            name=subjects.LEDGER_BUCKET,
            max_bytes=256 * _MIB,
            max_value_bytes=1 * _MIB - 64 * 1024,
            why="one key a node; the server takes at most 1 MiB a message with its headers",
        ),
    ),
)
