"""The names of log events."""

import ast
import re
from collections import defaultdict

from tools.reference.page import ROOT, code, codes, page, table
from tools.reference.source import literal, trees

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


def render() -> str:
    found: defaultdict[str, set[str]] = defaultdict(set)
    levels: defaultdict[str, set[str]] = defaultdict(set)
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for path, tree in trees():
        for call in ast.walk(tree):
            name = _name(call)
            if name and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                parts = path.relative_to(ROOT).parts
                found[name].add(f"sublet-{parts[1]}" if parts[0] == "services" else "sublet")
                levels[name].add(call.func.attr)
                keys[name] |= {one.arg for one in call.keywords if one.arg}
    rows = [
        (code(name), codes(sorted(levels[name])), codes(sorted(keys[name])), ", ".join(sorted(found[name])))
        for name in sorted(found)
    ]
    return page(
        "Log events",
        "Services log one JSON object a line on standard error (plain text on a terminal): `event` is one of these "
        "names, the rest are its keys. `SUBLET_LOG_LEVEL` says how much.",
        table(("event", "level", "keys", "by"), rows),
    )


def _name(call: ast.AST) -> str:
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS):
        return ""
    name = literal(call.args[0]) if call.args else None
    return name if name and NAME.fullmatch(name) else ""
