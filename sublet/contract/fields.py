"""Reads a document key by key; what is wrong is refused with its value and where it stood."""

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from sublet.model.errors import BadRequest

Word = TypeVar("Word", bound=StrEnum)
Value = TypeVar("Value")


class Fields:
    """One mapping of a document; `finish` refuses the keys that nobody asked for."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise BadRequest(f"{where or 'the document'}: {value!r} is not a mapping")
        self._items: dict[object, object] = dict(value)
        self._known: set[str] = set()
        self._where = where

    def at(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def _take(self, key: str) -> object:
        self._known.add(key)
        return self._items.get(key)

    def required(self, key: str) -> object:
        """Whatever it holds; it must be there."""
        value = self._take(key)
        if key not in self._items:
            raise BadRequest(f"{self.at(key)} is missing")
        return value

    def _wrong(self, key: str, value: object, wanted: str) -> BadRequest:
        return BadRequest(f"{self.at(key)}: {value!r} is not {wanted}")

    def name(self, key: str) -> str:
        """A text that must be there and not be empty."""
        value = self.required(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, value, "a name")
        return value

    def text(self, key: str, default: str = "") -> str:
        value = self._take(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, value, "text; put it in quotes")
        return default if value is None else value

    def choice(self, key: str, words: Collection[str]) -> str:
        """One of `words`; it must be there."""
        value = self.required(key)
        if not isinstance(value, str) or value not in words:
            raise self._wrong(key, value, f"one of {', '.join(words)}")
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key) or None

    def whole(self, key: str, default: int, *, least: int = 0, most: int | None = None) -> int:
        value = self.optional_whole(key, least=least, most=most)
        return default if value is None else value

    def optional_whole(self, key: str, *, least: int = 0, most: int | None = None) -> int | None:
        """A whole number; None where it is absent or null."""
        value = self._take(key)
        if value is None:
            return None
        limits = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._wrong(key, value, limits)
        if most is not None and value > most:
            raise self._wrong(key, value, limits)
        return value

    def whole_or_null(self, key: str, *, least: int) -> int | None:
        """As `optional_whole`, but the key must be written down, with null for unknown."""
        self.required(key)
        return self.optional_whole(key, least=least)

    def number(self, key: str) -> float | None:
        """Any number; None where it is absent or null."""
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(key, value, "a number")
        return float(value)

    def yes(self, key: str) -> bool:
        value = self._take(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return bool(value)

    def word(self, key: str, default: Word) -> Word:
        """One of the words of `default`'s enumeration."""
        return self._one_of(key, self._take(key), default)

    def _one_of(self, key: str, value: object, default: Word) -> Word:
        words = type(default)
        if value is None:
            return default
        if not isinstance(value, str) or value not in list(words):
            raise self._wrong(key, value, f"one of {', '.join(words)}")
        return words(value)

    def _mapping(self, key: str) -> dict[str, object]:
        value = self._take(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "a mapping")
        for name in value:
            if not isinstance(name, str):
                raise BadRequest(f"{self.at(key)}: the key {name!r} is not text; put it in quotes")
        return dict(value)

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of text to text."""
        found: dict[str, str] = {}
        for name, value in self._mapping(key).items():
            if not isinstance(value, str):
                raise self._wrong(f"{key}.{name}", value, "text; put it in quotes")
            found[name] = value
        return found

    def words(self, key: str, example: Word) -> dict[str, Word]:
        """A mapping of text to the words of `example`'s enumeration."""
        found: dict[str, Word] = {}
        for name, value in self._mapping(key).items():
            if value is None:
                raise self._wrong(f"{key}.{name}", value, f"one of {', '.join(type(example))}")
            found[name] = self._one_of(f"{key}.{name}", value, example)
        return found

    def items(
        self, key: str, read: Callable[["Fields", int], Value], *, named_by: str = ""
    ) -> tuple[Value, ...]:
        """A list of mappings; `named_by` is the key whose value names an item in messages."""
        return tuple(read(fields, position) for position, fields in enumerate(self._list(key, named_by)))

    def _list(self, key: str, named_by: str) -> Iterator["Fields"]:
        value = self._take(key)
        if value is None:
            return
        if not isinstance(value, list):
            raise self._wrong(key, value, "a list")
        for position, one in enumerate(value):
            name = one.get(named_by) if named_by and isinstance(one, Mapping) else None
            suffix = f"({name})" if isinstance(name, str) else ""
            yield Fields(one, f"{self.at(key)}[{position}]{suffix}")

    def finish(self) -> None:
        for key in self._items:
            if key not in self._known:
                raise BadRequest(
                    f"unknown key {key!r}" + (f" at {self._where}" if self._where else ""),
                    hint=f"Known: {', '.join(sorted(self._known))}",
                )
