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
            _add(archive, name, content, 0o644)
    unfinished.rename(path)


def make_layer(files: Iterable[tuple[str, bytes, int]], links: Iterable[tuple[str, str]] = ()) -> bytes:
    """A tar of the usual empty folders, these files (name, content, mode) and links (name, target)."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        for name, content, mode in files:
            _add(archive, name, content, mode)
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return whole.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _pause() -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        source, program = Path(scratch, "pause.c"), Path(scratch, "pause")
        source.write_text(_PAUSE_C)
        subprocess.run(["gcc", "-Os", "-static", "-s", "-o", program, source], check=True)
        return program.read_bytes()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = {"PATH": "/bin:/usr/bin:/sbin:/usr/sbin"}
    write_image(
        folder / "pause.tar",
        PAUSE,
        layer=make_layer([("pause", _pause(), 0o755)]),
        command=["/pause"],
        env=path,
    )
    busybox = Path("/bin/busybox")
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    layer = make_layer(
        [
            ("bin/busybox", busybox.read_bytes(), 0o755),
            ("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644),
            ("etc/group", b"root:x:0:\n", 0o644),
        ],
        [(f"bin/{applet}", "busybox") for applet in listed if applet != "busybox"],
    )
    write_image(folder / "busybox.tar", BUSYBOX, layer=layer, command=["sh"], env=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
