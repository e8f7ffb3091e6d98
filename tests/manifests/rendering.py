"""Renders the Kustomize overlays; as a program it accepts today's renders as the reviewed ones."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.lab import binaries

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "deploy" / "kustomize"
GOLDEN = Path(__file__).parent / "golden"
OVERLAYS = sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (KUSTOMIZE / "components").iterdir())


def render(folder: Path) -> str:
    """What `kubectl kustomize` makes of this folder."""
    command = [str(binaries.binary("kubectl")), "kustomize", str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def reviewed(overlay: str) -> list[dict[str, Any]]:
    """The objects of an overlay as they were last reviewed; needs no kubectl."""
    return objects((GOLDEN / f"{overlay}.yaml").read_text())


def objects(rendered: str) -> list[dict[str, Any]]:
    return [entry for entry in yaml.safe_load_all(rendered) if entry]


def added_by(component: str) -> list[dict[str, Any]]:
    """The objects that a component brings; needs no kubectl."""
    folder = KUSTOMIZE / "components" / component
    named = yaml.safe_load((folder / "kustomization.yaml").read_text()).get("resources", ())
    return [entry for name in named for entry in objects((folder / name).read_text())]


def with_components(*components: str) -> list[dict[str, Any]]:
    """The objects of the base with these components."""
    with tempfile.TemporaryDirectory() as folder:
        tree = shutil.copytree(KUSTOMIZE, Path(folder) / "kustomize")
        overlay = tree / "overlays" / "trial"
        overlay.mkdir()
        kustomization = {
            "resources": ["../../base"],
            "components": [f"../../components/{name}" for name in components],
        }
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return objects(render(overlay))


def variables_of(service: str, entries: list[dict[str, Any]]) -> dict[str, str]:
    """The environment of a service among these objects, as the kubelet makes it: the last source of a name
    counts, and what is written beside it counts more."""
    [container] = [
        container
        for workload in entries
        if workload["kind"] in ("Deployment", "DaemonSet")
        for container in workload["spec"]["template"]["spec"]["containers"]
        if container["name"] == service
    ]
    given: dict[str, str] = {}
    for source in container["envFrom"]:
        given |= config_map(source["configMapRef"]["name"], entries)
    return given | {one["name"]: one.get("value", "from-the-pod") for one in container["env"]}


def config_map(name: str, entries: list[dict[str, Any]]) -> dict[str, str]:
    """What the ConfigMap of exactly this name holds."""
    [found] = [one for one in entries if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name]
    data: dict[str, str] = found.get("data", {})
    return data


def main() -> None:
    for overlay in OVERLAYS:
        (GOLDEN / f"{overlay}.yaml").write_text(render(KUSTOMIZE / "overlays" / overlay))
        print(f"accepted {overlay}")


if __name__ == "__main__":
    main()
