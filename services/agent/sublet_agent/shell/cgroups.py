"""Which pods have cgroups on this node, and in whose cgroup a process runs."""

import os
from collections.abc import Iterator
from pathlib import Path

from sublet.model.ids import PodUid
from sublet_agent.core.cgroup import KUBEPODS, pod_of_directory, pod_of_process

_DEPTH = 4  # a hierarchy of v1, a cgroup root of the kubelet, and one more of a nested node
_FOREIGN = frozenset({"system.slice", "user.slice", "init.scope"})


def pods_with_cgroups(root: Path) -> frozenset[PodUid] | None:
    """UIDs of all pods with a cgroup in any hierarchy under `root`, v1 or v2.

    None where that cannot be said: something was not readable, or there is no kubepods at all, which means
    that `root` is not the host's.
    """
    found: set[PodUid] = set()
    try:
        tops = list(_kubepods(root, _DEPTH))
        for top in tops:
            for path in _folders(top):
                if (uid := pod_of_directory(path.name)) is not None:
                    found.add(uid)
                else:  # burstable, besteffort
                    found |= {uid for child in _folders(path) if (uid := pod_of_directory(child.name))}
    except OSError:
        return None
    return frozenset(found) if tops else None


def pod_of_pid(pid: int, proc: Path = Path("/proc")) -> PodUid | None:
    """The pod of a process; None outside of pods, and for one that has gone."""
    try:
        return pod_of_process((proc / str(pid) / "cgroup").read_text())
    except OSError:
        return None


def name_of_pid(pid: int, proc: Path = Path("/proc")) -> str:
    """The name of a process's program; empty for one that has gone."""
    try:
        return (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def _kubepods(folder: Path, depth: int) -> Iterator[Path]:
    for path in _folders(folder):
        if KUBEPODS.fullmatch(path.name):
            yield path
        elif depth > 1 and path.name not in _FOREIGN:
            yield from _kubepods(path, depth - 1)


def _folders(folder: Path) -> list[Path]:
    """Sub-folders of `folder`; none where it vanished meanwhile, as cgroups do."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
