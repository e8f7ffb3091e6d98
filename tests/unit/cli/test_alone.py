"""With this package and its two dependencies alone: offline commands work, live ones say what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.builders import pod
from tests.unit.scheduler.world import World

ALONE = """
import sys
ALLOWED = {"sublet", "sublet_scheduler", "sublet_healthd", "yaml", "_yaml", "rich", *sys.stdlib_module_names}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from sublet.cli.main import main
sys.exit(main())
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ALONE, *arguments], capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.timeout(60)  # a process for each command
def test_offline_commands_need_no_extra(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("nodes: [{name: n1, cards: [{uuid: A, memoryMiB: 8192}]}]")
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump(pod()))
    flight = tmp_path / "flight.jsonl"
    flight.write_text("\n".join(World().recorder.lines()))
    for arguments in (
        ("claims", "-f", str(manifest)),
        ("migrate", "-f", str(manifest)),
        ("place", "-f", str(manifest), "--inventory", str(inventory), "-o", "json"),
        ("cards", "--inventory", str(inventory)),
        ("replay", str(flight)),
    ):
        ran = run(*arguments)
        assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("cards",), "client"),
        (("explain", "p"), "client"),
        (("events",), "client"),
        (("release", "n1"), "client"),
        (("migrate",), "client"),
        (("demo",), "demo"),
    ],
)
def test_a_live_command_names_the_extra_that_it_needs(arguments: tuple[str, ...], extra: str) -> None:
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"pip install 'sublet[{extra}]'" in ran.stderr
