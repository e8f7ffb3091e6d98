"""What can go wrong on purpose: answers that never come, come wrong, or watches that end badly."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """This instead of the wanted answer: a proxy's error page, a 410, a 429."""

    code: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer before `until` is set; then the request is served."""

    until: asyncio.Event


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks, before or after the request took effect."""

    after: bool = False


Fault: TypeAlias = Answer | Hang | Cut


class WatchEnd(StrEnum):
    CLOSE = "close"  # as after timeoutSeconds
    CUT = "cut"  # in the middle of a line
    EXPIRE = "expire"  # an ERROR event with code 410
    MUTE = "mute"  # open, but nothing comes any more


@dataclass(slots=True, eq=False)
class OpenWatch:
    """One watch being served; `wake` is set when there is something to send or to obey."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    end: WatchEnd | None = None


@dataclass(frozen=True, slots=True)
class _Planned:
    fault: Fault
    method: str
    path: str


class Faults:
    """The faults planned for coming requests and the watches that can be ended."""

    def __init__(self) -> None:
        self._planned: list[_Planned] = []
        self.watches: set[OpenWatch] = set()

    def plan(self, fault: Fault, *, method: str = "", path: str = "", times: int = 1) -> None:
        """Meet the next `times` requests of this method whose path contains `path` with `fault`."""
        self._planned += [_Planned(fault, method, path)] * times

    def heal(self) -> None:
        """Forget the faults planned and not met."""
        self._planned.clear()

    def next(self, method: str, path: str) -> Fault | None:
        for planned in self._planned:
            if planned.method in ("", method) and planned.path in path:
                self._planned.remove(planned)
                return planned.fault
        return None

    def end_watches(self, how: WatchEnd = WatchEnd.CLOSE) -> None:
        for watch in self.watches:
            watch.end = how
            watch.wake.set()
