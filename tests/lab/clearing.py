"""Clears away lab runs: a finished one, and, at the next start, those that a kill -9 cut off.

The kernel gives a run's lock back when its process dies, so a dead run is told from a living one; its
programs are found by the mark in their environment, never by a number that may be a stranger's by now.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

MARK = "LAB_RUN"
ROOT = Path("/tmp")  # not TMPDIR: a socket's path ends at 108 characters
PREFIX = "sl-"


def reap_dead_runs() -> None:
    """Clear away what runs of this user left behind that were killed before they could."""
    for folder in ROOT.glob(f"{PREFIX}*"):
        lock = folder / "lock"
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_uid != os.getuid() or not lock.exists():
                continue
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                clear(folder)
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)


def take_lock(folder: Path) -> int:
    """Lock a file before it has its final name, so that nobody sees a living run unlocked."""
    unfinished = folder / "lock.new"
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unfinished.rename(folder / "lock")
    return descriptor


def clear(folder: Path) -> None:
    """End every program with the run's mark, then remove its cgroups, network links and folder."""
    end_marked(f"{MARK}={folder}", cgroups=f"{folder.name}-*")
    _remove_kernel_objects(folder.name)
    shutil.rmtree(folder, ignore_errors=True)


def end_marked(entry: str, *, cgroups: str) -> None:
    """KILL every program with this entry in its environment, and whatever is in cgroups of these names."""
    mark = entry.encode()
    late_at = time.monotonic() + 10
    while time.monotonic() < late_at:
        processes = [path for top in _cgroups(cgroups) for path in top.glob("**/cgroup.procs")]
        contained = {int(pid) for path in processes for pid in _read(path).split()}
        living = [pid for pid in {*_all_pids(), *contained} if pid in contained or _is_marked(pid, mark)]
        for pid in living:
            _kill(pid, mark, contained=pid in contained)
        if not living:
            break
        time.sleep(0.05)


def _kill(pid: int, mark: bytes, *, contained: bool) -> None:
    """KILL through a descriptor that was opened before the mark was looked at, so that no stranger is hit."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if contained or _is_marked(pid, mark):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself
    finally:
        os.close(descriptor)


def _is_marked(pid: int, mark: bytes) -> bool:
    if pid == os.getpid():
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state != b"Z" and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _cgroups(name: str) -> list[Path]:
    """The cgroups of this name or pattern, at the top of the one hierarchy (v2) or of each (v1)."""
    return [path for pattern in (name, f"*/{name}") for path in Path("/sys/fs/cgroup").glob(pattern)]


def _remove_kernel_objects(run: str) -> None:
    for top in _cgroups(f"{run}-*"):
        for cgroup in sorted([top, *top.glob("**/")], reverse=True):
            with contextlib.suppress(OSError):
                cgroup.rmdir()
    for link in Path("/sys/class/net").glob(f"{run}-*"):
        subprocess.run(["ip", "link", "delete", link.name], check=False, capture_output=True)
