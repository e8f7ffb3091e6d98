"""One device plugin as the kubelet talks to it: dialled back, then followed until its stream ends."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio

from sublet.demo.kubelet.spec import AdmissionRefused, StartRefused
from sublet.kubelet import deviceplugin_v1beta1_pb2 as pb

_SERVICE = "/v1beta1.DevicePlugin"
_PRE_START_WITHIN_S = 30.0
_CALL_WITHIN_S = 10.0


class Plugin:
    def __init__(self, socket: Path, resource: str) -> None:
        self.socket = socket
        self.resource = resource
        self.pre_start_required = False
        self.alive = True
        self._channel = grpc.aio.insecure_channel(
            f"unix://{socket}", options=(("grpc.default_authority", "localhost"),)
        )

    async def read_options(self) -> None:
        call = self._channel.unary_unary(
            f"{_SERVICE}/GetDevicePluginOptions",
            request_serializer=pb.Empty.SerializeToString,
            response_deserializer=pb.DevicePluginOptions.FromString,
        )
        options = await call(pb.Empty(), timeout=_CALL_WITHIN_S, wait_for_ready=True)
        self.pre_start_required = options.pre_start_required

    async def lists(self) -> AsyncIterator[dict[str, bool]]:
        """Each full list: id -> healthy; ends with the stream, however that ends."""
        call = self._channel.unary_stream(
            f"{_SERVICE}/ListAndWatch",
            request_serializer=pb.Empty.SerializeToString,
            response_deserializer=pb.ListAndWatchResponse.FromString,
        )(pb.Empty())
        try:
            async for message in call:
                yield {device.ID: device.health == "Healthy" for device in message.devices}
        except grpc.aio.AioRpcError:
            return
        finally:
            call.cancel()

    async def allocate(self, ids: tuple[str, ...]) -> bytes:
        """The container's response as bytes; an error is the end of the pod."""
        call = self._channel.unary_unary(
            f"{_SERVICE}/Allocate",
            request_serializer=pb.AllocateRequest.SerializeToString,
            response_deserializer=pb.AllocateResponse.FromString,
        )
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        try:
            answer = await call(request, timeout=_CALL_WITHIN_S)
        except grpc.aio.AioRpcError as error:
            raise AdmissionRefused(
                f"Allocate failed due to rpc error: code = {error.code().name} desc = {error.details()}, "
                "which is unexpected"
            ) from error
        return answer.container_responses[0].SerializeToString()

    async def pre_start(self, ids: tuple[str, ...]) -> None:
        if not self.alive:
            raise StartRefused(f"PreStartContainer rpc failed: endpoint {self.socket} has been stopped")
        call = self._channel.unary_unary(
            f"{_SERVICE}/PreStartContainer",
            request_serializer=pb.PreStartContainerRequest.SerializeToString,
            response_deserializer=pb.PreStartContainerResponse.FromString,
        )
        try:
            await call(pb.PreStartContainerRequest(devices_ids=ids), timeout=_PRE_START_WITHIN_S)
        except grpc.aio.AioRpcError as error:
            raise StartRefused(
                f"PreStartContainer rpc failed: {error.code().name}: {error.details()}"
            ) from error

    async def close(self) -> None:
        self.alive = False
        await self._channel.close()
