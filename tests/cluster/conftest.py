"""Fixtures of the tests that run on real kubelets."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cluster.stage import Namespace, Stage
from tests.lab.fixtures import Cluster, cluster

__all__ = ["cluster"]


@pytest.fixture(scope="session")
def stage(cluster: Cluster) -> Stage:
    """The services on the cluster, for the whole run; each test takes a namespace of its own."""
    stage = Stage(cluster)
    asyncio.run(stage.start())
    return stage


@pytest.fixture
async def place(stage: Stage) -> AsyncIterator[Namespace]:
    """A managed namespace; all its pods are gone when the test ends."""
    namespace = await stage.namespace()
    yield namespace
    await namespace.delete_all()
