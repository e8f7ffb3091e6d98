"""The stand-in kubelet: plugins register with it, pods are admitted, their containers start and end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc.aio
import structlog

from sublet.demo.kubelet.cdi import Injected, resolve
from sublet.demo.kubelet.cgroups import Cgroups
from sublet.demo.kubelet.checkpoint import NAME, read_checkpoint, write_checkpoint
from sublet.demo.kubelet.devices import Allocation, DeviceTable
from sublet.demo.kubelet.plugin import Plugin
from sublet.demo.kubelet.sockets import serve_pod_resources, serve_registration
from sublet.demo.kubelet.spec import AdmissionRefused, ContainerSpec, PodSpec, Running, StartRefused
from sublet.kubelet import deviceplugin_v1beta1_pb2 as pb
from sublet.kubelet import podresources_v1_pb2 as podresources
from sublet.model.errors import Unavailable

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Keep `kubelet` short: a socket's path has at most 107 bytes."""

    kubelet: Path
    cdi: Path
    cgroups: Path

    @property
    def plugins(self) -> Path:
        return self.kubelet / "device-plugins"


class StandInKubelet:
    """``async with StandInKubelet(folders) as kubelet``; `restart` inside plays a restart of the kubelet.

    `containers` says what runs and what it sees; `registrations` are the sockets under which plugins came.
    """

    def __init__(self, folders: Folders, *, retry_s: float = 0.2) -> None:
        self._folders = folders
        self._retry_s = retry_s
        self._cgroups = Cgroups(folders.cgroups)
        self._group = asyncio.TaskGroup()
        self._open = AsyncExitStack()
        self._plugins: dict[str, list[Plugin]] = {}
        self._streams: list[asyncio.Task[None]] = []
        self._pods: dict[str, PodSpec] = {}
        self._admission = asyncio.Lock()
        self._changed = asyncio.Condition()
        self.table = DeviceTable()
        self.containers: dict[tuple[str, str], Running] = {}
        self.registrations: list[str] = []
        self.lists: list[dict[str, bool]] = []

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self._group.__aexit__(kind, error, trace)

    async def start(self) -> None:
        """Remove every socket of plugins, take up the checkpoint, then listen."""
        plugins = self._folders.plugins
        await asyncio.to_thread(_remove_sockets, plugins)
        await asyncio.to_thread(read_checkpoint, plugins / NAME, self.table)
        await self._open.enter_async_context(
            serve_pod_resources(self._folders.kubelet / "pod-resources" / "kubelet.sock", self._listed)
        )
        await self._open.enter_async_context(serve_registration(plugins / "kubelet.sock", self._register))

    async def stop(self) -> None:
        """End like a kubelet that is stopped: plugins lose their streams, containers run on."""
        for stream in self._streams:
            stream.cancel()
        await self._open.aclose()
        if self._streams:
            await asyncio.wait(self._streams)
        self._streams.clear()
        self.table = DeviceTable()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def until(self, holds: Callable[[Self], bool], *, within_s: float = 5.0) -> None:
        """Wait until `holds` of this kubelet."""
        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: holds(self))
        except TimeoutError:
            raise Unavailable(f"it did not come true within {within_s} s") from None

    # pods

    async def run(self, pod: PodSpec, *, within_s: float = 10.0) -> None:
        """Admit a pod and start everything: plain init containers one after another, then the others."""
        await self.admit(pod)
        for container in pod.every():
            await self.start_container(pod.uid, container.name, within_s=within_s)

    async def admit(self, pod: PodSpec) -> None:
        """Allocate for each container in order; pods are admitted one after another.

        Raises:
            AdmissionRefused: the pod is Failed for good.
        """
        async with self._admission:
            self.table.keep_only([*self._pods, pod.uid])
            try:
                for container in pod.every():
                    for resource in container.devices:
                        await self._allocate(pod, container, resource)
            except AdmissionRefused:
                self.table.drop(pod.uid)
                raise
            self._pods[pod.uid] = pod
            await self._tell()

    async def start_container(self, uid: str, name: str, *, within_s: float = 10.0) -> Running:
        """Start or restart a container, tried again until it can be.

        Raises:
            StartRefused: not within `within_s`, with the last reason.
        """
        last = StartRefused(f"{name} was not tried")
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        return await self.try_start(uid, name)
                    except StartRefused as refusal:
                        last = refusal
                        log.info("container.start_refused", pod_uid=uid, container=name, why=str(refusal))
                    await asyncio.sleep(self._retry_s)
        except TimeoutError:
            raise last from None

    async def try_start(self, uid: str, name: str) -> Running:
        """One try: PreStartContainer, then what the runtime makes of it."""
        pod = self._pods[uid]
        self._cgroups.make(uid, name)
        responses = []
        for resource, allocation in self.table.of(uid, name).items():
            plugin = self._plugin(resource)
            if plugin is None:
                raise StartRefused(f"PreStartContainer rpc failed: endpoint of {resource} has been stopped")
            if plugin.pre_start_required:
                await plugin.pre_start(allocation.ids)
            responses.append(pb.ContainerAllocateResponse.FromString(allocation.response))
        names = [device.name for response in responses for device in response.cdi_devices]
        injected = await asyncio.to_thread(resolve, names, self._folders.cdi)
        before = self.containers.get((uid, name))
        running = Running(
            env=_environment(pod, pod.container(name), responses, injected),
            nodes=injected.nodes,
            starts=1 + (before.starts if before else 0),
        )
        self.containers[uid, name] = running
        await self._tell()
        return running

    async def end(self, uid: str) -> None:
        """The pod's containers are gone, and their cgroups; its devices are freed when somebody asks."""
        self._pods.pop(uid, None)
        for key in [key for key in self.containers if key[0] == uid]:
            del self.containers[key]
        await asyncio.to_thread(self._cgroups.remove, uid)
        await self._tell()

    # plugins

    async def drop_streams(self) -> None:
        """End every plugin's stream and keep the socket: what a plugin must notice by itself."""
        streams = list(self._streams)
        for stream in streams:
            stream.cancel()
        if streams:
            await asyncio.wait(streams)

    async def list_foreign(self, resource: str, count: int) -> None:
        """Play another vendor's plugin that lists `count` devices; 0 = it is gone."""
        self.table.listed(resource, {f"foreign-{number}": True for number in range(count)})
        await self._tell()

    async def _register(self, request: pb.RegisterRequest) -> str:
        socket = self._folders.plugins / request.endpoint
        if request.version != "v1beta1":
            return f"unsupported API version {request.version}"
        if any(one.socket == socket for one in self._plugins.get(request.resource_name, ())):
            return f"device plugin already connected: {socket}"
        plugin = Plugin(socket, request.resource_name)
        try:
            await plugin.read_options()
        except grpc.aio.AioRpcError as error:
            await plugin.close()
            return f"failed to dial device plugin: {error.details()}"
        self.registrations.append(request.endpoint)
        self._plugins.setdefault(request.resource_name, []).append(plugin)
        task = self._group.create_task(self._follow(plugin), name=f"follow {request.endpoint}")
        self._streams.append(task)
        await self._tell()
        return ""

    async def _follow(self, plugin: Plugin) -> None:
        try:
            async for devices in plugin.lists():
                self.table.listed(plugin.resource, devices)
                self.lists.append(devices)
                await self._tell()
        finally:
            self._plugins[plugin.resource].remove(plugin)
            if not self._plugins[plugin.resource]:
                self.table.stopped(plugin.resource)
            await plugin.close()
            await self._tell()

    async def _allocate(self, pod: PodSpec, container: ContainerSpec, resource: str) -> None:
        ids = self.table.choose(pod, container, resource)
        if ids is None:
            return
        plugin = self._plugin(resource)
        if plugin is None:
            raise AdmissionRefused(f"Allocate failed: endpoint of {resource} has been stopped")
        response = await plugin.allocate(ids)
        self.table.give(pod.uid, container.name, resource, Allocation(ids, response))

    def _plugin(self, resource: str) -> Plugin | None:
        return next(iter(reversed(self._plugins.get(resource, []))), None)

    def _listed(self) -> Iterator[podresources.PodResources]:
        """PodResources: pods which are active, without plain init containers. To ask frees what has ended."""
        self.table.keep_only(self._pods)
        for pod in self._pods.values():
            yield podresources.PodResources(
                name=pod.name,
                namespace=pod.namespace,
                containers=[
                    podresources.ContainerResources(
                        name=container.name,
                        devices=[
                            podresources.ContainerDevices(resource_name=resource, device_ids=[one])
                            for resource, allocation in self.table.of(pod.uid, container.name).items()
                            for one in allocation.ids
                        ],
                    )
                    for container in pod.every()
                    if not pod.is_plain_init(container.name)
                ],
            )

    async def _tell(self) -> None:
        """Something changed: the checkpoint first, then whoever waits."""
        write_checkpoint(self._folders.plugins / NAME, self.table)
        async with self._changed:
            self._changed.notify_all()


def _environment(
    pod: PodSpec,
    container: ContainerSpec,
    responses: list[pb.ContainerAllocateResponse],
    injected: Injected,
) -> dict[str, str]:
    """What the processes see: the plugin's env, then the pod's own, and CDI over both."""
    env: dict[str, str] = {}
    for response in responses:
        env |= dict(response.envs)
    env |= container.env
    env |= {name: pod.annotations.get(key, "") for name, key in container.from_annotations.items()}
    return env | injected.env


def _remove_sockets(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_socket():
            path.unlink()
