"""Starts and stops the embedded API server on loopback."""

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
import yaml
from aiohttp import web

from sublet.demo.apiserver.admission import Admission, Predicates
from sublet.demo.apiserver.faults import Faults, WatchEnd
from sublet.demo.apiserver.handler import Handler
from sublet.demo.apiserver.registry import Registry
from sublet.demo.apiserver.store import Store
from sublet.kube.access import Access
from sublet.kube.kind import NAMESPACES
from sublet.runtime.clock import unix_ms

HOST = "127.0.0.1"
NAMESPACES_AT_START = ("default", "kube-system", "kube-public", "kube-node-lease")
LARGEST_BODY_BYTES = 3 * 2**20
NOTHING: Mapping[tuple[str, str], str] = MappingProxyType({})
NO_PREDICATES: Predicates = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """The server's own certificate and the CA that clients should trust."""

    context: ssl.SSLContext
    ca_pem: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """A running server: its address, its objects and what can be made to go wrong."""

    url: str
    store: Store
    faults: Faults
    ca_pem: bytes | None = None

    @property
    def access(self) -> Access:
        if self.ca_pem is None:
            return Access(url=self.url)
        return Access(url=self.url, tls=ssl.create_default_context(cadata=self.ca_pem.decode()))

    def write_kubeconfig(self, path: Path, *, user: str = "system:admin") -> None:
        """A kubeconfig for any client; the user's name is the token."""
        cluster: dict[str, str] = {"server": self.url}
        if self.ca_pem is not None:
            cluster["certificate-authority-data"] = b64encode(self.ca_pem).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "demo", "cluster": cluster}],
            "users": [{"name": "demo", "user": {"token": user}}],
            "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
            "current-context": "demo",
        }
        path.write_text(yaml.safe_dump(config))


@asynccontextmanager
async def serve_api(
    *,
    port: int = 0,
    tls: ServerTls | None = None,
    predicates: Predicates = NO_PREDICATES,
    service_urls: Mapping[tuple[str, str], str] = NOTHING,
    history_events: int = 10_000,
    bookmark_every_s: float = 10.0,
    clock_ms: Callable[[], int] = unix_ms,
) -> AsyncIterator[ApiServer]:
    """Serve until the block ends; open watches are then closed as after their time.

    `port` 0 takes a free one. `predicates` stand for the matchConditions of webhooks, `service_urls` for the
    Services that webhooks are reached by.
    """
    store, faults = Store(history_events=history_events), Faults()
    async with aiohttp.ClientSession() as session:
        admission = Admission(session=session, predicates=predicates, service_urls=service_urls)
        registry = Registry(store=store, admission=admission, unix_ms=clock_ms)
        for name in NAMESPACES_AT_START:
            await registry.create(
                NAMESPACES, "", {"metadata": {"name": name}}, dry_run=False, user="system:admin"
            )
        handler = Handler(registry, faults, bookmark_every_s=bookmark_every_s)
        app = web.Application(client_max_size=LARGEST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", handler.handle)
        # a client that leaves must not leave its watch behind
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, port, ssl_context=tls.context if tls else None)
            await site.start()
            bound = runner.addresses[0][1]
            scheme = "https" if tls else "http"
            yield ApiServer(
                url=f"{scheme}://{HOST}:{bound}",
                store=store,
                faults=faults,
                ca_pem=tls.ca_pem if tls else None,
            )
        finally:
            faults.end_watches(WatchEnd.CLOSE)
            await runner.cleanup()
