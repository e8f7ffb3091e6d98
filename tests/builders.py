"""Short words for test data: every builder defaults all but what a test is about."""

from collections.abc import Mapping
from typing import Any

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.contract.reading import read_pod
from sublet.model.card import Card, Inventory, Link, Partition, Vendor
from sublet.model.claim import PodAsk
from sublet.model.health import HealthState, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.model.reasons import Refusal

SLOTS = 64


def card(
    uuid: str,
    *,
    index: int = 0,
    gib: int | None = 10,
    model: str = "NVIDIA A100",
    vendor: Vendor = Vendor.NVIDIA,
    links: Mapping[str, str] | None = None,
    health: HealthState = HealthState.HEALTHY,
    parts: Mapping[str, str] | None = None,
) -> Card:
    """`parts` are its partitions, UUID and profile; where they are given, even none, it is in MIG mode."""
    return Card(
        id=CardId(uuid),
        index=index,
        vendor=vendor,
        model=model,
        memory_mib=None if gib is None else gib * 1024,
        minor=index,
        links={CardId(other): Link(link) for other, link in (links or {}).items()},
        health=health,
        mig=parts is not None,
        partitions=tuple(
            Partition(uuid=part, profile=profile, memory_mib=1024 * int(profile.split(".")[1].rstrip("gb")))
            for part, profile in (parts or {}).items()
        ),
    )


def cards(node: str, count: int, *, gib: int | None = 10) -> tuple[Card, ...]:
    return tuple(card(f"{node}-{at}", index=at, gib=gib) for at in range(count))


def inventory(
    node: str, *held: Card, shares: int = 16, seq: int = 1, problems: tuple[str, ...] = ()
) -> Inventory:
    return Inventory(
        node=NodeName(node),
        boot_id="boot-1",
        epoch="epoch-1",
        seq=seq,
        at_ms=0,
        cards=held,
        shares_per_card=shares,
        slots=SLOTS,
        registered=True,
        problems=problems,
    )


def verdict(node: str, uuid: str, *, bad: bool, seq: int = 1) -> Verdict:
    return Verdict(
        node=NodeName(node),
        card=CardId(uuid),
        state=HealthState.CONDEMNED if bad else HealthState.HEALTHY,
        schedulable=not bad,
        withheld=False,
        seq=seq,
    )


def container(name: str = "main", **limits: object) -> dict[str, Any]:
    """A container; keywords are resources: gpu=1, gpu_memory=4096, nvidia=1, gpu_mem=2, cpu="500m"."""
    return {"name": name, "image": "app", "resources": {"limits": _limits(limits)}}


def sidecar(name: str, **limits: object) -> dict[str, Any]:
    return {**container(name, **limits), "restartPolicy": "Always"}


_SHORT = {
    "gpu": keys.GPU,
    "gpu_memory": keys.GPU_MEMORY,
    "gpu_memory_percent": keys.GPU_MEMORY_PERCENT,
    "gpu_core": keys.GPU_CORE,
    "nvidia": keys.NVIDIA_GPU,
    "gpu_mem": keys.ALIYUN_GPU_MEM,
    "gpu_count": keys.ALIYUN_GPU_COUNT,
}


def _limits(short: Mapping[str, object]) -> dict[str, str]:
    return {_SHORT.get(key, key): str(value) for key, value in short.items()}


def pod(
    name: str = "pod",
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod as a user writes it; without containers it has one that asks for 4 GiB of a card."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owner:
        kind, uid = owner
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": uid, "controller": True}
        ]
    body = {"containers": list(containers) or [container(gpu_memory=4096)], **spec}
    if init:
        body["initContainers"] = list(init)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def ask(manifest: dict[str, Any] | None = None, *, options: Options | None = None) -> PodAsk:
    """The claim of a pod that must be readable."""
    found = reading(manifest or pod(), options=options)
    assert isinstance(found, PodAsk), found
    return found


def reading(
    manifest: dict[str, Any], *, options: Options | None = None, managed: bool = True
) -> PodAsk | Refusal | None:
    namespace = manifest["metadata"].get("namespace", "default")
    return read_pod(manifest, namespace=namespace, options=options or Options(), managed=managed)
