"""The engine's words as JSON and back: exact, readable, and of known types only.

A dataclass is written as ``{"is": its module and name, field: value}`` without the fields that are empty
by default, a tuple as a list; every other type that JSON lacks has a key that names it.
"""

import base64
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, get_args, get_type_hints

from sublet_scheduler.core.candidates import Index
from sublet_scheduler.core.events import Event
from sublet_scheduler.core.gangs import Gathering
from sublet_scheduler.core.holds import Hold
from sublet_scheduler.core.limits import Amount
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.records import PodRecord
from sublet_scheduler.core.scoring.workload import Seen
from sublet_scheduler.core.state import Reservation, Rules

_IS = "is"
_ROOTS: tuple[type[Any], ...] = (
    *get_args(Event), Rules, Amount, Gathering, Hold, Index, NodeState, PodRecord, Reservation, Seen
)  # fmt: skip


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


def _known() -> dict[str, type[Any]]:
    """All dataclasses and enumerations that an event, the rules or a part of the memory can hold."""
    found: dict[str, type[Any]] = {}
    unseen = set(_ROOTS)
    while unseen:
        one = unseen.pop()
        if is_dataclass(one):
            hints = get_type_hints(one)
            unseen |= {inner for field in fields(one) for inner in _classes(hints[field.name])}
        found[_name(one)] = one
        unseen -= set(found.values())
    return found


def _classes(hint: object) -> Iterator[type[Any]]:
    if isinstance(hint, type) and not get_args(hint) and (is_dataclass(hint) or issubclass(hint, Enum)):
        yield hint
    for inner in get_args(hint):
        yield from _classes(inner)


KNOWN = _known()
"""All classes that a flight may name, by module and name."""
_FIELDS: dict[type[Any], tuple[Field[Any], ...]] = {
    kind: tuple(one for one in fields(kind) if one.init) for kind in KNOWN.values() if is_dataclass(kind)
}

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class Copied:
    """A mutable dataclass as it was: its class, and its values in the order of its fields."""

    __slots__ = ("of", "values")

    def __init__(self, of: type[Any], values: tuple[Any, ...]) -> None:
        self.of = of
        self.values = values


def to_json(value: Any) -> Any:
    """What `json` writes for a value."""
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    writer = _WRITERS.get(kind)
    if writer:
        return writer(value)
    if isinstance(value, Enum):
        return {"enum": f"{_name(kind)}.{value.name}"}
    if kind is Copied:
        return _dataclass_out(value.of, value.values)
    if kind in _FIELDS:
        return _dataclass_out(kind, [getattr(value, one.name) for one in _FIELDS[kind]])
    if isinstance(value, Mapping):
        return _WRITERS[dict](value)
    raise TypeError(f"{kind.__name__} is no word of a flight")


def _dataclass_out(kind: type[Any], values: Any) -> dict[str, Any]:
    out: dict[str, Any] = {_IS: _name(kind)}
    for one, value in zip(_FIELDS[kind], values, strict=True):
        if value or not _empty_by_default(one, value):
            out[one.name] = to_json(value)
    return out


def _empty_by_default(one: Field[Any], value: Any) -> bool:
    default = one.default if one.default_factory is MISSING else one.default_factory()
    return default is not MISSING and type(default) is type(value) and bool(default == value)


def _float_out(value: float) -> Any:
    return value if abs(value) != float("inf") else {"float": str(value)}


_WRITERS: dict[type[Any], Callable[[Any], Any]] = {
    tuple: lambda value: [to_json(one) for one in value],
    float: _float_out,
    list: lambda value: {"list": [to_json(one) for one in value]},
    set: lambda value: {"set": [to_json(one) for one in sorted(value, key=repr)]},
    frozenset: lambda value: {"frozenset": [to_json(one) for one in sorted(value, key=repr)]},
    deque: lambda value: {"deque": [to_json(one) for one in value]},
    dict: lambda value: {"map": [[to_json(key), to_json(one)] for key, one in value.items()]},
    Fraction: lambda value: {"fraction": str(value)},
    bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
    array: lambda value: {"array": value.tolist()},
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "list": lambda raw: [from_json(one) for one in raw],
    "set": lambda raw: {from_json(one) for one in raw},
    "frozenset": lambda raw: frozenset(from_json(one) for one in raw),
    "deque": lambda raw: deque(from_json(one) for one in raw),
    "map": lambda raw: {from_json(key): from_json(one) for key, one in raw},
    "fraction": Fraction,
    "bytes": base64.b64decode,
    "array": lambda raw: array("q", raw),
    "enum": lambda raw: _enum_in(raw),
}


def from_json(raw: Any) -> Any:
    """The value again; raises one of `UNREADABLE` where `raw` is nothing that `to_json` makes."""
    if isinstance(raw, list):
        return tuple(from_json(one) for one in raw)
    if not isinstance(raw, dict):
        return raw
    if _IS in raw:
        return _dataclass_in(raw)
    [(kind, inner)] = raw.items()
    return _READERS[kind](inner)


def _dataclass_in(raw: dict[str, Any]) -> Any:
    kind = KNOWN[raw[_IS]]
    if issubclass(kind, Enum):
        raise TypeError(f"{raw[_IS]} is no dataclass")
    return kind(**{name: from_json(value) for name, value in raw.items() if name != _IS})


def _enum_in(raw: str) -> Any:
    kind, _, name = raw.rpartition(".")
    members = KNOWN[kind]
    if not issubclass(members, Enum):
        raise TypeError(f"{kind} is no enumeration")
    return members[name]
