"""The commands of `sublet`, from its argument parser."""

import argparse
from collections.abc import Iterator

from sublet.cli.main import build_parser
from tools.reference.page import code, codes, page, table

EXIT = (
    ("0", "the command did its work, also when pods are held or refused"),
    (
        "1",
        "it could not: no cluster, a check failed; of `sublet migrate`: something stands against it; of "
        "`sublet replay`: an event is decided otherwise; of `sublet health policy lint`: a difference from the "
        "vendor is not explained",
    ),
    ("2", "wrong usage or unreadable input; file, document and line stand on standard error"),
)


def render() -> str:
    blocks = [
        "`kubectl sublet` is the same program. Tables on a terminal, aligned text in a pipe, `-o json` everywhere.",
        table(("exit code", "means"), EXIT),
    ]
    whole = build_parser()
    for parser in _parsers(whole):
        if parser is whole:
            continue
        blocks += [
            f"## {parser.prog}",
            parser.description or "",
            table(("argument", "values", "notes"), _rows(parser)),
        ]
    return page("Commands", *blocks)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    children = [
        child
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for child in action.choices.values()
    ]
    yield parser
    for child in children:
        yield from _parsers(child)


def _rows(parser: argparse.ArgumentParser) -> list[tuple[str, ...]]:
    return [_row(action) for action in parser._actions if action.dest != "help"]


def _row(action: argparse.Action) -> tuple[str, ...]:
    name = codes(action.option_strings) if action.option_strings else code(action.metavar or action.dest)
    values = "" if action.nargs == 0 else code(action.metavar or action.dest.upper())
    if action.choices is not None:
        values = codes(action.choices)
    said = (
        (action.help or "") % {"default": action.default}
        if "%(" in (action.help or "")
        else action.help or ""
    )
    notes = [said] if said else []
    if action.required and action.option_strings:
        notes.append("required")
    if action.choices is not None and action.default and "default" not in said:
        notes.append(f"default: {action.default}")
    return name, values, "; ".join(notes)
