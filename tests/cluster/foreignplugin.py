"""A device plugin that is not ours: lists so many devices of a resource until it is ended.

`python foreignplugin.py FOLDER RESOURCE COUNT`, where FOLDER is the kubelet's, with its socket.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from sublet.kubelet import deviceplugin_v1beta1_pb2 as pb

SOCKET = "foreign.sock"
Context = grpc.aio.ServicerContext[object, object]


async def serve(folder: Path, resource: str, count: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    devices = [pb.Device(ID=f"foreign-{number}", health="Healthy") for number in range(count)]

    async def options(_: object, __: Context) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions()

    async def lists(_: object, __: Context) -> AsyncIterator[pb.ListAndWatchResponse]:
        yield pb.ListAndWatchResponse(devices=devices)
        await stop.wait()

    async def allocate(request: pb.AllocateRequest, _: Context) -> pb.AllocateResponse:
        return pb.AllocateResponse(
            container_responses=[pb.ContainerAllocateResponse() for _ in request.container_requests]
        )

    answering: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
            options, pb.Empty.FromString, pb.DevicePluginOptions.SerializeToString
        ),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(
            lists, pb.Empty.FromString, pb.ListAndWatchResponse.SerializeToString
        ),
        "Allocate": grpc.unary_unary_rpc_method_handler(
            allocate, pb.AllocateRequest.FromString, pb.AllocateResponse.SerializeToString
        ),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", answering),)
    )
    server.add_insecure_port(f"unix://{folder / SOCKET}")
    await server.start()
    await _register(folder, resource)
    await stop.wait()
    await server.stop(grace=0)


async def _register(folder: Path, resource: str) -> None:
    async with grpc.aio.insecure_channel(f"unix://{folder / 'kubelet.sock'}") as channel:
        call = channel.unary_unary(
            "/v1beta1.Registration/Register",
            request_serializer=pb.RegisterRequest.SerializeToString,
            response_deserializer=pb.Empty.FromString,
        )
        request = pb.RegisterRequest(version="v1beta1", endpoint=SOCKET, resource_name=resource)
        await call(request, timeout=10, wait_for_ready=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
