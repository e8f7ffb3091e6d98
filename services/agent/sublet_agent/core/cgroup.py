"""Pod UIDs in cgroup paths, in the kubelet's two spellings."""

import re

from sublet.model.ids import PodUid

# cgroupfs: kubepods/burstable/pod<uid>/<container>
# systemd:  kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid, '_' for '-'>.slice/<container>
_CGROUPFS = re.compile(r"pod([0-9A-Za-z][-0-9A-Za-z]{7,})")
_SYSTEMD = re.compile(r"(?:[-\w]+-)?pod([0-9A-Za-z][_0-9A-Za-z]{7,})\.slice")
KUBEPODS = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")


def pod_of_directory(name: str) -> PodUid | None:
    """The pod whose own cgroup directory has this name."""
    if found := _SYSTEMD.fullmatch(name):
        return PodUid(found[1].replace("_", "-"))
    if found := _CGROUPFS.fullmatch(name):
        return PodUid(found[1])
    return None


def pod_of_process(cgroups: str) -> PodUid | None:
    """The pod of a process from its ``/proc/<pid>/cgroup``."""
    for line in cgroups.splitlines():
        for part in line.split(":", 2)[-1].split("/"):
            if (uid := pod_of_directory(part)) is not None:
                return uid
    return None
