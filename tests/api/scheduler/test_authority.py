"""The webhook's CA is deleted, spoilt and rotated under load, and no GPU pod is refused or goes by unseen."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
from sublet_scheduler.shell import authority

from sublet.contract import keys
from tests.api.pods import MERGE
from tests.api.scheduler.stage import SERVICE, Stage
from tests.api.scheduler.team import Team, annotations, gates
from tests.builders import container, pod

pytestmark = [pytest.mark.api, pytest.mark.timeout(120)]

AUTHORITY = "/api/v1/namespaces/sublet-system/secrets/sublet-webhook-ca"
AT_ONCE = 4


@asynccontextmanager
async def pods_come_and_go(on: Team) -> AsyncIterator[None]:
    """GPU pods are created without a pause; each must be answered at once, with its cards."""
    enough, names = asyncio.Event(), count()

    async def come_and_go() -> None:
        while not enough.is_set():
            name = f"p{next(names)}"
            made = await on.create(pod(name, container(gpu_memory=64)))
            assert gates(made) == [keys.GATE]
            assert keys.cards_annotation("main") in annotations(made)
            await on.delete(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(come_and_go())
        try:
            yield
        finally:
            enough.set()
    assert next(names) > 100


def said(stage: Stage, event: str) -> int:
    """How often the scheduler logged this event."""
    lines = stage.plane.run.log_path(SERVICE).read_text().splitlines()
    return sum(json.loads(line)["event"] == event for line in lines if line.endswith("}"))


async def until_said(stage: Stage, event: str, times: int) -> None:
    async def so() -> bool:
        return said(stage, event) >= times

    await stage.plane.run.until(f"{event} {times} times", so, within_s=20, of=SERVICE)


async def served_under(stage: Stage) -> bool:
    """Whether a client that trusts the secret's present signer alone can connect."""
    signer = authority.from_secret(await secret(stage)).current.cert
    trusting = ssl.create_default_context(cadata=signer.decode())
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", stage.webhook_port, ssl=trusting)
    except ssl.SSLCertVerificationError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def secret(stage: Stage) -> dict[str, bytes]:
    body = (await stage.plane.call("GET", AUTHORITY)).body
    return {key: base64.b64decode(value) for key, value in body["data"].items()}


async def write(stage: Stage, data: dict[str, bytes]) -> None:
    body = {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}
    answer = await stage.plane.call("PATCH", AUTHORITY, body, content_type=MERGE)
    assert answer.ok, answer.text


async def test_no_gpu_pod_is_refused_whatever_happens_to_the_authority(on: Team) -> None:
    stage = on.stage
    await on.add_node(4)
    renewed, failed = said(stage, "certificate.renewed"), said(stage, "certificate.check_failed")
    async with pods_come_and_go(on):
        before = await secret(stage)
        assert (await stage.plane.call("DELETE", AUTHORITY)).ok
        await until_said(stage, "certificate.renewed", renewed + 1)
        made = await secret(stage)
        assert made["ca.crt"] != before["ca.crt"]
        assert await served_under(stage)

        await write(stage, {"ca.key": b"spoilt"})
        await until_said(stage, "certificate.check_failed", failed + 1)
        found = authority.from_secret(made)
        late = found.current.expires
        await write(stage, authority.to_secret(authority.rotated(found, late)))
        await until_said(stage, "certificate.renewed", renewed + 2)
        assert (await secret(stage))["ca.crt"] == made["next.crt"]
        assert await served_under(stage)
