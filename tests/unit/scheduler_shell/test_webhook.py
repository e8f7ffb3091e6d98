"""The webhook's server: what is no review, what cannot be answered, and how it stops."""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest
from sublet_scheduler.shell import authority
from sublet_scheduler.shell.certs import load
from sublet_scheduler.shell.review import Request, allow
from sublet_scheduler.shell.webhook import Answering, serve_webhook

from sublet.model.errors import Unavailable

REVIEW = {"request": {"uid": "r1", "operation": "CREATE", "kind": {"kind": "Pod"}, "object": {}}}


async def yes(request: Request) -> bytes:
    return allow(request.uid)


async def undecidable(request: Request) -> bytes:
    raise Unavailable(f"no decision for {request.uid}")


@asynccontextmanager
async def served(claims: Answering) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    now = datetime.now(UTC)
    made = authority.new_authority(now)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(tls, authority.sign_leaf(made, ["127.0.0.1"], now))
    trust = ssl.create_default_context(cadata=made.bundle.decode())
    async with (
        serve_webhook(host="127.0.0.1", port=0, tls=tls, claims=claims, elsewhere=yes) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
    ):
        yield session, f"https://127.0.0.1:{port}"


async def test_a_review_is_answered_under_its_own_uid() -> None:
    async with served(yes) as (session, url):
        for path in ("/mutate", "/mutate-elsewhere"):
            async with session.post(url + path, json=REVIEW) as answer:
                assert answer.status == 200
                assert (await answer.json())["response"] == {"uid": "r1", "allowed": True}


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"request": {}}', b"\xff"])
async def test_what_is_no_review_is_refused_as_such(body: bytes) -> None:
    async with served(yes) as (session, url), session.post(f"{url}/mutate", data=body) as answer:
        assert answer.status == 400


async def test_a_pod_of_three_mebibytes_is_read() -> None:
    review = io.BytesIO(json.dumps(REVIEW | {"padding": "x" * 3 * 2**20}).encode())
    async with served(yes) as (session, url), session.post(f"{url}/mutate", data=review) as answer:
        assert answer.status == 200


async def test_trouble_of_ours_is_no_refusal_but_an_error() -> None:
    async with served(undecidable) as (session, url), session.post(f"{url}/mutate", json=REVIEW) as answer:
        assert answer.status == 503


async def test_closing_lets_a_review_in_flight_finish() -> None:
    asked, decided = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> bytes:
        asked.set()
        await decided.wait()
        return allow(request.uid)

    async def post(session: aiohttp.ClientSession, url: str) -> int:
        async with session.post(f"{url}/mutate", json=REVIEW) as answer:
            return answer.status

    now = datetime.now(UTC)
    made = authority.new_authority(now)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(tls, authority.sign_leaf(made, ["127.0.0.1"], now))
    trust = ssl.create_default_context(cadata=made.bundle.decode())
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
        asyncio.TaskGroup() as group,
    ):
        async with serve_webhook(host="127.0.0.1", port=0, tls=tls, claims=slow, elsewhere=yes) as port:
            posting = group.create_task(post(session, f"https://127.0.0.1:{port}"))
            await asked.wait()
            asyncio.get_running_loop().call_later(0.05, decided.set)
        assert await posting == 200
