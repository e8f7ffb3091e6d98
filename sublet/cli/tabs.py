"""Columns as Go's text/tabwriter aligns them: cells end with a tab, a column lasts while its lines do."""

from collections.abc import Sequence

PADDING = 2


def aligned(text: str) -> str:
    """`text` with its tabs replaced: every cell as wide as the widest of its column, and two spaces more."""
    lines = [line.split("\t") for line in text.split("\n")]
    return "\n".join(_formatted(lines, ()))


def _formatted(lines: Sequence[Sequence[str]], widths: tuple[int, ...]) -> list[str]:
    """`widths` are those of the columns to the left, in which all of `lines` have cells."""
    column = len(widths)
    done: list[str] = []
    at = 0
    while at < len(lines):
        block = at
        while block < len(lines) and column < len(lines[block]) - 1:
            block += 1
        if block == at:
            done.append(_line(lines[at], widths))
            at += 1
            continue
        width = max(len(line[column]) for line in lines[at:block]) + PADDING
        done += _formatted(lines[at:block], (*widths, width))
        at = block
    return done


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=False))
    return "".join((*padded, *cells[len(widths) :]))
