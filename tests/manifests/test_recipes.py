"""What the pages tell people to write into an overlay renders, and what is written there holds."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab import binaries
from tests.manifests.rendering import (
    COMPONENTS,
    KUSTOMIZE,
    ROOT,
    config_map,
    objects,
    render,
    variables_of,
)

PAGES = ROOT / "docs" / "howto"
NAMED = re.compile(r"^```yaml\n# my-sublet/([a-z.-]+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PART = re.compile(r"^(?:components|configMapGenerator|patches|images|resources):", re.MULTILINE)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = "/etc/sublet/files"
Json = dict[str, Any]


def blocks(page: str, name: str) -> list[str]:
    """The texts of `my-sublet/<name>` that a page shows."""
    return [text for found, text in NAMED.findall((PAGES / page).read_text()) if found == name]


def recipes() -> Iterator[Any]:
    for page in sorted(path.name for path in PAGES.glob("*.md")):
        for number, text in enumerate(blocks(page, "kustomization.yaml")):
            yield pytest.param(page, yaml.safe_load(text), id=f"{page}-{number}")


def settings_of_components() -> Iterator[tuple[str, str, str, str]]:
    """Component, service, setting and value of all that components set for a service as a whole."""
    for component in COMPONENTS:
        folder = KUSTOMIZE / "components" / component
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        for generator in kustomization.get("configMapGenerator", ()):
            for literal in generator.get("literals", ()):
                name, _, value = literal.partition("=")
                yield component, generator["name"].partition("-")[0], name, value


def merge(service: str, **settings: str) -> Json:
    """The generator by which an overlay changes settings."""
    return {
        "name": f"{service}-settings",
        "namespace": "sublet-node" if service == "agent" else "sublet-system",
        "behavior": "merge",
        "literals": [f"{name}={value}" for name, value in settings.items()],
    }


class Checkout:
    """A copy of the manifests with the folder `my-sublet` beside them, as the pages take it to lie."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(KUSTOMIZE, folder / "deploy" / "kustomize")
        self.overlay = folder / "my-sublet"
        self.overlay.mkdir()

    def render(self, page: str, recipe: Json) -> list[Json]:
        """The objects of the overlay of install.md with what another page adds, and that page's files."""
        [first, *_] = blocks("install.md", "kustomization.yaml")
        (self.overlay / "kustomization.yaml").write_text(yaml.safe_dump(yaml.safe_load(first) | recipe))
        for generator in recipe.get("configMapGenerator", ()):
            for name in generator.get("files", ()):
                shown = blocks(page, name)
                (self.overlay / name).write_text(shown[0] if shown else f"{name} of {page}")
        return objects(render(self.overlay))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    binaries.require("kubectl")
    return Checkout(tmp_path)


@pytest.mark.api
@pytest.mark.parametrize(("page", "recipe"), list(recipes()))
def test_what_a_page_says_to_write_renders(page: str, recipe: Json, checkout: Checkout) -> None:
    rendered = checkout.render(page, recipe)
    for generator in recipe.get("configMapGenerator", ()):
        service = generator["name"].partition("-")[0]
        for literal in generator.get("literals", ()):
            name, _, value = literal.partition("=")
            assert variables_of(service, rendered)[name] == value


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_every_part_of_an_overlay_that_a_page_shows_is_named_and_so_rendered(page: str) -> None:
    parts = [text for text in YAML.findall((PAGES / page).read_text()) if PART.search(text)]
    assert [text for text in parts if not text.startswith("# my-sublet/kustomization.yaml\n")] == []


@pytest.mark.api
@pytest.mark.parametrize(("component", "service", "setting", "value"), list(settings_of_components()))
def test_what_an_overlay_says_of_a_setting_comes_before_what_a_component_says(
    component: str, service: str, setting: str, value: str, checkout: Checkout
) -> None:
    recipe: Json = {"components": [f"../deploy/kustomize/components/{component}"]}
    assert variables_of(service, checkout.render("", recipe))[setting] == value
    for theirs in ("33", ""):
        recipe["configMapGenerator"] = [merge(service, **{setting: theirs})]
        assert variables_of(service, checkout.render("", recipe))[setting] == theirs


@pytest.mark.api
@pytest.mark.parametrize("page", ["idle-cards.md", "install.md"])
def test_a_file_that_a_setting_names_is_the_one_beside_the_overlay(page: str, checkout: Checkout) -> None:
    [recipe] = [
        one
        for one in map(yaml.safe_load, blocks(page, "kustomization.yaml"))
        if any("files" in generator for generator in one.get("configMapGenerator", ()))
    ]
    rendered = checkout.render(page, recipe)
    for service in ("scheduler", "healthd"):
        named = {value for value in variables_of(service, rendered).values() if value.startswith(FILES)}
        there = {f"{FILES}/{name}": text for name, text in mounted(service, rendered).items()}
        assert named == there.keys()
        for path, text in there.items():
            assert text == (checkout.overlay / Path(path).name).read_text()


def mounted(service: str, entries: list[Json]) -> dict[str, str]:
    """The files at the place for files of a service."""
    [workload] = [
        one for one in entries if one["kind"] == "Deployment" and service in one["metadata"]["name"]
    ]
    pod = workload["spec"]["template"]["spec"]
    [name] = [one["name"] for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == FILES]
    [source] = [one["configMap"] for one in pod["volumes"] if one["name"] == name]
    assert source["optional"] is True
    if source["name"] == f"{service}-files":  # without a hash: nobody made it
        return {}
    return config_map(source["name"], entries)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_in_the_table_of_the_page_on_installing(component: str) -> None:
    assert f"\n| `{component}` | " in (PAGES / "install.md").read_text()
