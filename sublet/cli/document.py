"""Reads files of YAML or JSON documents and remembers where everything stood."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sublet.cli.errors import Unreadable

STANDARD_INPUT = "-"
Step = str | int


class WrittenFloat(float):
    """A number with a point, which prints as it was written."""

    written: str

    @classmethod
    def of(cls, text: str) -> "WrittenFloat":
        number = cls(text.replace("_", ""))
        number.written = text
        return number

    def __str__(self) -> str:
        return self.written

    __repr__ = __str__


class _Loader(yaml.SafeLoader):
    """YAML as kubectl reads it: no dates, no numbers to the base of 60."""


_UNKNOWN_TO_KUBECTL = ("tag:yaml.org,2002:timestamp",)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _UNKNOWN_TO_KUBECTL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
    text = str(loader.construct_scalar(node))
    if ":" in text:
        return text
    if node.tag.endswith(":int"):
        try:
            return loader.construct_yaml_int(node)
        except ValueError:  # of more digits than Python reads; whoever wants a number refuses it
            return text
    try:
        return WrittenFloat.of(text)
    except ValueError:  # .inf and .nan
        return loader.construct_yaml_float(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file; `number` and `line` count from 1."""

    source: str
    number: int
    line: int
    value: Any
    root: yaml.Node | None = None

    def unreadable(self, message: str, path: Sequence[Step] = (), *, hint: str = "") -> Unreadable:
        return Unreadable(
            message, source=self.source, document=self.number, line=self._line_of(path), hint=hint
        )

    def _line_of(self, path: Sequence[Step]) -> int:
        """Where `path` begins, or the nearest part above it that is there."""
        node, line = self.root, self.line
        for step in path:
            if isinstance(node, yaml.MappingNode):
                found = next(((key, value) for key, value in node.value if key.value == step), None)
                if found is None:
                    break
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line + 1
            else:
                break
        return line


def read_documents(source: str) -> list[Document]:
    """Every document of a file (``-``: standard input), in order, the empty ones left out.

    Raises:
        Unreadable: there is no such file, or it is neither YAML nor JSON.
    """
    text = _text(source)
    name = "standard input" if source == STANDARD_INPUT else source
    if text.lstrip().startswith(("{", "[")):
        try:
            return list(_json(name, text))
        except ValueError:
            pass  # YAML may begin so too, and says better where it is wrong
        except RecursionError:
            raise Unreadable("nested too deeply", source=name) from None
    return [one for one in _yaml(name, text) if one.value is not None]


def read_text(source: str) -> str:
    """The text of a file. Raises Unreadable."""
    return _text(source)


def _text(source: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if source == STANDARD_INPUT else Path(source).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise Unreadable(f"{error.strerror or error}", source=source) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Unreadable(f"not UTF-8: {error.reason}", source=source, line=line) from None


def _json(source: str, text: str) -> Iterator[Document]:
    decoder = json.JSONDecoder(parse_float=WrittenFloat.of)
    at = number = 0
    while (at := _skip_space(text, at)) < len(text):
        number += 1
        value, end = decoder.raw_decode(text, at)
        yield Document(source=source, number=number, line=text.count("\n", 0, at) + 1, value=value)
        at = end


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _yaml(source: str, text: str) -> Iterator[Document]:
    number = 1
    try:
        loader = _Loader(text)
        while loader.check_node() and (root := loader.get_node()):
            value = loader.construct_document(root)
            line = root.start_mark.line + 1
            yield Document(source=source, number=number, line=line, value=value, root=root)
            number += 1
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(f"not YAML: {error.reason}", source=source, document=number, line=line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise Unreadable(f"not YAML: {what}", source=source, document=number, line=line) from None
    except RecursionError:
        raise Unreadable("nested too deeply", source=source, document=number) from None
