"""No child outlives the process that started it, even where that is killed."""

import asyncio
import sys
from pathlib import Path

import pytest

from sublet.demo.deathsignal import ending_with_us
from tests.eventually import eventually

PARENT = """
import subprocess, sys
from sublet.demo.deathsignal import ending_with_us
code = "import time; print('up', flush=True); time.sleep(60)"
child = subprocess.Popen(ending_with_us((sys.executable, "-c", code)))
print(child.pid, flush=True)
child.wait()
"""


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"  # nobody has asked how


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
async def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert await parent.stdout.readline() == b"up\n"

    parent.kill()
    await parent.wait()

    await eventually(lambda: has_ended(pid))


async def test_a_child_is_the_program_with_its_arguments_and_nothing_else() -> None:
    words = ("-c", "import sys; print(sys.argv[1:], sys.flags.isolated)", "a b", "")
    child = await asyncio.create_subprocess_exec(
        *ending_with_us((sys.executable, *words)), stdout=asyncio.subprocess.PIPE
    )
    told, _ = await child.communicate()
    assert told == b"['a b', ''] 0\n"
