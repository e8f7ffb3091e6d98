"""The kubelet's DevicePlugin service. Here a slot is called a device, as the kubelet calls it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import grpc
import grpc.aio
import structlog

from sublet.kubelet import deviceplugin_v1beta1_pb2 as pb
from sublet.model.errors import Unavailable
from sublet.model.ids import SlotId
from sublet_agent.core.edits import Injection, cdi_device
from sublet_agent.shell.board import Board

log = structlog.get_logger()

SERVICE = "v1beta1.DevicePlugin"
OPTIONS = pb.DevicePluginOptions(pre_start_required=True)

Start = Callable[[SlotId], Awaitable[None]]
Context = grpc.aio.ServicerContext[object, object]


class DevicePlugin:
    """One generation of the service: it lives as long as its socket and counts its streams.

    `start` returns when a container may start, and raises Unavailable with the reason when it may not yet.
    """

    def __init__(
        self,
        board: Board,
        *,
        injection: Injection,
        start: Start,
        taken: Callable[[tuple[SlotId, ...]], None],
    ) -> None:
        self._board = board
        self._injection = injection
        self._start = start
        self._taken = taken
        self._closing = asyncio.Event()
        self.opened = asyncio.Event()
        """The kubelet follows the list."""
        self.ended = asyncio.Event()
        """The kubelet followed it and does so no more."""
        self._streams = 0

    def end_streams(self) -> None:
        self._closing.set()
        self._board.wake()

    async def options(self, _: pb.Empty, __: Context) -> pb.DevicePluginOptions:
        return OPTIONS

    async def list_and_watch(self, _: pb.Empty, __: Context) -> AsyncGenerator[pb.ListAndWatchResponse, None]:
        self._streams += 1
        self.opened.set()
        log.info("slots.followed", streams=self._streams)
        try:
            async with aclosing(self._board.lists(self._closing)) as lists:
                async for message in lists:
                    yield message
        finally:
            self._streams -= 1
            if self._streams == 0:
                self.ended.set()
            log.info("slots.left", streams=self._streams)

    async def allocate(self, request: pb.AllocateRequest, context: Context) -> pb.AllocateResponse:
        """Answer each slot's CDI name: it never waits, never guesses, and never fails for a card."""
        slots = [SlotId(one) for container in request.container_requests for one in container.devices_ids]
        if unknown := [slot for slot in slots if slot not in self._board]:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no such slot: {', '.join(unknown)}")
        self._taken(tuple(slots))
        return pb.AllocateResponse(
            container_responses=[self._response(one) for one in request.container_requests]
        )

    def _response(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        if self._injection is Injection.ENV:
            return pb.ContainerAllocateResponse()
        names = [cdi_device(SlotId(slot)) for slot in request.devices_ids]
        return pb.ContainerAllocateResponse(cdi_devices=[pb.CDIDevice(name=name) for name in names])

    async def pre_start_container(
        self, request: pb.PreStartContainerRequest, context: Context
    ) -> pb.PreStartContainerResponse:
        if len(request.devices_ids) != 1:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"a container has one slot, this one has {len(request.devices_ids)}",
            )
        try:
            await self._start(SlotId(request.devices_ids[0]))
        except Unavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return pb.PreStartContainerResponse()
