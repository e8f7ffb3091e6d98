"""Fixtures of the tests that talk to a real kube-apiserver."""

from tests.lab.fixtures import api_server, control_plane

__all__ = ["api_server", "control_plane"]
