"""How well policies place the pods of the openb trace: writes docs/reference/quality.md, weak rows included.

    python -m bench.quality --traces DIR [--section TITLE]...

It takes most of an hour on two CPUs; the page is written anew after every section, and a section that is not
measured stays as it was.
"""

import argparse
import os
import platform
import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.openb import ROOT, Row, factory, measure, summary

PAGE = ROOT / "docs" / "reference" / "quality.md"
WORKERS = 2
FILLED = ("alloc@80", "alloc@90", "alloc@100", "alloc@100 sd", "alloc@130")
CHURNED = ("mean_alloc", "mean_alloc sd", "placed_share")
WORKLOADS = ("default", "gpuspec25", "gpushare100", "cpu250", "multigpu50")
AIMS = {
    "default": "@100 ≥ 95.3",
    "gpuspec25": "@80 ≥ 79.0, @100 ≥ 94.2",
    "gpushare100": "@100 ≥ 86.4",
    "cpu250": "@100 ≥ 93.4",
    "multigpu50": "@100 ≥ 96.9",
}
PUBLISHED = {
    ("default", "chance"): "86.30",
    ("default", "best-fit"): "92.86",
    ("default", "fgd"): "95.23",
    ("gpuspec25", "chance"): "85.42",
    ("gpuspec25", "best-fit"): "85.67",
    ("gpuspec25", "fgd"): "93.91",
}
"""Mean allocation at 100 % demand of ten seeds, from the results in the artefact of Weng et al."""
COMPARED = (
    "fragmentation",
    "fgd",
    "binpack",
    "first-fit",
    "kai",
    "hami",
    "gpushare",
    "best-fit",
    "chance",
    "spread",
    "kube-scheduler",
)
ABLATED = ("fragmentation", "without-price", "without-stranded")


@dataclass(frozen=True, slots=True)
class Run:
    policy: str
    workload: str
    scenario: str
    seeds: int
    history: bool = True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    sections = _sections()
    titles = [title for title, *_ in sections]
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR")
    parser.add_argument("--section", action="append", choices=titles, metavar="TITLE", help="only this one")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(WORKERS) as workers:
        for title, text, keys, runs in sections:
            if title in (arguments.section or titles):
                made = _section(title, text, keys, runs, arguments.traces, workers)
                found = measured(PAGE.read_text() if PAGE.exists() else "") | {title: made}
                PAGE.write_text("\n".join([_head(), *(found[one] for one in titles if one in found)]))


def measured(page: str) -> dict[str, str]:
    """The sections of a page, by their titles."""
    _, *sections = page.split("\n## ")
    return {one.partition("\n")[0]: f"## {one.rstrip()}\n" for one in sections}


def _sections() -> Sequence[tuple[str, str, Sequence[str], Sequence[Run]]]:
    known = (True, False)
    engine = "fragmentation"
    return (
        (
            "Filling an empty cluster",
            "Pods arrive until they ask for 130 % of the cards; none leaves, and one that does not fit is dropped. "
            "`alloc@x` is the part of all cards in use, in percent, when x % were asked for.",
            FILLED,
            [Run(engine, one, "fill", 5, history) for one in WORKLOADS for history in known],
        ),
        (
            "Pods come and go",
            "60,000 arrivals at random, exponential lifetimes, 105 % asked for; the last third is measured: the mean part of "
            "all cards in use, and the part of what was asked for that was placed, in percent.",
            CHURNED,
            [Run(engine, one, "churn", 3, history) for one in WORKLOADS[:2] for history in known],
        ),
        (
            "Compared with other schedulers' ways",
            "Made anew from what their authors publish, on the same pods. `published` is what the authors of the trace's "
            "method give for their own runs of the same policy, with other random numbers.",
            FILLED,
            [Run(policy, one, "fill", 3) for one in WORKLOADS[:2] for policy in COMPARED],
        ),
        (
            "The same, when pods come and go",
            "As above; one seed.",
            CHURNED,
            [Run(policy, one, "churn", 1) for one in WORKLOADS[:2] for policy in COMPARED],
        ),
        (
            "What each part is worth",
            "The engine without one part of its policy. Without history stands above.",
            FILLED,
            [Run(policy, one, "fill", 2) for one in WORKLOADS for policy in ABLATED],
        ),
    )


def _section(
    title: str,
    text: str,
    keys: Sequence[str],
    runs: Sequence[Run],
    traces: Path,
    workers: ProcessPoolExecutor,
) -> str:
    asked = [(traces, run, seed) for run in runs for seed in range(run.seeds)]
    rows = iter(workers.map(_one, asked))
    lines = [
        f"| workload | policy | workload known | seeds | {' | '.join(keys)} | aim or published |",
        f"| {' | '.join(['---'] * (5 + len(keys)))} |",
    ]
    for run in runs:
        figures = summary([next(rows) for _ in range(run.seeds)])
        known = "yes" if run.history else "no"
        cells = [run.workload, run.policy, known, str(run.seeds)]
        cells += [f"{figures[key]:.2f}" if key in figures else "" for key in keys]
        lines.append(f"| {' | '.join([*cells, _beside(run)])} |")
        print(lines[-1], flush=True)
    return "\n".join(
        [f"## {title}", "", text, "", f"{datetime.now(tz=UTC):%Y-%m-%d}, commit {_commit()}.", "", *lines, ""]
    )


def _one(asked: tuple[Path, Run, int]) -> Row:
    traces, run, seed = asked
    return measure(
        factory(run.policy), traces, run.workload, run.scenario, seed, history=run.history, arrivals=60_000
    )


def _beside(run: Run) -> str:
    if run.scenario == "churn":
        return ""
    if run.policy == "fragmentation" and run.seeds == 5:
        return AIMS[run.workload]
    return f"published {PUBLISHED[key]}" if (key := (run.workload, run.policy)) in PUBLISHED else ""


def _head() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"""# Quality of placement

Written by `python -m bench.quality`; nothing here is typed by hand.
Python {platform.python_version()}, {os.cpu_count()} CPUs, {memory_gib:.0f} GiB of memory.

The cluster is that of the openb trace: 1,213 nodes, 6,212 cards, CPU scarce where most cards are. The pods are the trace's
`default` list, and lists with more pods bound to card models (`gpuspec25`), parts of cards only (`gpushare100`), more pods
without a card (`cpu250`) or of several cards (`multigpu50`). A referee keeps its own account of every placement
(`bench/referee`). `fragmentation`, `binpack` and `spread` are the engine that the scheduler runs. Where the workload is
known, a policy is told the commonest requests beforehand; otherwise it has to learn them. The trace has one size for a
part of a card, so that compute and memory are asked for in the same proportion; a policy that looked at only one of them
would fare alike here.
"""


def _commit() -> str:
    """The newest one that changed what is measured."""
    return _git("log", "-1", "--format=%h", "--", "services/scheduler", "sublet/contract", "bench")


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()


if __name__ == "__main__":
    main()
