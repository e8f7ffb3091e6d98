"""Container images without a registry: docker-archive tars made from files of this machine."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PAUSE = "lab.local/pause:1"
BUSYBOX = "lab.local/busybox:1"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_FOLDERS = ("bin", "etc", "tmp", "proc", "sys", "dev", "usr", "usr/bin", "root", "var", "run")
_PAUSE_C = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int s){ _exit(0); }
static void reap(int s){ while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void){ signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap); for(;;) pause(); }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a layer; Python takes compiled modules only while their source has the time it had."""

    name: str
    content: bytes
    mode: int = 0o644
    modified_s: int = 0


def write_image(path: Path, tag: str, *, layer: bytes, command: list[str], env: Mapping[str, str]) -> None:
    """Write an image of one layer (the bytes of a tar) as the archive that `ctr images import` reads."""
    layer_digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": _MACHINES[os.uname().machine],
            "os": "linux",
            "created": "2026-01-01T00:00:00Z",
            "config": {"Cmd": command, "Env": [f"{key}={value}" for key, value in env.items()]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
            "history": [{"created": "2026-01-01T00:00:00Z", "created_by": "lab"}],
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{layer_digest}/layer.tar"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": [layer_name]}]).encode()
    unfinished = path.with_suffix(".new")
    with tarfile.open(unfinished, "w") as archive:
        for name, content in ((config_name, config), (layer_name, layer), ("manifest.json", manifest)):
            _add(archive, File(name=name, content=content))
    unfinished.rename(path)


def make_layer(files: Iterable[File], links: Iterable[tuple[str, str]] = ()) -> bytes:
    """A tar of the usual empty folders, these files and symbolic links (name, target)."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        for file in files:
            _add(archive, file)
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return whole.getvalue()


def _add(archive: tarfile.TarFile, file: File) -> None:
    entry = tarfile.TarInfo(file.name)
    entry.size, entry.mode, entry.mtime = len(file.content), file.mode, file.modified_s
    archive.addfile(entry, io.BytesIO(file.content))


def _pause() -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        source, program = Path(scratch, "pause.c"), Path(scratch, "pause")
        source.write_text(_PAUSE_C)
        subprocess.run(["gcc", "-Os", "-static", "-s", "-o", program, source], check=True)
        return program.read_bytes()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = {"PATH": "/bin:/usr/bin:/sbin:/usr/sbin"}
    layer = make_layer([File(name="pause", content=_pause(), mode=0o755)])
    write_image(folder / "pause.tar", PAUSE, layer=layer, command=["/pause"], env=path)
    busybox = Path("/bin/busybox")
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    layer = make_layer(
        [
            File(name="bin/busybox", content=busybox.read_bytes(), mode=0o755),
            File(name="etc/passwd", content=b"root:x:0:0:root:/root:/bin/sh\n"),
            File(name="etc/group", content=b"root:x:0:\n"),
        ],
        [(f"bin/{applet}", "busybox") for applet in listed if applet != "busybox"],
    )
    write_image(folder / "busybox.tar", BUSYBOX, layer=layer, command=["sh"], env=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
