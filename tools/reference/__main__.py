"""`python -m tools.reference [--check]`: writes the pages, or says which are not fresh."""

import argparse
import sys
from collections.abc import Callable

from tools.reference import (
    bus,
    commands,
    dialects,
    events,
    formats,
    keys,
    logevents,
    metrics,
    policy,
    reasons,
    settings,
)
from tools.reference.page import ROOT

FOLDER = ROOT / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "bus.md": bus.render,
    "commands.md": commands.render,
    "dialects.md": dialects.render,
    "events.md": events.render,
    "formats.md": formats.render,
    "health.md": policy.render,
    "keys.md": keys.render,
    "log-events.md": logevents.render,
    "metrics.md": metrics.render,
    "reasons.md": reasons.render,
    "settings.md": settings.render,
}
# Written by bench/ from what it measured, which no second run repeats to the digit.
MEASURED = frozenset({"quality.md"})


def stale() -> list[str]:
    """Names of pages that differ from the code, or that nothing makes."""
    there = {path.name for path in FOLDER.glob("*.md")} - MEASURED
    differing = {
        name for name, render in PAGES.items() if name not in there or (FOLDER / name).read_text() != render()
    }
    return sorted(differing | (there - PAGES.keys()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a page is not fresh")
    if parser.parse_args().check:
        old = stale()
        if old:
            print(
                f"docs/reference is not what the code says: {', '.join(old)}. Run `make docs`.",
                file=sys.stderr,
            )
        return int(bool(old))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale():
        if name in PAGES:
            (FOLDER / name).write_text(PAGES[name]())
        else:
            (FOLDER / name).unlink()
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
