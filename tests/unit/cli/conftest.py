"""What the tests of commands share."""

from pathlib import Path

import pytest

from tests.unit.cli.running import Sublet


@pytest.fixture
def sublet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sublet:
    return Sublet(tmp_path, capsys)
