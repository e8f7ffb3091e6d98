"""Servers that several suites share, so that each starts once a run."""

from tests.lab.fixtures import api_server

__all__ = ["api_server"]
