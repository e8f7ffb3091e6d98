"""Checks that a decoded object has the shape that Kubernetes would decode, before anything reads it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TEXTS = object()
"""A mapping of text to text."""
AMOUNTS = object()
"""A mapping of resource names to plain values."""


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A key that Kubernetes does not know and that people write for another."""

    meant: str


Path = tuple[str | int, ...]


def faults(value: Any, shape: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Each place where `value` is not of `shape`, with what is wrong there.

    A shape is a type, TEXTS, AMOUNTS, a list with the shape of its items, or a mapping of known keys to
    shapes; unknown keys pass. Nothing (null) passes everywhere, as in Kubernetes.
    """
    if isinstance(shape, Misspelt):
        if value is not None:
            yield path, f"Kubernetes knows no such key and leaves it out; write {shape.meant}"
        return
    if value is None:
        return
    if shape in (TEXTS, AMOUNTS):
        yield from _flat(value, path, text=shape is TEXTS)
    elif isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            yield path, f"{_short(value)} is not a mapping"
            return
        for key, inner in shape.items():
            yield from faults(value.get(key), inner, (*path, key))
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield path, f"{_short(value)} is not a list"
            return
        for at, item in enumerate(value):
            if item is None:
                yield (*path, at), "an entry is empty"
            yield from faults(item, shape[0], (*path, at))
    elif not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        wanted = {str: "text; put it in quotes", int: "a whole number", bool: "true or false"}[shape]
        yield path, f"{_short(value)} is not {wanted}"


def _flat(value: Any, path: Path, *, text: bool) -> Iterator[tuple[Path, str]]:
    if not isinstance(value, Mapping):
        yield path, f"{_short(value)} is not a mapping"
        return
    for key, one in value.items():
        if not isinstance(key, str):
            yield path, f"the key {_short(key)} is not text; put it in quotes"
        elif text and not isinstance(one, str):
            yield (*path, key), f"{_short(one)} is not text; put it in quotes"
        elif isinstance(one, Mapping | list):
            yield (*path, key), f"{_short(one)} is not a quantity"


def _short(value: Any) -> str:
    return repr(value)[:80]
