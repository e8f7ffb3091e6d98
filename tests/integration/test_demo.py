"""The demo as a user runs it, and the live commands against the cluster that it keeps up."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(150)

SUBLET = (sys.executable, "-c", "import sys; from sublet.cli.main import main; sys.exit(main())")
WITHIN_S = 120
STOP_WITHIN_S = 20


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that has told its story and stays up; `env` is how other commands reach it."""

    process: subprocess.Popen[str]
    told: str
    env: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*SUBLET, *arguments], env=self.env, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )

    def json(self, *arguments: str) -> Any:
        ran = self.run(*arguments, "-o", "json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        ran = self.run(*arguments, "-o", "json")
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    process = subprocess.Popen(
        [*SUBLET, "demo", "--check", "--keep"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield Demo(process, *_told(process))
    finally:
        process.terminate()
        process.communicate(timeout=STOP_WITHIN_S)


def _told(process: subprocess.Popen[str]) -> tuple[str, dict[str, str]]:
    assert process.stdout
    told: list[str] = []
    for line in process.stdout:
        told.append(line)
        if found := re.search(r"export KUBECONFIG=(\S+) SUBLET_NATS_URL=(\S+)", line):
            process.stdout.readline()
            return "".join(told), os.environ | {"KUBECONFIG": found[1], "SUBLET_NATS_URL": found[2]}
    raise AssertionError(f"{''.join(told)}\n{process.communicate(timeout=STOP_WITHIN_S)[1]}")


def test_every_step_is_told_with_what_was_read_back(demo: Demo) -> None:
    assert re.findall("^== (.*)$", demo.told, re.MULTILINE) == [
        "three nodes with four cards join",
        "pods in three spellings get their cards",
        "an idle card breaks: it leaves scheduling",
        "a card breaks under its pods: they run on, and nobody else comes",
        "a new pod finds no healthy room: it waits and knows why",
        "pods end: the broken card goes out as well, and the waiting pod gets a good one",
        "what subscribers of the bus were told",
    ]
    assert "48 of 64 slots allocatable" in demo.told
    assert "pod, ledger and container agree on the cards of 4 containers" in demo.told
    assert "2 x Unhealthy" in demo.told
    assert "condemned -> quarantined reasons=xid:79" in demo.told


def test_cards_show_health_and_who_sits_where(demo: Demo) -> None:
    cards = {one["card"]: one for one in demo.json("cards")}
    assert {card: one["health"] for card, one in cards.items()} == {
        "GPU-a1": "healthy",
        "GPU-a0": "quarantined",
        "GPU-b0": "quarantined",
        "GPU-c0": "healthy",
    }
    assert cards["GPU-a0"]["reasons"] == ["xid:79"]
    assert [one["pod"] for one in cards["GPU-a1"]["containers"]] == ["demo/late"]
    assert (cards["GPU-a1"]["usedMiB"], cards["GPU-a1"]["usedCorePercent"]) == (32768, 0)


def test_the_inventory_of_the_cluster_places_offline(demo: Demo, tmp_path: Path) -> None:
    inventory = tmp_path / "live.yaml"
    inventory.write_text(demo.run("cards", "-o", "inventory").stdout)
    pod = tmp_path / "pod.json"
    limits = {"sublet.dev/gpu-memory": 4096}
    pod.write_text(
        json.dumps(
            {
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
            }
        )
    )
    [placed] = demo.json("place", "-f", str(pod), "--inventory", str(inventory))
    assert placed["containers"]["c"][0]["card"] == "GPU-a1"


def test_explain_says_what_was_asked_and_decided(demo: Demo) -> None:
    told = demo.json("explain", "demo/late")
    assert (told["outcome"], told["phase"], told["node"]) == ("placed", "Running", "node-a")
    assert told["claims"]["server"]["memoryMiB"] == 32768
    assert told["containers"]["server"][0]["card"] == "GPU-a1"


def test_explain_of_no_pod_ends_with_1(demo: Demo) -> None:
    ran = demo.run("explain", "demo/nobody")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "nobody" in ran.stderr


def test_events_can_be_narrowed(demo: Demo) -> None:
    changes = demo.lines("events", "--kind", "health", "--card", "GPU-a0")
    assert [(one["data"]["from"], one["data"]["to"]) for one in changes] == [
        ("healthy", "condemned"),
        ("condemned", "quarantined"),
    ]
    after = demo.lines("events", "--kind", "health", "--since", str(changes[0]["position"]))
    assert changes[1]["position"] in [one["position"] for one in after]
    assert changes[0]["position"] not in [one["position"] for one in after]


def test_the_breaker_is_shown_with_what_can_be_asked_of_it(demo: Demo) -> None:
    assert demo.json("health", "breaker")["state"] == "closed"
    told = demo.run("health", "breaker").stdout.splitlines()
    assert told[0].startswith("closed")
    assert any(line.startswith("  sublet health breaker half-open: ") for line in told)


def test_a_pod_that_is_not_there_is_named_with_the_way_out(demo: Demo) -> None:
    ran = demo.run("explain", "demo/nope")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "sublet: no pod nope in namespace demo. Name another namespace with -n; "
        "`kubectl get pods -A` lists all pods\n"
    )


def test_nothing_stands_against_what_sublet_runs_itself(demo: Demo) -> None:
    told = demo.json("migrate")
    assert (told["against"], told["components"]) == (0, [])
    assert {one["outcome"] for one in told["workloads"]} == {"placed"}


@pytest.mark.parametrize("command", [("events",), ("cards",), ("cards", "-o", "json")], ids=" ".join)
def test_a_reader_that_leaves_early_ends_a_command_quietly(demo: Demo, command: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [*SUBLET, *command], env=demo.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=WITHIN_S) == 0


SUBSCRIBER = """
import asyncio, os
from sublet.client import events

async def main():
    async for event in events(os.environ["SUBLET_NATS_URL"], kinds=["health"], since=0, follow=False):
        print(event.kind)

asyncio.run(main())
"""


def test_a_program_that_reads_events_prints_them_alone(demo: Demo) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SUBSCRIBER],
        env=demo.env,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    assert set(ran.stdout.splitlines()) == {"health"}
    assert ran.stderr == ""


def test_release_asks_twice_about_a_node_that_is_ready(demo: Demo) -> None:
    refused = demo.run("release", "node-c")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "node-c is Ready" in refused.stderr
    assert demo.run("release", "node-x").stderr == "sublet: no node node-x. `kubectl get nodes` lists them\n"
    assert demo.json("release", "node-c", "--force", "--by", "tester")["releaseRequested"].startswith(
        "tester "
    )


def test_ctrl_c_ends_it_and_leaves_nothing_behind(demo: Demo) -> None:
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=STOP_WITHIN_S) == 0
    assert not Path(demo.env["KUBECONFIG"]).parent.exists()
    ran = demo.run("cards")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "the bus does not answer" in ran.stderr


STANDING_IN = """
import os, sys
sys.path.remove(os.environ["PYTHONPATH"])  # for the children only
from sublet.cli.main import main
sys.exit(main(["demo"]))
"""


def demo_with(folder: Path, service: str, program: str) -> subprocess.CompletedProcess[str]:
    """The demo, with `program` in place of one of the services."""
    package = folder / service
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-c", STANDING_IN],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def test_a_service_that_only_sleeps_is_found_out(tmp_path: Path) -> None:
    asleep = "import signal\nprint('asleep', flush=True)\nsignal.pause()\n"
    ran = demo_with(tmp_path, "sublet_scheduler", asleep)
    assert ran.returncode == 1
    assert "failed at 'three nodes with four cards join'" in ran.stderr
    assert "scheduler | asleep" in ran.stderr


def test_a_service_that_dies_ends_the_demo_at_once(tmp_path: Path) -> None:
    ran = demo_with(tmp_path, "sublet_healthd", "import sys\nsys.exit('no licence')\n")
    assert ran.returncode == 1
    assert "healthd ended with 1" in ran.stderr
    assert "healthd | no licence" in ran.stderr
