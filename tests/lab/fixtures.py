"""pytest fixtures of the lab; a conftest.py imports those that its tests use."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.lab import binaries
from tests.lab.controlplane import ControlPlane
from tests.lab.node import Node


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


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane with two real nodes, one of them with an older kubelet."""

    plane: ControlPlane
    node: Node
    older_node: Node


@contextmanager
def real_cluster() -> Iterator[Cluster]:
    """Start a cluster and take it down again; skips the test where it cannot run."""
    binaries.require(*binaries.CONTROL_PLANE, *binaries.NODE)
    binaries.require("kubelet", version=binaries.OLDER_KUBELET)
    if sys.platform != "linux" or os.getuid() != 0:
        binaries.unmet("real kubelets need Linux and root")
    plane = ControlPlane()
    older = Node(plane, number=2, kubelet_version=binaries.OLDER_KUBELET)
    whole = Cluster(plane, Node(plane, number=1), older)
    try:
        asyncio.run(_start(whole))
        yield whole
    finally:
        asyncio.run(plane.stop())


async def _start(cluster: Cluster) -> None:
    await cluster.plane.start("control-plane")
    async with asyncio.TaskGroup() as group:
        group.create_task(cluster.node.start(), name="node")
        group.create_task(cluster.older_node.start(), name="older node")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One cluster for the whole run; each test takes a namespace of its own."""
    with real_cluster() as whole:
        yield whole
