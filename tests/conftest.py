"""Servers that several suites share, so that each starts once a run."""

import os

from hypothesis import settings

from tests.lab.fixtures import api_server

__all__ = ["api_server"]

# A machine may be busy, so no example has a deadline; in CI the same examples run every time, so that a
# change is judged by its own faults, while at home every run looks for new ones.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
