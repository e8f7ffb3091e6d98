"""Ask the kubelet's PodResources socket who holds which slot, and what else containers hold."""

from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
import grpc.aio

from sublet.contract import keys
from sublet.kubelet import podresources_v1_pb2 as pb
from sublet.model.errors import Unavailable
from sublet.model.ids import PodRef, SlotId
from sublet_agent.core.observation import Listing, PodDevices
from sublet_agent.shell.sockets import target

_LIST = "/v1.PodResourcesLister/List"
_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),  # the kubelet sends without a limit
    ("grpc.initial_reconnect_backoff_ms", 100),  # after a restart it is back within a second
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class PodResources:
    """One channel, which finds a kubelet that was restarted by itself."""

    def __init__(self, socket: Path, *, limit_s: float = 5.0) -> None:
        """Raises BadRequest where no socket can have that path."""
        self._channel = grpc.aio.insecure_channel(target(socket), options=_OPTIONS)
        self._limit_s = limit_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def devices(self) -> PodDevices:
        """Raises Unavailable where the kubelet does not answer in time."""
        call = self._channel.unary_unary(
            _LIST,
            request_serializer=pb.ListPodResourcesRequest.SerializeToString,
            response_deserializer=pb.ListPodResourcesResponse.FromString,
        )
        try:
            answer = await call(pb.ListPodResourcesRequest(), timeout=self._limit_s)
        except grpc.aio.AioRpcError as error:
            raise Unavailable(f"PodResources: {error.code().name}: {error.details()}") from error
        held = [
            (PodRef(pod.namespace, pod.name), container.name, devices)
            for pod in answer.pod_resources
            for container in pod.containers
            for devices in container.devices
        ]
        return PodDevices(
            listings=tuple(
                Listing(slot=SlotId(slot), pod=pod, container=container)
                for pod, container, devices in held
                if devices.resource_name == keys.SLOT
                for slot in devices.device_ids
            ),
            others=frozenset(one.resource_name for _, _, one in held if one.device_ids) - {keys.SLOT},
        )
