"""What Prometheus can scrape from each service."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.reference.page import ROOT, code, codes, page, table
from tools.reference.source import literal, trees, words

TYPES = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "_gauge": "gauge",
    "Histogram": "histogram",
}
LABELS_THIRD = {"Counter", "Gauge", "Histogram"}
"""Those whose third argument is not a value."""


def render() -> str:
    blocks = [
        "Every service answers `/metrics`, `/healthz` and `/readyz` on `SUBLET_PROBE_PORT`. Labels of cards are named "
        "so that series join with those of dcgm-exporter."
    ]
    for service in ("agent", "scheduler", "healthd"):
        rows = sorted(_rows(ROOT / "services" / service))
        blocks += [f"## sublet-{service}", table(("metric", "type", "labels", "means"), rows)]
    return page("Metrics", *blocks)


def _rows(folder: Path) -> Iterator[tuple[str, ...]]:
    for path, tree in trees():
        if path.is_relative_to(folder):
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TYPES:
                    yield from _row(node, TYPES[node.func.id], path)


def _row(call: ast.Call, kind: str, path: Path) -> Iterator[tuple[str, ...]]:
    if not call.args or not isinstance(call.args[0], ast.Attribute):  # another Counter, or given the name
        return
    [name] = words(call.args[0], path)
    text = literal(call.args[1])
    if text is None:
        raise ValueError(f"{path}:{call.lineno}: metric {name} says nothing of itself")
    labels = [one.value for one in call.keywords if one.arg in ("labels", "labelnames")]
    if isinstance(call.func, ast.Name) and call.func.id in LABELS_THIRD:
        labels += call.args[2:3]
    names = [label for node in labels for label in words(node, path)]
    full = f"{name}_total" if kind == "counter" else name
    yield code(full), kind, codes(names), text.rstrip(".")
