"""A pod as Kubernetes writes it (a JSON object), read without I/O into what a placement needs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublet.contract import quantity
from sublet.model.claim import ContainerKind, Requirement, Toleration

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container of a pod's spec, and where it stands in it."""

    name: str
    kind: ContainerKind
    path: str
    """JSON pointer within the pod, such as ``/spec/containers/0``."""
    raw: Json

    @property
    def limits(self) -> Json:
        return (self.raw.get("resources") or {}).get("limits") or {}

    @property
    def requests(self) -> Json:
        """Requests with the API's default: what is missing is copied from the limits."""
        return {**self.limits, **((self.raw.get("resources") or {}).get("requests") or {})}


def containers(pod: Json) -> Iterator[ContainerSpec]:
    """Init containers and sidecars in their order, then the main containers."""
    spec = pod.get("spec") or {}
    for at, raw in enumerate(spec.get("initContainers") or ()):
        kind = ContainerKind.SIDECAR if raw.get("restartPolicy") == "Always" else ContainerKind.INIT
        yield ContainerSpec(raw.get("name", ""), kind, f"/spec/initContainers/{at}", raw)
    for at, raw in enumerate(spec.get("containers") or ()):
        yield ContainerSpec(raw.get("name", ""), ContainerKind.MAIN, f"/spec/containers/{at}", raw)


def effective(pod_containers: Sequence[ContainerSpec], amount: Callable[[ContainerSpec], int]) -> int:
    """What kube-scheduler counts: max(each init step with the sidecars before it, main + sidecars)."""
    sidecars = largest_step = main = 0
    for container in pod_containers:
        one = amount(container)
        if container.kind is ContainerKind.SIDECAR:
            sidecars += one
            largest_step = max(largest_step, sidecars)
        elif container.kind is ContainerKind.INIT:
            largest_step = max(largest_step, sidecars + one)
        else:
            main += one
    return max(largest_step, main + sidecars)


def host_requests(pod: Json) -> tuple[int, int]:
    """Effective requests of CPU (thousandths of a core) and host memory (MiB), overhead included.

    What the pod asks for as a whole counts instead of what its containers ask for. Raises ValueError where
    a quantity cannot be read.
    """
    spec = pod.get("spec") or {}
    found = list(containers(pod))
    whole = spec.get("resources") or {}
    requests, limits = whole.get("requests") or {}, whole.get("limits") or {}
    overhead = spec.get("overhead") or {}

    def taken(name: str, read: Callable[[Json], int]) -> int:
        if name in requests:
            return read(requests) + read(overhead)
        return (effective(found, lambda one: read(one.requests)) or read(limits)) + read(overhead)

    return taken("cpu", quantity.cpu_milli), taken("memory", quantity.host_memory_mib)


def annotations(pod: Json) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}


def labels(pod: Json) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("labels") or {}


def gates(pod: Json) -> tuple[str, ...]:
    return tuple(gate.get("name", "") for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def tolerations(pod: Json) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=one.get("key") or "",
            operator=one.get("operator") or "Equal",
            value=one.get("value") or "",
            effect=one.get("effect") or "",
        )
        for one in (pod.get("spec") or {}).get("tolerations") or ()
    )


def missing_tolerations(pod: Json, taint_keys: Sequence[str]) -> tuple[Toleration, ...]:
    """The tolerations of whole taint keys that `pod` has not got yet."""
    present = tolerations(pod)
    return tuple(
        Toleration(key=key, operator="Exists")
        for key in taint_keys
        if not any(one.operator == "Exists" and one.key in ("", key) and not one.effect for one in present)
    )


def required_affinity(pod: Json) -> tuple[tuple[Requirement, ...], ...]:
    """Required node affinity as alternatives; an empty term matches nothing and is kept as such."""
    terms = required_terms(pod)
    return tuple(
        tuple(_requirements(term.get("matchExpressions") or (), field=False))
        + tuple(_requirements(term.get("matchFields") or (), field=True))
        for term in terms
    )


def required_terms(pod: Json) -> Sequence[Json]:
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or ()


def _requirements(entries: Sequence[Json], *, field: bool) -> Iterator[Requirement]:
    for entry in entries:
        yield Requirement(
            key=entry.get("key", ""),
            operator=entry.get("operator", ""),
            values=tuple(str(value) for value in entry.get("values") or ()),
            field=field,
        )


def controller(pod: Json) -> tuple[str, str]:
    """(UID, kind) of the controlling owner; empty strings for a bare pod."""
    for owner in (pod.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return owner.get("uid", ""), owner.get("kind", "")
    return "", ""
