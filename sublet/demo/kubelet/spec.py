"""What the stand-in kubelet runs, and what became of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sublet.model.errors import SubletError


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """`devices` are limits of device-plugin resources; `from_annotations` is env by fieldRef: name -> key."""

    name: str
    devices: Mapping[str, int] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    from_annotations: Mapping[str, str] = field(default_factory=dict)
    restartable: bool = False
    """Of an init container: it is a sidecar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    uid: str
    name: str
    namespace: str = "default"
    annotations: Mapping[str, str] = field(default_factory=dict)
    init: tuple[ContainerSpec, ...] = ()
    containers: tuple[ContainerSpec, ...] = ()

    def every(self) -> Iterator[ContainerSpec]:
        yield from self.init
        yield from self.containers

    def container(self, name: str) -> ContainerSpec:
        return next(one for one in self.every() if one.name == name)

    def is_plain_init(self, name: str) -> bool:
        return any(one.name == name and not one.restartable for one in self.init)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    path: str
    host_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What the processes of one container see; `starts` counts from 1."""

    env: Mapping[str, str]
    nodes: tuple[DeviceNode, ...]
    starts: int


class AdmissionRefused(SubletError):
    """The pod failed for good: phase Failed, reason UnexpectedAdmissionError."""


class StartRefused(SubletError):
    """The container could not start now; a kubelet tries again by itself."""
