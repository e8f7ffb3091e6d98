"""Where the built Kubernetes binaries are, and what a test does when they are not there."""

import os
from pathlib import Path

import pytest

KUBERNETES = "v1.37.2"
OLDER_KUBELET = "v1.34.4"
FOLDER = Path(os.environ.get("SUBLET_LAB") or Path.home() / ".cache" / "sublet-lab")
API_SERVER = ("etcd", "kube-apiserver", "kubectl")
CONTROL_PLANE = (*API_SERVER, "kube-scheduler", "kube-controller-manager")
NODE = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")


def binary(name: str, *, version: str = KUBERNETES) -> Path:
    return FOLDER / "bin" / version / name


def image(name: str) -> Path:
    return FOLDER / "images" / f"{name}.tar"


def require(*names: str, version: str = KUBERNETES) -> None:
    """Skip the test, naming what is missing; fail it where `SUBLET_REQUIRE=all` forbids that."""
    missing = [name for name in names if not binary(name, version=version).exists()]
    if missing:
        unmet(f"not built: {', '.join(missing)} {version}; run `make lab-build`")


def unmet(why: str) -> None:
    """The test cannot run here: a named skip for a person, a failure where nothing may be missing."""
    if os.environ.get("SUBLET_REQUIRE") == "all":
        pytest.fail(why)
    pytest.skip(why)
