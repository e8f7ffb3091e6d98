"""The image of all three services and of nats-server, put together from this Python and its environment.

No image engine is needed: the layer is the interpreter, its standard library, the installed distributions,
this tree's packages, and the shared libraries that `ldd` names for all of them.
"""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.lab.images import File, make_layer, write_image

SUBLET = "lab.local/sublet:1"
_ROOT = Path(__file__).parents[2]
_HOME = "opt/python"
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = f"{_HOME}/lib/{_VERSION}/site-packages"
# parts of the standard library and tools of development that no service imports
_LEFT_OUT = re.compile(
    r"^(site-packages|dist-packages|test|idlelib|tkinter|turtledemo|ensurepip|lib2to3|config-.*|mypy.*|ruff.*|"
    r"hypothesis.*|_hypothesis.*|grpc_tools|grpcio_tools.*|pip|pip-.*|uv|uv-.*|pytest.*|_pytest|.*\.pth|.*\.egg-info)$"
)
_OWN = (
    "sublet",
    "services/agent/sublet_agent",
    "services/scheduler/sublet_scheduler",
    "services/healthd/sublet_healthd",
)


def write_service_image(path: Path) -> None:
    """Write the image as an archive; a service is started with `python3 -m sublet_NAME`."""
    files = {name: _file(name, source) for name, source in _sources()}
    for library in _libraries(source for _, source in _sources()):
        name = str(library).lstrip("/")
        files.setdefault(name, _file(name, library))
    users = b"root:x:0:0:root:/root:/bin/sh\nsublet:x:65532:65532::/:/bin/false\n"
    layer = make_layer(
        [*files.values(), File(name="etc/passwd", content=users)],
        [("usr/bin/python3", f"/{_HOME}/bin/python3")],
    )
    env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"/{_HOME}/lib", "PYTHONUNBUFFERED": "1"}
    write_image(path, SUBLET, layer=layer, command=["python3"], env=env)


def _file(name: str, source: Path) -> File:
    known = source.stat()
    return File(
        name=name, content=source.read_bytes(), mode=known.st_mode & 0o777, modified_s=int(known.st_mtime)
    )


def _sources() -> Iterator[tuple[str, Path]]:
    """Where in the image, and from which file here; libraries aside."""
    yield f"{_HOME}/bin/python3", Path(sys.executable).resolve()
    yield "usr/bin/nats-server", Path(sysconfig.get_path("scripts"), "nats-server")
    for library in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
        yield f"{_HOME}/lib/{library.name}", library
    yield from _tree(Path(sysconfig.get_path("stdlib")), f"{_HOME}/lib/{_VERSION}")
    yield from _tree(Path(sysconfig.get_path("purelib")), _PACKAGES)
    for package in _OWN:
        folder = _ROOT / package
        yield from _tree(folder, f"{_PACKAGES}/{folder.name}")


def _tree(folder: Path, target: str) -> Iterator[tuple[str, Path]]:
    for top in folder.iterdir():
        if _LEFT_OUT.match(top.name):
            continue
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.is_file() and not path.name.startswith("_tkinter"):
                yield f"{target}/{path.relative_to(folder)}", path


def _libraries(sources: Iterable[Path]) -> set[Path]:
    """The shared libraries of the machine that these programs and modules load."""
    loadable = [path for path in sources if ".so" in path.suffixes or path.name.startswith("python")]
    said = subprocess.run(["ldd", *loadable], check=False, capture_output=True, text=True, timeout=60).stdout
    found = {Path(name) for name in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, flags=re.MULTILINE)}
    return {path for path in found if not path.is_relative_to(_ROOT)}
