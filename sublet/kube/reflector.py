"""Keeps a reader up to date on the objects of one kind: list, then watch, for ever.

It turns pages and watch lines into a stream of changes that a pure core can take in order, and hides
reconnects, lost history, duplicates and mute connections. Each object is decoded into the caller's type.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import structlog

from sublet.kube.errors import Expired, KubeError
from sublet.kube.kind import Kind
from sublet.kube.port import EVERYTHING, Json, Kube, Selection

log = structlog.get_logger()

T = TypeVar("T")

PAGE_OBJECTS = 500
BREATH_OBJECTS = 50
"""Objects taken from a page before other tasks get a turn; keeps the loop free within a few ms."""
WATCH_S = (240, 360)
PAUSE_S = (0.05, 5.0)
STEADY_S = 5.0
"""A watch that lived this long was a good one, even if nothing happened."""


class Key(NamedTuple):
    """Names an object of one kind; the namespace is empty where the kind has none."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """The object is there, new or changed."""

    key: Key
    obj: T


@dataclass(frozen=True, slots=True)
class Gone(Generic[T]):
    """The object is no longer there or no longer selected; `last` is the newest state known of it."""

    key: Key
    last: T


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that existed at the first list has been told; absence now means something."""


@dataclass(frozen=True, slots=True)
class Relisted:
    """A later list has been told in full: events before it may have been missed, the outcome was not."""


Change: TypeAlias = Upserted[T] | Gone[T] | Synced | Relisted


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    proceed: str = msgspec.field(default="", name="continue")


class _Headed(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    code: int = 0
    message: str = ""


class _Page(msgspec.Struct):
    metadata: _Meta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Known(NamedTuple, Generic[T]):
    uid: str
    version: str
    obj: T


_head = msgspec.json.Decoder(_Headed).decode
_page = msgspec.json.Decoder(_Page).decode
_line = msgspec.json.Decoder(_Line).decode


def as_json(raw: bytes) -> Json:
    """Decode an object whole, for readers without a type of their own."""
    return msgspec.json.decode(raw, type=dict[str, Any])


class Reflector(Generic[T]):
    """Follows the selected objects of one kind.

    `decode` gets each object's JSON. An object that it cannot read is logged and counts as absent.
    """

    def __init__(
        self,
        kube: Kube,
        kind: Kind,
        *,
        decode: Callable[[bytes], T],
        select: Selection = EVERYTHING,
        watch_s: tuple[int, int] = WATCH_S,
        pause_s: tuple[float, float] = PAUSE_S,
        chance: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._kind = kind
        self._decode = decode
        self._select = select
        self._watch_s = watch_s
        self._pause_s = pause_s
        self._chance = chance or random.Random()
        self._known: dict[Key, _Known[T]] = {}
        self._version = ""
        self._synced = False
        self._failures = 0

    async def run(self, submit: Callable[[Change[T]], Awaitable[None]]) -> None:
        """Tell `submit` every change, one at a time, until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list(submit)
                await self._watch(submit)
            except Expired as error:
                self._version = ""
                self._note(error)
            except KubeError as error:
                self._note(error)
            except msgspec.DecodeError as error:  # a proxy's page in place of JSON
                self._note(error)
            await self._pause()

    async def _list(self, submit: Callable[[Change[T]], Awaitable[None]]) -> None:
        listed: set[Key] = set()
        token = ""
        while True:
            page = _page(
                await self._kube.page(self._kind, self._select, limit=PAGE_OBJECTS, continue_token=token)
            )
            for number, raw in enumerate(page.items or ()):
                if number % BREATH_OBJECTS == 0:
                    await asyncio.sleep(0)
                head = _head(raw).metadata
                listed.add(Key(head.namespace, head.name))
                await self._take(head, raw, submit)
            token = page.metadata.proceed
            if not token:
                break
        for key in [key for key in self._known if key not in listed]:
            await submit(Gone(key, self._known.pop(key).obj))
        await submit(Relisted() if self._synced else Synced())
        self._synced = True
        self._version = page.metadata.resource_version

    async def _watch(self, submit: Callable[[Change[T]], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        since = loop.time()
        within_s = self._chance.randint(*self._watch_s)
        async with self._kube.watch(
            self._kind, self._select, resource_version=self._version, within_s=within_s
        ) as lines:
            async for line in lines:
                event = _line(line)
                head = _head(event.object)
                if event.type == "ERROR":
                    raise (Expired if head.code == 410 else KubeError)(head.message, code=head.code)
                await self._follow(event.type, head.metadata, event.object, submit)
                self._version = head.metadata.resource_version
                self._failures = 0
        # a server that closes at once must not be asked hundreds of times a second
        self._failures = 0 if loop.time() - since > STEADY_S else self._failures + 1

    async def _follow(
        self, what: str, head: _Meta, raw: msgspec.Raw, submit: Callable[[Change[T]], Awaitable[None]]
    ) -> None:
        match what:
            case "ADDED" | "MODIFIED":
                await self._take(head, raw, submit)
            case "DELETED":
                key = Key(head.namespace, head.name)
                if known := self._known.pop(key, None):
                    last = self._read(key, raw)
                    await submit(Gone(key, known.obj if last is None else last))
            case _:  # BOOKMARK: only the version counts
                pass

    async def _take(
        self, head: _Meta, raw: msgspec.Raw, submit: Callable[[Change[T]], Awaitable[None]]
    ) -> None:
        key = Key(head.namespace, head.name)
        known = self._known.get(key)
        if known and (known.uid, known.version) == (head.uid, head.resource_version):
            return
        obj = self._read(key, raw)
        if known and (obj is None or known.uid != head.uid):
            del self._known[key]
            await submit(Gone(key, known.obj))
        if obj is not None:
            self._known[key] = _Known(head.uid, head.resource_version, obj)
            await submit(Upserted(key, obj))

    def _read(self, key: Key, raw: msgspec.Raw) -> T | None:
        try:
            return self._decode(bytes(raw))
        except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
            log.error("object.unreadable", kind=self._kind.kind, key=key, error=repr(error))
            return None

    def _note(self, error: Exception) -> None:
        self._failures += 1
        log.warning("watch.broken", kind=self._kind.kind, error=str(error), failures=self._failures)

    async def _pause(self) -> None:
        if self._failures:
            shortest, longest = self._pause_s
            # the exponent is capped so that a long outage cannot overflow the float
            pause_s = min(longest, shortest * 2.0 ** min(self._failures - 1, 30))
            await asyncio.sleep(pause_s * self._chance.uniform(0.5, 1.0))
