"""What only the source text says: docstrings of fields, and calls with literal arguments."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.reference.page import ROOT

CODE = (ROOT / "sublet", ROOT / "services")


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module that is shipped, but for generated ones."""
    for folder in CODE:
        for path in sorted(folder.rglob("*.py")):
            if not {"v1", "kubelet", "amd"} & set(path.relative_to(ROOT).parts[1:2]):
                yield path, _tree(path)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[2:] if parts[0] == "services" else parts)


def field_texts(cls: type[object]) -> dict[str, str]:
    """The strings that stand below the fields of a class."""
    [definition] = [node for node in ast.parse(inspect.getsource(cls)).body if isinstance(node, ast.ClassDef)]
    texts: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = literal(below.value) if isinstance(below, ast.Expr) else None
            if text is not None:
                texts[field.target.id] = " ".join(text.split())
    return texts


def literal(node: ast.expr) -> str | None:
    """The text of a literal string."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def words(node: ast.expr, path: Path) -> tuple[str, ...]:
    """A list of strings as written: literals, names of constants, and both unpacked."""
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(word for item in node.elts for word in words(item, path))
    if isinstance(node, ast.Starred):
        return words(node.value, path)
    if isinstance(node, ast.Name):
        value = getattr(importlib.import_module(module_name(path)), node.id)
        return (value,) if isinstance(value, str) else tuple(value)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        value = getattr(getattr(importlib.import_module(module_name(path)), node.value.id), node.attr)
        return (value,) if isinstance(value, str) else tuple(value)
    text = literal(node)
    if text is None:
        raise ValueError(f"{path}:{node.lineno}: {ast.unparse(node)} is not a list of words")
    return (text,)
