"""Runs a command as a user does, and says what came of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sublet.cli.main import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Sublet:
    """`sublet(...)`; files are written beside each other first."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        captured = self._capsys.readouterr()
        return Ran(code=code, out=captured.out, err=captured.err)

    def file(self, name: str, content: str | Mapping[str, Any] | list[Any]) -> str:
        path = self._folder / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump_all([content]))
        return str(path)

    def files(self, *pods: Mapping[str, Any]) -> str:
        path = self._folder / "pods.yaml"
        path.write_text(yaml.safe_dump_all(pods))
        return str(path)

    def claims(self, *pods: Mapping[str, Any], more: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        ran = self("claims", "-f", self.files(*pods), "-o", "json", *more)
        assert ran.code == 0, ran.err
        found: list[dict[str, Any]] = ran.json
        return found

    def place(
        self, *pods: Mapping[str, Any], on: Sequence[Mapping[str, Any]], more: tuple[str, ...] = ()
    ) -> list[dict[str, Any]]:
        inventory = self.file("inventory.yaml", {"nodes": list(on)})
        ran = self("place", "-f", self.files(*pods), "--inventory", inventory, "-o", "json", *more)
        assert ran.code == 0, ran.err
        found: list[dict[str, Any]] = ran.json
        return found
