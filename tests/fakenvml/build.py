"""Compiles the stand-in with gcc, once a test run."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.fakenvml.control import FakeNvml
from tests.lab.binaries import unmet

SOURCE = Path(__file__).with_name("fakenvml.c")
SONAME = "libnvidia-ml.so.1"
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread")


@functools.cache
def _compiled(*flags: str) -> bytes:
    if shutil.which("gcc") is None:
        unmet("gcc is not there to compile the stand-in for NVIDIA's library")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / SONAME
        command = ["gcc", *FLAGS, *flags, f"-Wl,-soname,{SONAME}", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True, timeout=60)  # all of it is ours
        return library.read_bytes()


def fake_nvml(folder: Path, *, old: bool = False) -> FakeNvml:
    """A library of its own in `folder`, without cards; two folders are two drivers. An old one does not have
    the calls that came later."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / SONAME
    library.write_bytes(_compiled(*(["-DOLD_DRIVER"] if old else [])))
    return FakeNvml(library)
