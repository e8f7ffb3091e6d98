"""How commands speak: JSON when asked for, a table on a terminal, aligned plain text in a pipe."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

Row = Sequence[str]
LAST_COLUMN_WIDTH = 24


def add_output(parser: argparse.ArgumentParser, *further: str, default: str = "table") -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", *further),
        default=default,
        help=f"default: {default}",
    )


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_line(value: Any) -> None:
    """One value of a stream, as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_table(columns: Row, rows: Sequence[Row]) -> None:
    """On a terminal, leading cells that repeat those of the row above are left empty, and the last column
    wraps; in a pipe every row is whole."""
    widths = [max(len(row[at]) for row in (columns, *rows)) for at in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, rows, widths)
        return
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_rich(columns: Row, rows: Sequence[Row], widths: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    *fixed, last = columns
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(fixed, widths, strict=False):
        table.add_column(column, no_wrap=True, min_width=width)
    table.add_column(last)
    above: Row = ()
    for row in rows:
        same = 0
        while same < min(2, len(above)) and above[same] == row[same]:
            same += 1
        cells = ["" if at < same else cell for at, cell in enumerate(row)]
        table.add_row(*(Text(cell, style=_style(cell)) for cell in cells))
        above = row
    console = Console()
    # a UUID that was cut short is worth nothing: rather let the terminal break the line
    needed = sum(width + 2 for width in widths[:-1]) + min(widths[-1], LAST_COLUMN_WIDTH)
    console.width = max(console.width, needed)
    console.print(table)


_STYLES = {
    "placed": "green",
    "healthy": "green",
    "held": "yellow",
    "suspect": "yellow",
    "recovering": "yellow",
    "condemned": "red",
    "quarantined": "red",
    "lost": "red",
    "refused": "red",
}


def _style(cell: str) -> str:
    return _STYLES.get(cell, "")
