"""What the overlays render to is what was reviewed."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.lab import binaries
from tests.manifests.rendering import COMPONENTS, GOLDEN, KUSTOMIZE, OVERLAYS, render

pytestmark = pytest.mark.api


@pytest.fixture(autouse=True)
def kubectl() -> None:
    binaries.require("kubectl")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_renders_as_reviewed(overlay: str) -> None:
    golden = GOLDEN / f"{overlay}.yaml"
    assert golden.exists(), f"overlay {overlay} was never reviewed: run `make manifests` and read it"
    assert render(KUSTOMIZE / "overlays" / overlay) == golden.read_text(), (
        f"overlay {overlay} renders differently than reviewed: run `make manifests`, then read the diff"
    )


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_fits_the_base(component: str, tmp_path: Path) -> None:
    tree = shutil.copytree(KUSTOMIZE, tmp_path / "kustomize")
    overlay = tree / "overlays" / "trial"
    overlay.mkdir()
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../../base"],
        "components": [f"../../components/{component}"],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    base = render(tree / "base")
    assert render(overlay) != base
