"""The device manager's bookkeeping: who has which device, what counts as capacity and as allocatable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sublet.demo.kubelet.spec import AdmissionRefused, ContainerSpec, PodSpec


@dataclass(frozen=True, slots=True)
class Allocation:
    ids: tuple[str, ...]
    response: bytes
    """The plugin's ContainerAllocateResponse, used again at every restart."""


@dataclass(slots=True)
class DeviceTable:
    """`healthy` and `unhealthy` are what the plugin listed last; a resource outlives its plugin.

    What is allocated is forgotten only when somebody asks (`keep_only`), as in the kubelet.
    """

    healthy: dict[str, set[str]] = field(default_factory=dict)
    unhealthy: dict[str, set[str]] = field(default_factory=dict)
    pods: dict[str, dict[str, dict[str, Allocation]]] = field(default_factory=dict)

    def listed(self, resource: str, devices: Mapping[str, bool]) -> None:
        """The plugin's full list: id -> healthy."""
        self.healthy[resource] = {one for one, fine in devices.items() if fine}
        self.unhealthy[resource] = {one for one, fine in devices.items() if not fine}

    def stopped(self, resource: str) -> None:
        self.unhealthy.setdefault(resource, set()).update(self.healthy.get(resource, ()))
        self.healthy[resource] = set()

    def known_again(self, resource: str) -> None:
        """From the checkpoint after a restart: nothing counts before the plugin registers."""
        self.healthy[resource], self.unhealthy[resource] = set(), set()

    def capacity(self) -> dict[str, int]:
        return {name: len(ids) + len(self.unhealthy.get(name, ())) for name, ids in self.healthy.items()}

    def allocatable(self) -> dict[str, int]:
        return {name: len(ids) for name, ids in self.healthy.items()}

    def held(self, resource: str) -> set[str]:
        return {
            one
            for containers in self.pods.values()
            for resources in containers.values()
            for one in (resources[resource].ids if resource in resources else ())
        }

    def choose(self, pod: PodSpec, container: ContainerSpec, resource: str) -> tuple[str, ...] | None:
        """Devices for a container; None where it has them already, from before a restart.

        Devices of plain init containers are handed on to the next container that asks; sidecars and app
        containers keep theirs.

        Raises:
            AdmissionRefused: too few, in the kubelet's words.
        """
        count = container.devices[resource]
        healthy = self.healthy.get(resource)
        if healthy is None:
            raise AdmissionRefused(f"cannot allocate unregistered device {resource}")
        known = self.pods.get(pod.uid, {}).get(container.name, {}).get(resource)
        if known is not None:
            if not healthy:
                raise AdmissionRefused("no healthy devices present; cannot allocate unhealthy devices")
            if not set(known.ids) <= healthy:
                raise AdmissionRefused(f"previously allocated devices are no longer healthy {known.ids}")
            return None
        handed_on = sorted(self._reusable(pod, resource) & healthy)[:count]
        free = sorted(healthy - self.held(resource))
        if len(handed_on) + len(free) < count:
            raise AdmissionRefused(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {count}, Available: {len(handed_on) + len(free)}"
            )
        return tuple([*handed_on, *free][:count])

    def give(self, uid: str, container: str, resource: str, allocation: Allocation) -> None:
        self.pods.setdefault(uid, {}).setdefault(container, {})[resource] = allocation

    def of(self, uid: str, container: str) -> Mapping[str, Allocation]:
        return self.pods.get(uid, {}).get(container, {})

    def keep_only(self, uids: Iterable[str]) -> None:
        alive = set(uids)
        for uid in [uid for uid in self.pods if uid not in alive]:
            del self.pods[uid]

    def drop(self, uid: str) -> None:
        self.pods.pop(uid, None)

    def _reusable(self, pod: PodSpec, resource: str) -> set[str]:
        mine = self.pods.get(pod.uid, {})
        of = {name: set(resources[resource].ids) for name, resources in mine.items() if resource in resources}
        given = set().union(*(ids for name, ids in of.items() if pod.is_plain_init(name)), set())
        kept = set().union(*(ids for name, ids in of.items() if not pod.is_plain_init(name)), set())
        return given - kept
