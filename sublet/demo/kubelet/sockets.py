"""The kubelet's own two sockets: Registration for device plugins, PodResources for everybody who asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from sublet.kubelet import deviceplugin_v1beta1_pb2 as pb
from sublet.kubelet import podresources_v1_pb2 as podresources

Register = Callable[[pb.RegisterRequest], Awaitable[str]]
"""Answers what is wrong with a registration; empty = taken."""

Context = grpc.aio.ServicerContext[object, object]


@asynccontextmanager
async def serve_registration(socket: Path, register: Register) -> AsyncIterator[None]:
    async def handle(request: pb.RegisterRequest, context: Context) -> pb.Empty:
        if trouble := await register(request):
            await context.abort(grpc.StatusCode.UNKNOWN, trouble)
        return pb.Empty()

    method = grpc.unary_unary_rpc_method_handler(
        handle, pb.RegisterRequest.FromString, pb.Empty.SerializeToString
    )
    async with _serving(socket, "v1beta1.Registration", {"Register": method}):
        yield


@asynccontextmanager
async def serve_pod_resources(
    socket: Path, pods: Callable[[], Iterable[podresources.PodResources]]
) -> AsyncIterator[None]:
    async def handle(
        _: podresources.ListPodResourcesRequest, __: Context
    ) -> podresources.ListPodResourcesResponse:
        return podresources.ListPodResourcesResponse(pod_resources=pods())

    method = grpc.unary_unary_rpc_method_handler(
        handle,
        podresources.ListPodResourcesRequest.FromString,
        podresources.ListPodResourcesResponse.SerializeToString,
    )
    async with _serving(socket, "v1.PodResourcesLister", {"List": method}):
        yield


@asynccontextmanager
async def _serving(
    socket: Path, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]
) -> AsyncIterator[None]:
    socket.parent.mkdir(parents=True, exist_ok=True)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
