"""A property is tried on many examples: the limit of one test is that of them all, also on a slow machine."""

from pathlib import Path

import pytest

WITHIN_S = 60
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(WITHIN_S))
