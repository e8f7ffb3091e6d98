"""The API servers that the Kubernetes contract runs against, and short words for what it needs.

The fixtures are handed on by conftest.py.
"""

import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from sublet.demo.apiserver.server import serve_api
from sublet.kube.access import Access
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import NAMESPACES
from sublet.kube.port import Json
from tests.lab.controlplane import ControlPlane
from tests.lab.pki import Pki

Review = Callable[[Json], Json]
"""From an AdmissionReview's request to its response without the uid."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=[pytest.mark.api, pytest.mark.timeout(120)])])
def real_plane(request: pytest.FixtureRequest) -> ControlPlane | None:
    """The real control plane where the parameter says so; None stands for the embedded server."""
    if request.param == "embedded":
        return None
    plane: ControlPlane = request.getfixturevalue("api_server")
    return plane


@pytest.fixture
async def access(real_plane: ControlPlane | None) -> AsyncIterator[Access]:
    if real_plane:
        yield Access(url=real_plane.url, tls=real_plane.ssl_context())
        return
    async with serve_api() as server:
        yield server.access


@pytest.fixture
async def kube(access: Access) -> AsyncIterator[KubeClient]:
    async with open_client(access) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    """A namespace of the test's own; label `test` carries its name."""
    name = f"test-{uuid4().hex[:8]}"
    await kube.create(NAMESPACES, {"metadata": {"name": name, "labels": {"test": name}}})
    yield name
    await kube.delete(NAMESPACES, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A webhook that is listening: where, and what it was asked."""

    url: str
    ca_bundle: str
    asked: list[Json]


@asynccontextmanager
async def webhook(
    folder: Path, answer: Callable[[Json], Awaitable[Json] | Json], *, host: str = "127.0.0.1"
) -> AsyncIterator[Hook]:
    """Serve admission reviews over TLS on loopback, with a certificate for `host`."""
    pki = Pki(folder / f"pki-{uuid4().hex[:6]}")
    certificate, key = pki.server("webhook", hosts=(host,))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    asked: list[Json] = []

    async def on_review(request: web.Request) -> web.Response:
        review: dict[str, Any] = await request.json()
        asked.append(review["request"])
        said = answer(review["request"])
        response = await said if isinstance(said, Awaitable) else said
        return web.json_response(
            {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], **response},
            }
        )

    app = web.Application(client_max_size=8 * 2**20)
    app.router.add_post("/mutate", on_review)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        ca_bundle = base64.b64encode(pki.ca.read_bytes()).decode()
        yield Hook(url=f"https://127.0.0.1:{port}/mutate", ca_bundle=ca_bundle, asked=asked)
    finally:
        await runner.cleanup()
