"""Judge placement policies on the openb trace, or serve the scheduler's engine to another judge.

    python bench/openb.py --traces DIR                      the engine, fill and churn
    python bench/openb.py --traces DIR --policy fgd         another policy of bench/policies
    python bench/openb.py --traces DIR --policy "cmd:PROGRAM ARGS"
    python bench/openb.py --serve                           answer requests on standard input

The trace is published in github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023/csv.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "services" / "scheduler")]

from bench.figure import percentile  # noqa: E402
from bench.policies import fgd, scan  # noqa: E402
from bench.policies.ablations import ABLATIONS  # noqa: E402
from bench.policies.sublet import SubletPolicy  # noqa: E402
from bench.referee import trace  # noqa: E402
from bench.referee.lines import Factory, Process, serve  # noqa: E402
from bench.referee.runs import Policy, run_churn, run_fill  # noqa: E402
from sublet.model import claim  # noqa: E402

POLICIES: dict[str, Factory] = {
    "fragmentation": partial(SubletPolicy, policy=claim.Policy.FRAGMENTATION),
    "binpack": partial(SubletPolicy, policy=claim.Policy.BINPACK),
    "spread": partial(SubletPolicy, policy=claim.Policy.SPREAD),
    **ABLATIONS,
    "fgd": fgd.fgd,
    "first-fit": scan.first_fit,
    "best-fit": scan.best_fit,
    "chance": scan.chance,
    "kube-scheduler": scan.stock,
    "gpushare": scan.gpushare,
    "hami": scan.hami,
    "kai": scan.kai,
}
LEVELS = (80, 90, 100, 130)
Row = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder with the trace's CSV files")
    parser.add_argument("--policy", default="fragmentation", help=f"{', '.join(POLICIES)}, or cmd:PROGRAM")
    parser.add_argument("--workload", default="default", help="names of pod lists, joined by commas")
    parser.add_argument("--scenario", default="fill,churn", help="fill, churn or both")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--arrivals", type=int, default=60_000, help="of a churn; a third is measured")
    parser.add_argument("--no-history", action="store_true", help="the policy has to learn the workload")
    parser.add_argument("--serve", action="store_true", help="speak JSON lines instead")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(factory(arguments.policy), sys.stdin, sys.stdout)
        return
    if arguments.traces is None:
        parser.error(f"--traces is missing; the trace is published in {trace.SOURCE}")
    for workload in arguments.workload.split(","):
        for scenario in arguments.scenario.split(","):
            rows = [
                measure(
                    factory(arguments.policy),
                    arguments.traces,
                    workload,
                    scenario,
                    seed,
                    history=not arguments.no_history,
                    arrivals=arguments.arrivals,
                )
                for seed in range(arguments.seeds)
            ]
            figures = "  ".join(f"{key}={value}" for key, value in summary(rows).items())
            print(f"{workload} {scenario} {arguments.policy}: {figures}", flush=True)


def factory(policy: str) -> Factory:
    if policy.startswith("cmd:"):
        return partial(Process, policy.removeprefix("cmd:"))
    if policy not in POLICIES:
        raise SystemExit(f"no policy {policy!r}; there are {', '.join(POLICIES)}")
    return POLICIES[policy]


def measure(
    make: Factory, traces: Path, workload: str, scenario: str, seed: int, *, history: bool, arrivals: int
) -> Row:
    """One run of one policy."""
    nodes, shapes = trace.load_nodes(traces), trace.load_shapes(traces, workload)
    target = trace.history(shapes)
    policy = make(nodes, target if history else (), seed)
    try:
        return judge(policy, nodes, shapes, target, scenario, seed, arrivals)
    finally:
        if isinstance(policy, Process):
            policy.close()


def judge(
    policy: Policy,
    nodes: Sequence[trace.Node],
    shapes: Sequence[trace.Shape],
    target: trace.Target,
    scenario: str,
    seed: int,
    arrivals: int,
) -> Row:
    if scenario == "churn":
        churn = run_churn(nodes, shapes, policy, seed, arrivals=arrivals)
        row = {"mean_alloc": churn.mean_allocated, "placed_share": churn.placed_share}
        return row | _times(churn.times_us)
    capacity = trace.CARD * sum(one.cards for one in nodes)
    fill = run_fill(nodes, trace.inflate(shapes, capacity, 1.3, seed), policy, target)
    row = {f"alloc@{at}": fill.allocated[at] for at in LEVELS if at in fill.allocated}
    row |= {"fragmented": fill.fragmented_percent, "refused_though_feasible": fill.refused_though_feasible}
    return row | _times(fill.times_us)


def _times(times_us: Sequence[float]) -> Row:
    return {"p50_us": percentile(times_us, 50), "p99_us": percentile(times_us, 99)}


def summary(rows: Sequence[Row]) -> Row:
    """Means, and standard deviations of what is allocated."""
    found = {key: round(fmean(row[key] for row in rows), 2) for key in rows[0]}
    if len(rows) > 1:
        for key in ("alloc@100", "mean_alloc"):
            if key in found:
                found[f"{key} sd"] = round(stdev(row[key] for row in rows), 2)
    return found


if __name__ == "__main__":
    main()
