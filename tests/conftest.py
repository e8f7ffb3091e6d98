"""Servers that several suites share, so that each starts once a run."""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests.lab.fixtures import api_server

__all__ = ["api_server"]


@pytest.fixture(autouse=True)
def logging_of_before() -> Iterator[None]:
    """A command or service that a test runs in this process sets up how the process logs; the next test finds
    it as this one did."""
    root, configured, before = logging.getLogger(), structlog.is_configured(), structlog.get_config()
    handlers, level = root.handlers, root.level
    yield
    if configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)


# A machine may be busy, so no example has a deadline; in CI the same examples run every time, so that a
# change is judged by its own faults, while at home every run looks for new ones.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
