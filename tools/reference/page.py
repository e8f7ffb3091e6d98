"""Markdown of a reference page."""

from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTE = "<!-- Generated from the code by `make docs`; do not edit. -->"


def page(title: str, *blocks: str) -> str:
    return "\n\n".join((f"# {title}", NOTE, *blocks)) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(columns), _row(["---"] * len(columns))]
    return "\n".join([*lines, *(_row(row) for row in rows)])


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def codes(words: Iterable[object]) -> str:
    return ", ".join(code(word) for word in words)


def block(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
