"""Every scenario under health/ through the judge that healthd runs."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from sublet_healthd.core.annotation import read_annotation, write_annotation
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import BreakerRestored, Restored
from sublet_healthd.core.policyfile import preset
from sublet_healthd.core.replay import ORIGIN_MS, Replay

from sublet.model.health import Mode
from sublet.wire.health import breaker_in, breaker_out, verdict_in, verdict_out

FOLDER = Path(__file__).parent / "health"
FILES = sorted(FOLDER.glob("*.yaml"))
SCENARIO = {"report", "rule", "policy", "mode", "lines", "expect"}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_sequence_of_observations_comes_to_what_its_file_says(path: Path) -> None:
    scenario = yaml.safe_load(path.read_text())
    assert scenario.keys() <= SCENARIO
    found = judged(scenario)
    wanted = scenario["expect"]
    assert [narrowed(line, like) for line, like in zip(found, wanted, strict=False)] == wanted, found
    assert len(found) == len(wanted), found


def test_every_report_of_the_list_has_a_scenario() -> None:
    numbers = {int(path.name[:2]) for path in FILES}
    listed = {*range(1, 12), 13, 16, 17, 20, 21, 22, 24, 26, 27, 28, 29}
    assert listed <= numbers


def judged(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    policy = replace(
        preset(scenario.get("policy", "catalogue")), mode=Mode(scenario.get("mode", Mode.ENFORCE))
    )
    judge, found = Replay(policy), list[dict[str, Any]]()
    for number, line in enumerate(scenario["lines"], start=1):
        if line["kind"] == "restart":
            found += judge.line(json.dumps({"t": line["t"], "kind": "tick"}), number)
            judge.engine = started_anew(judge.engine, by=line["by"], now_ms=ORIGIN_MS + line["t"] * 1000)
            continue
        record = line if line["kind"] in ("tick", "breaker") else {"node": "N", "card": "C0", **line}
        found += judge.line(json.dumps(record), number)
    return found


def started_anew(engine: Engine, *, by: str, now_ms: int) -> Engine:
    """Killed, and made anew from the bus or from the nodes' annotations."""
    again = Engine(engine.policy)
    for node in engine.known.nodes():
        cards = engine.known.of_node(node)
        if by == "annotation":
            text = write_annotation(cards)
            stored = read_annotation(node, text) if text else []
        else:
            verdicts = [state.verdict for state in cards if state.verdict]
            stored = [Restored(verdict=verdict_in(verdict_out(one))) for one in verdicts]
        for one in stored:
            again.handle(one, now_ms=now_ms)
    again.handle(BreakerRestored(breaker_in(breaker_out(engine.breaker))), now_ms=now_ms)
    return again


def narrowed(line: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """`line` with no more keys than `like` has."""
    return {key: value for key, value in line.items() if key in like}
