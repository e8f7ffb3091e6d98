"""`sublet replay`: a scheduler's flight runs again, and what differs is shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sublet_scheduler.core.state import Rules

from tests.builders import card, container, pod
from tests.unit.cli.running import Sublet
from tests.unit.scheduler.busy import busy
from tests.unit.scheduler.world import World


@pytest.fixture
def flight(tmp_path: Path) -> Path:
    """One pod was placed, one waits."""
    world = World(Rules())
    world.node("n1", card("A"))
    world.create(pod("fits", container(gpu_memory=8192)))
    world.create(pod("waits", container(gpu_memory=8192)))
    file = tmp_path / "flight.jsonl"
    file.write_text("".join(f"{line}\n" for line in world.recorder.lines()))
    return file


def changed(file: Path) -> Path:
    """As another release would have decided."""
    lines = file.read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if '"what":"placed"' in line)
    lines[at] = lines[at].replace('"card":"A"', '"card":"B"')
    file.write_text("\n".join(lines))
    return file


def test_a_flight_of_this_release_does_not_differ(sublet: Sublet, flight: Path) -> None:
    ran = sublet("replay", str(flight))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("0 events differ\n")


def test_what_differs_is_shown_and_makes_the_exit_code_1(sublet: Sublet, flight: Path) -> None:
    ran = sublet("replay", str(changed(flight)))
    assert ran.code == 1
    header, row, summary = ran.out.splitlines()
    assert header.split() == ["EVENT", "T", "KIND", "WAS", "NOW"]
    assert "placed on n1 B" in row
    assert "placed on n1 A" in row
    assert summary.endswith("1 events differ")


def test_json_has_both_decisions_whole(sublet: Sublet, flight: Path) -> None:
    ran = sublet("replay", str(changed(flight)), "-o", "json")
    told = json.loads(ran.out)
    [difference] = told["differences"]
    assert (told["schema"], told["release"], difference["kind"]) == (1, "test", "ReviewAsked")
    cards = [
        [
            grant["card"]
            for one in difference[side]
            if "containers" in one
            for grant in one["containers"]["main"]
        ]
        for side in ("was", "now")
    ]
    assert {"B"} <= set(cards[0])
    assert set(cards[1]) == {"A"}


def test_the_story_of_one_pod_is_told(sublet: Sublet, flight: Path) -> None:
    ran = sublet("replay", str(flight), "--pod", "default/waits")
    assert ran.code == 0
    assert "held (1 InsufficientMemory)" in ran.out
    assert "default/fits" not in ran.out
    told = json.loads(sublet("replay", str(flight), "--pod", "default/fits", "-o", "json").out)
    whats = [one["what"] for step in told["pod"] for one in step["decided"]]
    assert whats == ["pod.decided", "placed", "pod.committed", "pod.released"]


def test_what_is_no_flight_ends_with_2_and_says_where(sublet: Sublet, tmp_path: Path) -> None:
    file = tmp_path / "other"
    file.write_text("{}\n")
    ran = sublet("replay", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert f"{file}: line 1" in ran.err


@pytest.mark.parametrize("text", ["kind: Pod\n", '{"format":"sublet-flight","schema":1}\n', "[]\n"])
def test_an_error_speaks_of_the_file_and_not_of_the_program(sublet: Sublet, text: str) -> None:
    ran = sublet("replay", sublet.file("f", text))
    assert (ran.code, ran.out) == (2, "")
    assert "Error" not in ran.err
    assert "line 1" in ran.err


def test_a_missing_file_is_named_once(sublet: Sublet) -> None:
    ran = sublet("replay", "absent.jsonl")
    assert (ran.code, ran.err) == (2, "sublet: absent.jsonl: No such file or directory\n")


def test_a_bare_name_is_a_pod_of_the_namespace_default(sublet: Sublet, flight: Path) -> None:
    assert "held" in sublet("replay", str(flight), "--pod", "waits").out


def test_a_pod_that_the_flight_does_not_know_ends_with_2_and_names_those_it_knows(
    sublet: Sublet, flight: Path
) -> None:
    ran = sublet("replay", str(flight), "--pod", "ns/other")
    assert (ran.code, ran.out) == (2, "")
    assert "no such pod in this file: nothing was decided of ns/other" in ran.err
    assert "default/fits, default/waits" in ran.err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_flight_is_the_same_in_another_process(tmp_path: Path, seed: str) -> None:
    """No decision depends on the order of a set."""
    file = tmp_path / "flight.jsonl"
    file.write_text("\n".join(busy().recorder.lines()))
    command = [sys.executable, "-c", "from sublet.cli.main import main; raise SystemExit(main())", "replay"]
    ran = subprocess.run(
        [*command, str(file)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
