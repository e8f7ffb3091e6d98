"""Answers HTTP requests: planned faults first, then discovery, then the objects."""

from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from sublet.demo.apiserver import patching, podactions, protobuf, tables
from sublet.demo.apiserver.answers import Refused, bad_request, no_such_path
from sublet.demo.apiserver.discovery import discovered
from sublet.demo.apiserver.faults import Answer, Cut, Faults, Hang
from sublet.demo.apiserver.registry import Registry
from sublet.demo.apiserver.routes import Target, is_dry_run, is_true, target, whole_number
from sublet.demo.apiserver.selectors import selecting
from sublet.demo.apiserver.watching import Shown, Watched, serve_watch
from sublet.kube.kind import PODS
from sublet.kube.port import Json

_WATCH_S = 1800


class Handler:
    """One for the whole server."""

    def __init__(self, registry: Registry, faults: Faults, *, bookmark_every_s: float) -> None:
        self._registry = registry
        self._faults = faults
        self._bookmark_every_s = bookmark_every_s

    async def handle(self, request: web.Request) -> web.StreamResponse:
        fault = self._faults.next(request.method, request.path)
        match fault:
            case Answer():
                return web.Response(
                    status=fault.code,
                    body=fault.body,
                    content_type=fault.content_type,
                    headers=fault.headers,
                )
            case Hang(until):
                await until.wait()
            case Cut(after=False):
                return _cut(request)
            case _:
                pass
        response = await self._answer(request)
        return _cut(request) if isinstance(fault, Cut) else response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            if (about := discovered(request.path)) is not None:
                return web.Response(text=about) if isinstance(about, str) else _json(about)
            at = target(request.raw_path.partition("?")[0])
            if request.method == "GET" and not at.name:
                return await self._list_or_watch(request, at)
            return await self._object(request, at)
        except Refused as refused:
            headers = {"Retry-After": str(refused.retry_after_s)} if refused.retry_after_s else None
            return _json(refused.status(), code=refused.code, headers=headers)

    async def _list_or_watch(self, request: web.Request, at: Target) -> web.StreamResponse:
        query, store = request.query, self._registry.store
        shown = self._shown(request, at)
        matches = selecting(
            at.kind, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", "")
        )
        if is_true(query, "watch"):
            watched = Watched(
                kind=at.kind,
                namespace=at.namespace,
                matches=matches,
                # 0 and nothing both mean: begin with what is there
                since=whole_number(query, "resourceVersion", default=0) or None,
                within_s=whole_number(query, "timeoutSeconds", default=_WATCH_S),
                bookmarks=is_true(query, "allowWatchBookmarks"),
                shown=shown,
            )
            return await serve_watch(
                request, watched, store, self._faults, bookmark_every_s=self._bookmark_every_s
            )
        limit = whole_number(query, "limit", default=0)
        page = store.page(at.kind, at.namespace, matches, limit=limit, proceed=query.get("continue", ""))
        meta = {"resourceVersion": str(page.version)} | ({"continue": page.proceed} if page.proceed else {})
        if shown:
            return _json(shown([stored.obj for stored in page.items], meta))
        return _json(
            {
                "kind": f"{at.kind.kind}List",
                "apiVersion": at.kind.api_version,
                "metadata": meta,
                "items": [stored.raw for stored in page.items],
            }
        )

    def _shown(self, request: web.Request, at: Target) -> Shown | None:
        """What makes a table of objects, where the request wants one."""
        if not tables.is_wanted(request.headers.get("Accept", "")):
            return None
        include = request.query.get("includeObject", "")

        def shown(objects: Sequence[Json], meta: Json) -> Json:
            now_s = self._registry.unix_ms() // 1000
            return tables.table(at.kind, objects, meta=meta, include=include, now_s=now_s)

        return shown

    async def _object(self, request: web.Request, at: Target) -> web.StreamResponse:
        dry_run, user = is_dry_run(request.query), _user(request)
        registry = self._registry
        match request.method, at.subresource:
            case "GET", "" | "status":
                found, shown = registry.store.get(at.key), self._shown(request, at)
                return _json(shown([found], {}) if shown else found)
            case "POST", "" if not at.name and at.namespace is not None:
                body = await _body(request)
                made = await registry.create(at.kind, at.namespace, body, dry_run=dry_run, user=user)
                return _json(made, code=201)
            case "POST", "binding" if at.kind == PODS:
                body = await _body(request)
                return _json(
                    await podactions.bind(registry, at.key, body, dry_run=dry_run, user=user), code=201
                )
            case "POST", "eviction" if at.kind == PODS:
                body = await _body(request)
                return _json(
                    await podactions.evict(registry, at.key, body, dry_run=dry_run, user=user), code=201
                )
            case "PUT", "" | "status" if at.name:
                body = await _body(request)
                changed = await registry.change(
                    at.key, lambda _: body, subresource=at.subresource, dry_run=dry_run, user=user
                )
                return _json(changed)
            case "PATCH", "" | "status" if at.name:
                return await self._patch(request, at, dry_run=dry_run, user=user)
            case "PATCH", "resize" if at.kind == PODS:
                return await self._patch(request, at, dry_run=dry_run, user=user)
            case "DELETE", "" if at.name:
                options = await _body(request) if request.can_read_body else _delete_options(request)
                dry_run = dry_run or options.get("dryRun") == ["All"]
                return _json(await registry.delete(at.key, options, dry_run=dry_run, user=user))
            case _:
                raise no_such_path()

    async def _patch(self, request: web.Request, at: Target, *, dry_run: bool, user: str) -> web.Response:
        body, content_type = await request.read(), request.content_type
        missing = self._registry.store.find(at.key) is None
        if content_type == patching.APPLY and missing and not at.subresource:
            intent = patching.applied(body)
            made = await self._registry.create(
                at.kind, at.namespace or "", intent, dry_run=dry_run, user=user
            )
            return _json(made, code=201)
        changed = await self._registry.change(
            at.key,
            lambda current: patching.patched(current, content_type, body),
            subresource=at.subresource,
            dry_run=dry_run,
            user=user,
        )
        return _json(changed)


async def _body(request: web.Request) -> Json:
    if request.content_type == protobuf.CONTENT_TYPE:
        return protobuf.decoded(await request.read())
    try:
        return msgspec.json.decode(await request.read(), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def _delete_options(request: web.Request) -> Json:
    if "gracePeriodSeconds" not in request.query:
        return {}
    return {"gracePeriodSeconds": whole_number(request.query, "gracePeriodSeconds", default=0)}


def _user(request: web.Request) -> str:
    """Whoever sends a token is called by it; nothing is checked."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ") or "system:admin"


def _json(body: object, *, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=code, body=msgspec.json.encode(body), content_type="application/json", headers=headers
    )


def _cut(request: web.Request) -> web.Response:
    if request.transport:
        request.transport.abort()
    return web.Response()
