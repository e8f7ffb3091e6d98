"""The objects in memory, their versions and the history that watches read.

Stored objects are never changed in place: a write puts a new one, so readers may keep what they got.
"""

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import msgspec

from sublet.demo.apiserver.answers import already_exists, bad_request, expired, not_found, stale
from sublet.demo.apiserver.selectors import Predicate
from sublet.kube.kind import Kind
from sublet.kube.port import Json


class Key(NamedTuple):
    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object, with its JSON made once."""

    obj: Json
    raw: msgspec.Raw
    version: int


@dataclass(frozen=True, slots=True)
class Happened:
    """One write: what was there before and what after."""

    version: int
    key: Key
    old: Stored | None
    new: Stored | None
    last: Stored
    """The newest state: `new`, or for a deletion the old one with the version of the deletion."""

    def left(self) -> Stored:
        """What a watch is told whose selection the object left: the state before, with the version of now."""
        return self.last if self.new is None or self.old is None else _stored(self.old.obj, self.version)


@dataclass(frozen=True, slots=True)
class Listed:
    items: list[Stored]
    version: int
    proceed: str


class Store:
    """All objects of the server; every write has the next number."""

    def __init__(self, *, history_events: int) -> None:
        self._objects: dict[Kind, dict[tuple[str, str], Stored]] = {}
        self._history: deque[Happened] = deque(maxlen=history_events)
        self._forgotten = 0
        self.version = 1
        self.wakers: set[asyncio.Event] = set()
        """Set at each write; a watcher puts its own one in."""

    def find(self, key: Key) -> Json | None:
        stored = self._objects.get(key.kind, {}).get((key.namespace, key.name))
        return stored.obj if stored else None

    def get(self, key: Key) -> Json:
        found = self.find(key)
        if found is None:
            raise not_found(key.kind, key.name)
        return found

    def create(self, key: Key, obj: Json) -> Json:
        if self.find(key) is not None:
            raise already_exists(key.kind, key.name)
        return self._put(key, obj)

    def replace(self, key: Key, obj: Json) -> Json:
        """Write a new state of an object; the version in it, if any, must be the one stored.

        A write that changes nothing keeps the version, so that no watcher hears of it.
        """
        old = self.get(key)
        claimed = obj["metadata"].get("resourceVersion")
        if claimed and claimed != old["metadata"]["resourceVersion"]:
            raise stale(key.kind, key.name)
        versioned = {**obj, "metadata": {**obj["metadata"], "resourceVersion": _version_of(old)}}
        return old if versioned == old else self._put(key, obj)

    def remove(self, key: Key) -> Json:
        objects = self._objects[key.kind]
        old = objects.pop((key.namespace, key.name))
        self.version += 1
        last = _stored(old.obj, self.version)
        self._record(Happened(self.version, key, old, None, last))
        return last.obj

    def select(self, kind: Kind, namespace: str | None, matches: Predicate) -> Iterator[Stored]:
        for (where, _), stored in sorted(self._objects.get(kind, {}).items(), key=lambda item: item[0]):
            if namespace in (None, where) and matches(stored.obj):
                yield stored

    def page(
        self, kind: Kind, namespace: str | None, matches: Predicate, *, limit: int, proceed: str
    ) -> Listed:
        """Part of a list; all pages carry the first one's version, so a watch from there misses nothing."""
        version, after = self._read_token(proceed) if proceed else (self.version, ("", ""))
        found: list[Stored] = []
        for stored in self.select(kind, namespace, matches):
            if proceed and _place(stored.obj) <= after:
                continue
            if limit and len(found) == limit:
                return Listed(found, version, _token(version, _place(found[-1].obj)))
            found.append(stored)
        return Listed(found, version, "")

    def since(self, version: int) -> list[Happened]:
        """Every write after this version, in order; Refused(410) when part of them is forgotten."""
        if version < self._forgotten:
            raise expired(f"too old resource version: {version} ({self._forgotten})")
        newest_first = takewhile(lambda each: each.version > version, reversed(self._history))
        return list(newest_first)[::-1]

    def forget_history(self) -> None:
        """Compact: watches from any earlier version get 410."""
        self._history.clear()
        self._forgotten = self.version
        self._wake()

    def _put(self, key: Key, obj: Json) -> Json:
        objects = self._objects.setdefault(key.kind, {})
        old = objects.get((key.namespace, key.name))
        self.version += 1
        new = _stored(obj, self.version)
        objects[key.namespace, key.name] = new
        self._record(Happened(self.version, key, old, new, new))
        return new.obj

    def _record(self, happened: Happened) -> None:
        if len(self._history) == self._history.maxlen:
            self._forgotten = self._history[0].version
        self._history.append(happened)
        self._wake()

    def _wake(self) -> None:
        for waker in self.wakers:
            waker.set()

    def _read_token(self, token: str) -> tuple[int, tuple[str, str]]:
        try:
            version, namespace, name = json.loads(urlsafe_b64decode(token))
        except ValueError as error:
            raise bad_request(f"continue key is not valid: {error}") from error
        if version < self._forgotten:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        return version, (namespace, name)


def _token(version: int, place: tuple[str, str]) -> str:
    return urlsafe_b64encode(json.dumps([version, *place]).encode()).decode()


def _place(obj: Json) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _version_of(obj: Json) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _stored(obj: Json, version: int) -> Stored:
    versioned = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
    return Stored(versioned, msgspec.Raw(msgspec.json.encode(versioned)), version)
