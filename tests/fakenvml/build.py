"""Compiles the stand-in with gcc, once a folder."""

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fakenvml.c")
SONAME = "libnvidia-ml.so.1"
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread")


def build(folder: Path) -> Path:
    """The library in `folder`, made anew where it is missing or older than its source."""
    library = folder / SONAME
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["gcc", *FLAGS, f"-Wl,-soname,{SONAME}", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True, timeout=60)  # all of it is ours
    return library
