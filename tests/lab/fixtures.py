"""pytest fixtures of the lab; a conftest.py imports those that its tests use."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.lab import binaries
from tests.lab.controlplane import ControlPlane


@pytest.fixture(scope="session")
def api_server() -> Iterator[ControlPlane]:
    """One etcd and kube-apiserver for the whole run; each test takes names of its own."""
    binaries.require(*binaries.API_SERVER)
    plane = ControlPlane()
    asyncio.run(plane.start("apiserver"))
    yield plane
    asyncio.run(plane.stop())


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """One control plane with scheduler and controller-manager for the whole run."""
    binaries.require(*binaries.CONTROL_PLANE)
    plane = ControlPlane()
    asyncio.run(plane.start("control-plane"))
    yield plane
    asyncio.run(plane.stop())
