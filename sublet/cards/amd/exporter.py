"""Asks AMD's device metrics exporter how the cards are, where its socket exists."""

import asyncio
from pathlib import Path

import grpc
import grpc.aio
from google.protobuf.empty_pb2 import Empty

from sublet.amd import metricssvc_pb2 as pb
from sublet.contract.pci import pci_address

SOCKET = Path("/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket")
_LIST = "/metricssvc.MetricsService/List"


async def exporter_says(socket: Path, *, limit_s: float = 5.0) -> dict[str, str] | None:
    """`healthy`, `unhealthy` or `unknown` by PCI address; None where nobody answers."""
    if not await asyncio.to_thread(socket.exists):
        return None
    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        call = channel.unary_unary(
            _LIST,
            request_serializer=Empty.SerializeToString,
            response_deserializer=pb.GPUStateResponse.FromString,
        )
        try:
            answer = await call(Empty(), timeout=limit_s)
        except grpc.aio.AioRpcError:
            return None
    return {pci_address(one.Device) or one.Device: one.Health.lower() for one in answer.GPUState}
