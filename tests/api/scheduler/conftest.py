"""Fixtures of the tests that ask the running scheduler through a real API server."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.api.scheduler.stage import Stage
from tests.api.scheduler.team import Team, team
from tests.lab.controlplane import ControlPlane


@pytest.fixture(scope="package")
def stage(installed: ControlPlane) -> Iterator[Stage]:
    """The scheduler and its bus for this folder; each test takes a namespace and nodes of its own."""
    stage = Stage(installed)
    try:
        asyncio.run(stage.start())
        yield stage
    finally:
        asyncio.run(stage.stop())


@pytest.fixture
async def on(stage: Stage) -> AsyncIterator[Team]:
    async with team(stage) as made:
        yield made


@pytest.fixture
async def managed(stage: Stage) -> AsyncIterator[Team]:
    """A namespace in which foreign names count."""
    async with team(stage, managed=True) as made:
        yield made
