"""Keep us registered with the kubelet, for ever: a fresh socket for every registration, the old stream
ended first, and anew whenever the stream ends, our socket vanishes or the kubelet's own is re-created.
"""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import structlog

from sublet.contract import keys
from sublet.kubelet import deviceplugin_v1beta1_pb2 as pb
from sublet.model.errors import Unavailable
from sublet_agent.shell.device_plugin import OPTIONS, SERVICE, DevicePlugin
from sublet_agent.shell.sockets import target

log = structlog.get_logger()

VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
_REGISTER = "/v1beta1.Registration/Register"
_REGISTER_WITHIN_S = 15.0  # the kubelet dials back within the call, for up to 10 s
_FOLLOW_WITHIN_S = 10.0
_STOP_GRACE_S = 0.5
_STOP_WITHIN_S = 3.0
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.1, 3.0
_SETTLED_S = 30.0
_GENERATIONS = 999_999
"""So many registrations are made at most; a path must be short enough for the last."""
_LOOK_S = 0.02
"""Between two looks for another kubelet while none follows us. It admits its pods a tenth of a second after
it made its socket, and fails those whose container ended meanwhile if our slots are not there by then."""

Stamp = tuple[int, int]


class Registration:
    def __init__(
        self,
        folder: Path,
        *,
        epoch: str,
        make_plugin: Callable[[], DevicePlugin],
        changed: Callable[[bool], Awaitable[None]],
        pulse: Callable[[], None],
        clock: Callable[[], float],
        poll_s: float = 0.5,
    ) -> None:
        """`changed` hears whether the kubelet follows our list; `pulse` hears that this loop lives.

        Raises BadRequest where the path of `folder` is too long for a socket in it.
        """
        self._folder = folder
        self._epoch = epoch
        target(self._socket(_GENERATIONS))
        self._make_plugin = make_plugin
        self._changed = changed
        self._pulse = pulse
        self._clock = clock
        self._poll_s = poll_s
        self._generation = 0
        self._kubelet: Stamp | None = None
        """The socket of the kubelet with which we registered last, or tried to."""
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        await asyncio.to_thread(_remove_dead_sockets, self._folder)
        pause_s, failed = _PAUSE_FIRST_S, ""
        while not self._stopping.is_set():
            began_s = self._clock()
            try:
                why = await self._one()
                log.info("registration.ended", why=why)
                failed = ""
            except Unavailable as error:
                if str(error) != failed:
                    log.warning("registration.failed", error=str(error))
                failed = str(error)
            if self._clock() - began_s > _SETTLED_S:
                pause_s = _PAUSE_FIRST_S
            another = await self._pause(pause_s * random.uniform(0.5, 1.5))
            pause_s = _PAUSE_FIRST_S if another else min(2 * pause_s, _PAUSE_MOST_S)
        self._stopped.set()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """End the stream and the server, so that the kubelet sees it before the process is gone."""
        self._stopping.set()
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await self._stopped.wait()
        except TimeoutError:
            log.warning("registration.left_open")

    async def _one(self) -> str:
        """One registration from beginning to end; returns why it ended."""
        self._kubelet = kubelet = await self._kubelet_socket()
        self._generation += 1
        path = self._socket(self._generation)
        plugin = self._make_plugin()
        async with _serving(plugin, path) as mine:
            await self._register(path.name)
            try:
                async with asyncio.timeout(_FOLLOW_WITHIN_S):
                    await plugin.opened.wait()
            except TimeoutError:
                raise Unavailable("the kubelet took our registration and does not follow our list") from None
            log.info("registration.made", socket=path.name, generation=self._generation)
            await self._changed(True)
            try:
                return await self._until_over(plugin, path, mine, kubelet)
            finally:
                await self._changed(False)

    async def _until_over(self, plugin: DevicePlugin, path: Path, mine: Stamp, kubelet: Stamp) -> str:
        while True:
            self._pulse()
            if self._stopping.is_set():
                return "stopping"
            if plugin.ended.is_set():
                return "the kubelet ended the stream"
            if stamp(path) != mine:
                return "our socket is gone"
            if stamp(self._folder / KUBELET_SOCKET) != kubelet:
                return "the kubelet's socket was re-created"
            try:
                async with asyncio.timeout(self._poll_s):
                    await plugin.ended.wait()
            except TimeoutError:
                continue

    def _socket(self, generation: int) -> Path:
        return self._folder / f"sublet-{self._epoch}-{generation}.sock"

    async def _kubelet_socket(self) -> Stamp:
        """Wait for the kubelet's socket; its stamp tells a re-created one from this one."""
        waited = False
        while (found := stamp(self._folder / KUBELET_SOCKET)) is None:
            if not waited:
                log.info("kubelet.awaited", folder=str(self._folder))
                waited = True
            await self._pause(self._poll_s)
            if self._stopping.is_set():
                raise Unavailable("stopping")
        return found

    async def _register(self, endpoint: str) -> None:
        request = pb.RegisterRequest(
            version=VERSION, endpoint=endpoint, resource_name=keys.SLOT, options=OPTIONS
        )
        async with grpc.aio.insecure_channel(target(self._folder / KUBELET_SOCKET)) as channel:
            call = channel.unary_unary(
                _REGISTER,
                request_serializer=pb.RegisterRequest.SerializeToString,
                response_deserializer=pb.Empty.FromString,
            )
            try:
                await call(request, timeout=_REGISTER_WITHIN_S)
            except grpc.aio.AioRpcError as error:
                raise Unavailable(f"Register: {error.code().name}: {error.details()}") from error

    async def _pause(self, seconds: float) -> bool:
        """Wait, or return early: True as soon as there is another kubelet than the one tried last."""
        self._pulse()
        until_s = self._clock() + seconds
        while not self._stopping.is_set() and (left_s := until_s - self._clock()) > 0:
            if stamp(self._folder / KUBELET_SOCKET) not in (None, self._kubelet):
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, _LOOK_S)):
                    await self._stopping.wait()
        return False


