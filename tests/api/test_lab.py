"""The lab keeps its own promises: runs do not disturb one another, and leave nothing behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.clearing import reap_dead_runs
from tests.lab.controlplane import ControlPlane, LabError, User
from tests.lab.programs import Run

pytestmark = [pytest.mark.api, pytest.mark.timeout(120)]

_KILLED_RUN = """
import os, signal
from tests.lab.programs import Run
run = Run()
pid = run.start("sleeper", ["sleep", "600"])
print(run.folder, pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_user_is_who_the_certificate_says(api_server: ControlPlane) -> None:
    jane = User("jane", ("developers",))
    said = await api_server.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo}", as_=jane)
    assert '"username":"jane"' in said
    assert '"developers"' in said


async def test_a_refused_call_says_why(api_server: ControlPlane) -> None:
    with pytest.raises(LabError, match='User "jane" cannot list resource "pods"'):
        await api_server.kubectl("get", "pods", as_=User("jane"))


def test_a_run_that_was_killed_is_cleared_away_by_the_next() -> None:
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_RUN], check=False, capture_output=True, text=True, cwd=Path.cwd()
    )
    assert killed.returncode == -signal.SIGKILL
    folder, pid = killed.stdout.split()

    reap_dead_runs()

    assert not Path(folder).exists()
    assert not _runs(int(pid))


def _runs(pid: int) -> bool:
    """Whether the program still runs; the dead wait as zombies until whoever inherited them looks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_living_run_is_left_alone() -> None:
    run = Run()
    run.start("sleeper", ["sleep", "600"])
    reap_dead_runs()
    assert run.alive("sleeper")
    assert run.folder.exists()
    await run.close()


async def test_a_program_that_ends_early_is_reported_with_its_log() -> None:
    run = Run()
    run.start("broken", ["sh", "-c", "echo what went wrong; exit 3"])

    async def never() -> bool:
        return False

    with pytest.raises(LabError, match="what went wrong"):
        await run.until("broken ready", never, within_s=30, of="broken")
    await run.close()
