"""What differs for a workload that is read: another scheduler, rounding, keys that nobody reads any more."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sublet.contract import keys, podspec
from sublet.contract.dialects.interface import Options
from sublet.contract.patching import DEFAULT_SCHEDULER
from sublet.contract.podspec import ContainerSpec, Json
from sublet.contract.reading import replaced_scheduler
from sublet.contract.results import PodResults, pod_results
from sublet.model.card import Card, Vendor
from sublet.model.claim import Claim, PodAsk
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import CardGrant, Placement

GONE_VERSIONS = {
    "extensions/v1beta1": "apps/v1",
    "apps/v1beta1": "apps/v1",
    "apps/v1beta2": "apps/v1",
    "batch/v1beta1": "batch/v1",
    "batch/v2alpha1": "batch/v1",
}
"""API versions that Kubernetes serves no more, and what the kinds here are called in now."""
OF_KINDS = ("Deployment", "DaemonSet", "ReplicaSet", "StatefulSet", "CronJob")
UNREAD_ANNOTATIONS = {"mps": "KAI's MPS server is not part of Sublet"}
UNREAD_LABELS = {
    "kai.scheduler/queue": "Sublet has a queue of its own",
    "hami.io/webhook": "Sublet's webhook does not know it",
}
VENDOR_DOMAINS = ("nvidia.com/", "amd.com/", "aliyun.com/gpu", "volcano.sh/", "tencent.com/", "elasticgpu.")
_MADE_UP = {one: Card(id=CardId(one.value), index=0, vendor=one, memory_mib=1024) for one in Vendor}


class What(StrEnum):
    API_VERSION = "apiVersion"
    SCHEDULER_NAME = "schedulerName"
    ROUNDING = "rounding"
    ENV = "env"
    ANNOTATION = "annotation"
    LABEL = "label"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class Change:
    what: What
    message: str


def changes(
    pod: Json, ask: PodAsk, options: Options, *, api_version: str, kind: str, dropped: Sequence[str]
) -> tuple[Change, ...]:
    """`dropped` are keys in a running pod that the scheduler of another system wrote."""
    return (
        *_version(api_version, kind),
        *_scheduler(pod, ask, options),
        *(change for claim in ask.claims for change in _rounding(claim, _container(pod, claim), pod)),
        *_env(pod, would_write(ask, options)),
        *_keys(pod, dropped),
        *_resources(pod, ask),
    )


def would_write(ask: PodAsk, options: Options) -> PodResults:
    """The results for made-up cards: their names are those which a real decision would have."""
    placement = Placement(
        node=NodeName("node"), containers={claim.container: _grants(claim) for claim in ask.claims}
    )
    return pod_results(ask, placement, {card.id: card for card in _MADE_UP.values()}, options, at_ns=0)


def _grants(claim: Claim) -> tuple[CardGrant, ...]:
    card = _MADE_UP[Vendor(claim.vendor or Vendor.NVIDIA)]
    grant = CardGrant(card=card.id, index=0, memory_mib=1, core_percent=claim.core_percent)
    return (grant,) * claim.cards


def _version(api_version: str, kind: str) -> Iterator[Change]:
    if api_version in GONE_VERSIONS and kind in OF_KINDS:
        message = f"{api_version} is served no more: write {GONE_VERSIONS[api_version]}"
        yield Change(What.API_VERSION, message)


def _scheduler(pod: Json, ask: PodAsk, options: Options) -> Iterator[Change]:
    if named := replaced_scheduler(pod, ask.claims, options):
        yield Change(What.SCHEDULER_NAME, f"schedulerName {named} becomes {DEFAULT_SCHEDULER}")


def _rounding(claim: Claim, container: ContainerSpec, pod: Json) -> Iterator[Change]:
    name, limits = claim.container, container.limits
    if claim.memory_percent is not None:
        percent = float(claim.memory_percent)
        yield _rounds(f"container {name!r}: {percent:g} % of a card's memory is rounded down to whole MiB")
    if claim.memory_percent is not None and claim.dialect == "kai" and claim.memory_percent.denominator > 1:
        fraction = podspec.annotations(pod).get("gpu-fraction", "")
        yield _rounds(
            f"container {name!r}: gpu-fraction={fraction!r} promises {claim.core_percent} % of the compute"
        )
    if claim.grows:
        key = keys.VOLCANO_GPU_MEMORY
        yield _rounds(
            f"container {name!r}: where no card has {key}={str(limits[key])!r} it is spread over several, "
            "in equal shares, rounded up"
        )
    if claim.dialect == "qgpu" and claim.cards > 1 and not claim.exclusive:
        core, memory = limits[keys.QGPU_CORE], limits[keys.QGPU_MEMORY]
        each = f"{claim.core_percent} % and {(claim.memory_mib or 0) // 1024} GB"
        exact = f"{keys.QGPU_CORE}={str(core)!r} and {keys.QGPU_MEMORY}={str(memory)!r}"
        whole = int(core) % claim.cards == 0 and int(memory) % claim.cards == 0
        shares = f"{claim.cards} shares of {each}" + ("" if whole else ", rounded down")
        yield _rounds(f"container {name!r}: {exact} become {shares}")
    if claim.dialect == "vcuda" and claim.exclusive and keys.VCUDA_MEMORY in limits:
        memory = limits[keys.VCUDA_MEMORY]
        yield _rounds(
            f"container {name!r}: {keys.VCUDA_MEMORY}={str(memory)!r} does not count beside whole cards"
        )


def _rounds(message: str) -> Change:
    return Change(What.ROUNDING, message)


def _env(pod: Json, written: PodResults) -> Iterator[Change]:
    for container in podspec.containers(pod):
        ours = written.env.get(container.name, {})
        for one in container.raw.get("env") or ():
            if one.get("name") in ours:
                value = repr(str(one["value"])[:80]) if one.get("value") is not None else "a reference"
                message = f"container {container.name!r}: its own {one['name']}={value} gives way"
                yield Change(What.ENV, message)


def _keys(pod: Json, dropped: Sequence[str]) -> Iterator[Change]:
    if dropped:
        listed = ", ".join(dropped)
        yield Change(What.ANNOTATION, f"leave away what its old scheduler wrote: {listed}")
    for key, why in UNREAD_ANNOTATIONS.items():
        if key in podspec.annotations(pod):
            yield Change(What.ANNOTATION, f"{key}={podspec.annotations(pod)[key]!r} is not read: {why}")
    for key, why in UNREAD_LABELS.items():
        if key in podspec.labels(pod):
            yield Change(What.LABEL, f"{key}={podspec.labels(pod)[key]!r} is not read: {why}")


def _resources(pod: Json, ask: PodAsk) -> Iterator[Change]:
    for container in podspec.containers(pod):
        for key, value in container.limits.items():
            if key.startswith(VENDOR_DOMAINS) and key not in ask.resources:
                message = f"container {container.name!r}: {key}={str(value)[:80]!r} is not read"
                yield Change(What.RESOURCE, message)


def _container(pod: Json, claim: Claim) -> ContainerSpec:
    return next(one for one in podspec.containers(pod) if one.name == claim.container)


def names(written: PodResults) -> Mapping[str, Sequence[str]]:
    """What the scheduler would write into the pod, and what its containers would see, by name."""
    return {
        "annotations": sorted({keys.DECISION, *written.annotations}),
        "labels": sorted(written.labels),
        "env": sorted({name for env in written.env.values() for name in env}),
    }
