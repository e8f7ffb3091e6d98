"""Containers of pods whose variables name NVIDIA cards, those from their image among them.

What a container was started with stands in /proc/<pid>/environ of its first process, and which device nodes
it has in the folder that is its root.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from sublet_agent.core.cgroup import pod_of_process
from sublet_agent.core.exposure import NOTHING
from sublet_agent.core.observation import Exposure

VISIBLE = b"NVIDIA_VISIBLE_DEVICES"
CAPABILITIES = b"NVIDIA_DRIVER_CAPABILITIES"
_NODE = re.compile(r"nvidia(\d+)")


def exposures(proc: Path = Path("/proc")) -> tuple[Exposure, ...]:
    """One for each container of a pod that names cards; what cannot be read or has gone is left out."""
    return tuple(_exposures(proc))


def _exposures(proc: Path) -> Iterator[Exposure]:
    seen: set[str] = set()
    pids = sorted(int(path.name) for path in proc.iterdir() if path.name.isdigit())
    for pid in pids:
        try:
            cgroups = (proc / str(pid) / "cgroup").read_text()
            uid = pod_of_process(cgroups)
            if uid is None or cgroups in seen:
                continue
            seen.add(cgroups)
            variables = _variables((proc / str(pid) / "environ").read_bytes())
        except OSError:
            continue
        visible = variables.get(VISIBLE, "")
        if visible not in NOTHING:
            yield Exposure(
                uid=uid,
                visible=visible,
                capabilities=variables.get(CAPABILITIES, ""),
                minors=_minors(proc / str(pid) / "root" / "dev"),
            )


def _variables(environ: bytes) -> dict[bytes, str]:
    """Those of them that are about cards."""
    pairs = (entry.partition(b"=") for entry in environ.split(b"\0"))
    return {
        name: value.decode(errors="replace").strip()
        for name, _, value in pairs
        if name in (VISIBLE, CAPABILITIES)
    }


def _minors(folder: Path) -> frozenset[int]:
    try:
        return frozenset(int(found[1]) for path in folder.iterdir() if (found := _NODE.fullmatch(path.name)))
    except OSError:
        return frozenset()
