"""Fixtures of the tests that talk to a real kube-apiserver."""

import asyncio
import itertools

import pytest

from tests.api.deployment import install
from tests.api.pods import Pods
from tests.lab.controlplane import ControlPlane
from tests.lab.fixtures import control_plane

__all__ = ["control_plane"]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def installed(api_server: ControlPlane) -> ControlPlane:
    """The API server with the deployment's roles and policies in force, and no webhook."""
    asyncio.run(install(api_server))
    return api_server


@pytest.fixture
def pods(installed: ControlPlane) -> Pods:
    """Makes pods, each with a name of its own."""
    return Pods(installed, _numbers)