def stamp(path: Path) -> Stamp | None:
    """Inode and change time; an inode alone may be given out again."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns)


@asynccontextmanager
async def _serving(plugin: DevicePlugin, path: Path) -> AsyncIterator[Stamp]:
    """Serve `plugin` on `path`; streams end before the server does, or it would wait for them.

    Raises Unavailable where the socket cannot be made.
    """
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(plugin),))
    try:
        server.add_insecure_port(target(path))
    except RuntimeError as error:
        await server.stop(None)
        raise Unavailable(f"no socket can be made at {path}: {error}", hint="Is its folder there?") from error
    await server.start()
    try:
        mine = stamp(path)
        if mine is None:
            raise Unavailable(f"our socket {path.name} vanished at once")
        yield mine
    finally:
        plugin.end_streams()
        await server.stop(_STOP_GRACE_S)


def _handlers(plugin: DevicePlugin) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                plugin.options, pb.Empty.FromString, pb.DevicePluginOptions.SerializeToString
            ),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                plugin.list_and_watch, pb.Empty.FromString, pb.ListAndWatchResponse.SerializeToString
            ),
            "Allocate": grpc.unary_unary_rpc_method_handler(
                plugin.allocate, pb.AllocateRequest.FromString, pb.AllocateResponse.SerializeToString
            ),
            "PreStartContainer": grpc.unary_unary_rpc_method_handler(
                plugin.pre_start_container,
                pb.PreStartContainerRequest.FromString,
                pb.PreStartContainerResponse.SerializeToString,
            ),
        },
    )


def _remove_dead_sockets(folder: Path) -> None:
    """Sockets of agents that were killed; one that still answers belongs to an agent that lives."""
    for path in folder.glob("sublet-*.sock"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(0.2)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue
