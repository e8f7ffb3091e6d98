"""The port's adapter for a real API server: aiohttp and JSON, nothing in between.

Requests share a bounded number of places and each has a time limit; watches are apart from both.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, assert_never

import aiohttp
import msgspec

from sublet.kube.access import Access, find_access
from sublet.kube.answers import refusal
from sublet.kube.errors import Invalid, Unavailable
from sublet.kube.kind import Kind
from sublet.kube.port import (
    EVERYTHING,
    Apply,
    Json,
    JsonPatch,
    MergePatch,
    Objects,
    Patch,
    Propagation,
    Selection,
    StrategicPatch,
)

PAGE_OBJECTS = 500
READ_CHUNK_BYTES = 2**20
BROKEN = (aiohttp.ClientError, OSError, TimeoutError)


class KubeClient:
    """Talks to one API server over one connection pool; open it with `connect` or `open_client`."""

    def __init__(
        self,
        access: Access,
        session: aiohttp.ClientSession,
        *,
        timeout_s: float,
        mute_after_s: float,
        max_in_flight: int,
    ) -> None:
        self._access = access
        self._session = session
        self._timeout_s = timeout_s
        self._mute_after_s = mute_after_s
        self._places = asyncio.Semaphore(max_in_flight)

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Json:
        return await self._json("GET", kind.path(namespace=_required(kind, namespace), name=name))

    async def list(self, kind: Kind, select: Selection = EVERYTHING) -> Objects:
        found: Objects = []
        token = ""
        while True:
            page = msgspec.json.decode(
                await self.page(kind, select, limit=PAGE_OBJECTS, continue_token=token)
            )
            # items of a list come without apiVersion and kind
            found += [
                {"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in page["items"] or []
            ]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def create(
        self,
        kind: Kind,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        where = namespace or body.get("metadata", {}).get("namespace")
        path = kind.path(namespace=_required(kind, where), name=name, subresource=subresource)
        return await self._json("POST", path, body=body, query=_dry(dry_run))

    async def update(
        self, kind: Kind, body: Mapping[str, Any], *, subresource: str = "", dry_run: bool = False
    ) -> Json:
        meta = body["metadata"]
        where = _required(kind, meta.get("namespace"))
        path = kind.path(namespace=where, name=meta["name"], subresource=subresource)
        return await self._json("PUT", path, body=body, query=_dry(dry_run))

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Patch,
        *,
        namespace: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        path = kind.path(namespace=_required(kind, namespace), name=name, subresource=subresource)
        content_type, body, query = _spell(patch)
        return await self._json(
            "PATCH", path, body=body, query=query | _dry(dry_run), content_type=content_type
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> Json:
        only = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {key: value for key, value in only.items() if value is not None} or None,
            "gracePeriodSeconds": grace_period_s,
            "propagationPolicy": propagation,
            "dryRun": ["All"] if dry_run else None,
        }
        body = {key: value for key, value in options.items() if value is not None}
        path = kind.path(namespace=_required(kind, namespace), name=name)
        return await self._json("DELETE", path, body=body)

    async def raw(self, path: str) -> bytes:
        return await self._ask("GET", path)

    async def page(
        self, kind: Kind, select: Selection = EVERYTHING, *, limit: int, continue_token: str = ""
    ) -> bytes:
        query = _selecting(select) | {"limit": str(limit)}
        if continue_token:
            query["continue"] = continue_token
        return await self._ask("GET", kind.path(namespace=select.namespace), query=query)

    @asynccontextmanager
    async def watch(
        self, kind: Kind, select: Selection = EVERYTHING, *, resource_version: str, within_s: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        path = kind.path(namespace=select.namespace)
        query = _selecting(select) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(within_s),
        }
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=self._mute_after_s)
        async with AsyncExitStack() as held:
            try:
                response = await held.enter_async_context(
                    self._send("GET", path, query=query, timeout=limits)
                )
            except BROKEN as error:
                raise Unavailable(f"WATCH {path} broke: {error!r}") from error
            yield _lines(response.content, asked=f"WATCH {path}")

    async def _json(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        answer = await self._ask(method, path, body=body, query=query, content_type=content_type)
        try:
            return msgspec.json.decode(answer, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"{method} {path} was answered with no JSON object: {answer[:200]!r}"
            ) from error

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._places,
                self._send(method, path, data=data, query=query, content_type=content_type) as response,
            ):
                return await response.read()
        except TimeoutError as error:
            raise Unavailable(f"{method} {path} had no answer within {self._timeout_s} s") from error
        except BROKEN as error:
            raise Unavailable(f"{method} {path} broke: {error!r}") from error

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        *,
        data: bytes | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = content_type
        if self._access.authorization and (authorization := await self._access.authorization()):
            headers["Authorization"] = authorization
        async with self._session.request(
            method,
            self._access.url + path,
            params=query,
            data=data,
            headers=headers,
            timeout=timeout or aiohttp.ClientTimeout(total=None),
            server_hostname=self._access.server_name,
            allow_redirects=False,
        ) as response:
            if response.status >= 300:
                body = await response.read()
                raise refusal(
                    code=response.status, headers=response.headers, body=body, asked=f"{method} {path}"
                )
            yield response


@asynccontextmanager
async def open_client(
    access: Access, *, timeout_s: float = 10.0, mute_after_s: float = 90.0, max_in_flight: int = 32
) -> AsyncIterator[KubeClient]:
    """A client for this server, closed at the end of the block.

    `timeout_s` limits each request, waiting for one of the `max_in_flight` places included. A watch without
    any line for `mute_after_s` counts as broken; the server's bookmarks come about once a minute.
    """
    connector = aiohttp.TCPConnector(limit=0, ssl=access.tls or True)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=READ_CHUNK_BYTES) as session:
        yield KubeClient(
            access,
            session,
            timeout_s=timeout_s,
            mute_after_s=mute_after_s,
            max_in_flight=max_in_flight,
        )


@asynccontextmanager
async def connect(
    kubeconfig: Path | None = None,
    *,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
    timeout_s: float = 10.0,
) -> AsyncIterator[KubeClient]:
    """A client for the cluster that the kubeconfig or the pod's service account names."""
    access = await find_access(env=env, kubeconfig=kubeconfig, context=context)
    async with open_client(access, timeout_s=timeout_s) as client:
        yield client


async def _lines(content: aiohttp.StreamReader, *, asked: str) -> AsyncIterator[bytes]:
    """Split by hand: the reader's own readline refuses lines of a few MiB."""
    pieces: list[bytes] = []
    while True:
        try:
            chunk = await content.readany()
        except BROKEN as error:
            raise Unavailable(f"{asked} broke: {error!r}") from error
        if not chunk:
            return
        first, *rest = chunk.split(b"\n")
        pieces.append(first)
        for part in rest:
            if line := b"".join(pieces):
                yield line
            pieces = [part]


def _spell(patch: Patch) -> tuple[str, object, dict[str, str]]:
    match patch:
        case JsonPatch(operations):
            return "application/json-patch+json", list(operations), {}
        case MergePatch(body):
            return "application/merge-patch+json", body, {}
        case StrategicPatch(body):
            return "application/strategic-merge-patch+json", body, {}
        case Apply():
            query = {"fieldManager": patch.field_manager, "force": str(patch.force).lower()}
            return "application/apply-patch+yaml", patch.body, query  # JSON is YAML
        case _:
            assert_never(patch)


def _selecting(select: Selection) -> dict[str, str]:
    query = {"labelSelector": select.labels, "fieldSelector": select.fields}
    return {key: value for key, value in query.items() if value}


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _required(kind: Kind, namespace: str | None) -> str | None:
    if kind.namespaced and not namespace:
        raise Invalid(f"a {kind.kind} needs a namespace", hint="Pass namespace=")
    return namespace
