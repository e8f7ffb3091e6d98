"""Finds the pod templates of any object: a Deployment has one, a Volcano Job or a PyTorchJob several."""

from collections.abc import Iterator, Mapping
from typing import Any

from sublet.cli.shape import Path
from sublet.contract.podspec import Json

DEEPEST = 12
"""Levels below spec at which a template is looked for."""


def templates(obj: Json) -> Iterator[tuple[Path, Json]]:
    """The pod templates of an object with the path of each; a pod is its own."""
    if obj.get("kind") == "Pod":
        yield (), obj
    else:
        yield from _below(obj.get("spec"), ("spec",))


def _below(value: Any, at: Path) -> Iterator[tuple[Path, Json]]:
    if isinstance(value, Mapping):
        spec = value.get("spec")
        if isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
            yield at, value
            return
        inner = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list) else []
    if len(at) <= DEEPEST:
        for key, one in inner:
            yield from _below(one, (*at, key))


def spelled(path: Path) -> str:
    """As a person writes it: ``spec.tasks[0].template``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
