"""Folders where the real kubelet has cgroups."""

import shutil
from pathlib import Path


class Cgroups:
    def __init__(self, root: Path) -> None:
        self._pods = root / "kubepods" / "burstable"
        self._pods.mkdir(parents=True, exist_ok=True)

    def make(self, uid: str, container: str) -> None:
        (self._pods / f"pod{uid}" / container).mkdir(parents=True, exist_ok=True)

    def remove(self, uid: str) -> None:
        shutil.rmtree(self._pods / f"pod{uid}", ignore_errors=True)
