"""`python -m bench [NAME...]`: measures all and writes docs/benchmarks.md; with names, prints only those."""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import structlog

from bench import decisions, endtoend, events, fleet, intake, judge, memory, prestart, webhook
from bench.figure import Figure, Skipped

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
MEASUREMENTS: Mapping[str, Callable[[], list[Figure] | Skipped]] = {
    "decisions": decisions.measure,
    "webhook": webhook.measure,
    "endtoend": endtoend.measure,
    "events": events.measure,
    "intake": intake.measure,
    "judge": judge.measure,
    "fleet": fleet.measure,
    "prestart": prestart.measure,
    "memory": memory.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *MEASUREMENTS], metavar="NAME")
    names = parser.parse_args().names
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    sections = [_section(name) for name in names or MEASUREMENTS]
    if not names:
        PAGE.write_text("\n".join([_head(), *sections]))


def _section(name: str) -> str:
    measure = MEASUREMENTS[name]
    found = measure()
    doc = sys.modules[measure.__module__].__doc__ or ""
    if isinstance(found, Skipped):
        rows = [f"Not measured: {found.why}."]
    else:
        rows = ["| what | figure | aim | |", "| --- | --- | --- | --- |", *(figure.row() for figure in found)]
    text = "\n".join([f"## {name}", "", doc.strip(), "", *rows, ""])
    print(text, flush=True)
    return text


def _head() -> str:
    commit = _git("rev-parse", "--short", "HEAD") + (" with changes" if _git("status", "--porcelain") else "")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"""# Figures

Written by `make bench`; nothing here is typed by hand. {datetime.now(tz=UTC):%Y-%m-%d}, commit {commit},
Python {platform.python_version()}, {os.cpu_count()} CPUs, {memory_gib:.0f} GiB of memory,
load of the minute before the run {_LOAD:.1f}.

CPU time is of the thread or process that does the work; other times are by the clock.
"""


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()


_LOAD = os.getloadavg()[0]

if __name__ == "__main__":
    main()
