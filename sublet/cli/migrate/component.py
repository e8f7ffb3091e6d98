"""Recognises what other systems run in a cluster: device plugins, drivers, webhooks, schedulers, totals."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sublet_scheduler.core.totals import WRITTEN

from sublet.cli.podtemplate import templates
from sublet.contract import dialects, keys, podspec, quantity
from sublet.contract.podspec import Json

PLUGIN_FOLDER = "/var/lib/kubelet/device-plugins"
OURS = "sublet"
CONFIGURATION = re.compile(r"--(?:config|policy-config-file)=(\S+)")


class Role(StrEnum):
    PLUGIN = "device plugin"
    DRIVER = "DRA driver"
    TOTAL = "node total"
    WEBHOOK = "webhook"
    EXTENDER = "scheduler extender"
    SCHEDULER = "scheduler"


class When(StrEnum):
    """In the order in which things must go."""

    NAMESPACE = "before a namespace is labelled"
    NODE = "before its node comes over"
    LAST = "after the last node"
    LOOK = "look at it"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One other system, by parts of its images' names."""

    name: str
    plugins: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    """Parts of the names of its webhooks that change pods with cards."""
    drivers: tuple[str, ...] = ()


# the first that fits is taken: HAMi's images hold plugins of Volcano, "gpu-manager" stands in other names
SYSTEMS = (
    System(name="NVIDIA DRA", drivers=("k8s-dra-driver", "dra-driver-nvidia-gpu")),
    System(name="AMD", plugins=("rocm/k8s-device-plugin", "amd-gpu-device-plugin")),
    System(
        name="gpushare",
        plugins=("gpushare-plugin", "gpushare-device-plugin"),
        schedulers=("gpushare-sch",),
    ),
    System(
        name="Volcano",
        plugins=("volcano-device-plugin", "volcano-vgpu-device-plugin"),
        schedulers=("vc-scheduler", "volcano-scheduler"),
    ),
    System(
        name="HAMi",
        plugins=("projecthami/", "4pdosc/k8s-vdevice", "mock-device-plugin"),
        schedulers=("projecthami/", "hami-scheduler"),
        webhooks=("hami",),
    ),
    System(name="NVIDIA", plugins=("nvidia/k8s-device-plugin", "nvidia-device-plugin")),
    System(name="qGPU", plugins=("qgpu-manager",), schedulers=("qgpu-scheduler",)),
    System(
        name="Elastic GPU",
        plugins=("elastic-gpu-agent", "nano-gpu-agent"),
        schedulers=("elastic-gpu-scheduler", "nano-gpu-scheduler"),
    ),
    System(
        name="vgpu-manager",
        plugins=("vgpu-manager",),
        schedulers=("vgpu-manager",),
        webhooks=("vgpu-manager",),
    ),
    System(name="gpu-manager", plugins=("gpu-manager",), schedulers=("gpu-admission",)),
    System(name="KAI", schedulers=("kai-scheduler",), webhooks=("kai-", "kai.scheduler")),
)
LABELLING = "gpu-feature-discovery"
"""Shares an image with NVIDIA's device plugin, and serves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    kind: str
    namespace: str
    name: str
    system: str
    role: Role
    when: When
    way_out: str
    nodes: tuple[str, ...] = ()
    """Where it runs, as far as that is known."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def serves(self) -> bool:
        """Whether it gives away the cards that Sublet would give away, or changes the pods that ask."""
        return self.when in (When.NAMESPACE, When.NODE)


def components(objects: Iterable[Json]) -> list[Component]:
    """What must go or be looked at, in the order in which it must go."""
    listed = list(objects)
    found = [component for one in listed for component in _of(one, listed)]
    order = list(When)
    return sorted(found, key=lambda one: (order.index(one.when), one.kind, one.namespace, one.name))


def _of(obj: Json, listed: Sequence[Json]) -> Iterator[Component]:
    match obj.get("kind"):
        case "DaemonSet" | "Deployment" | "StatefulSet":
            yield from _running(obj, listed)
        case "MutatingWebhookConfiguration":
            yield from _webhook(obj)
        case "ResourceSlice":
            yield from _slice(obj)
        case "ConfigMap":
            yield from _extender(obj)
        case "Pod":
            yield from _kube_scheduler(obj)
        case "Node":
            yield from _totals(obj)


def _running(obj: Json, listed: Sequence[Json]) -> Iterator[Component]:
    pods = [template for _, template in templates(obj)]
    images = [str(one.raw.get("image") or "") for pod in pods for one in podspec.containers(pod)]
    words = " ".join([_meta(obj).get("name", ""), *images]).lower()
    own = any(podspec.labels(pod).get("app.kubernetes.io/name") == OURS for pod in pods)
    if own or LABELLING in _meta(obj).get("name", ""):
        return
    here = {"kind": obj["kind"], **_where(obj)}
    daemon = obj["kind"] == "DaemonSet"
    system = next((one for one in SYSTEMS if _named(words, one.plugins if daemon else one.schedulers)), None)
    driver = next((one for one in SYSTEMS if _named(words, one.drivers)), None)
    nodes = _nodes_of(obj, listed) if daemon else ()
    serving = driver or system
    if serving and daemon:
        idle = (obj.get("status") or {}).get("desiredNumberScheduled") == 0
        yield Component(
            **here,
            system=serving.name,
            role=Role.DRIVER if driver else Role.PLUGIN,
            when=When.LAST if idle else When.NODE,
            nodes=nodes,
            way_out=_delete(obj, "delete it" if idle else "take it off a node before the node comes over"),
        )
    elif system:
        way_out = _delete(obj, "delete it when no pod of its system is left")
        yield Component(**here, system=system.name, role=Role.SCHEDULER, when=When.LAST, way_out=way_out)
    elif daemon and any(_serves_kubelet(pod) for pod in pods):
        way_out = "see what it serves: a plugin of network cards may stay, one of GPUs must go"
        yield Component(**here, system="", role=Role.PLUGIN, when=When.LOOK, nodes=nodes, way_out=way_out)


def _named(words: str, parts: Iterable[str]) -> bool:
    return any(part in words for part in parts)


def _delete(obj: Json, otherwise: str) -> str:
    """An operator would bring back what is deleted behind its back."""
    for owner in _meta(obj).get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{otherwise}; switch it off in {owner.get('kind')} {owner.get('name')}, which makes it"
    return otherwise


def _nodes_of(obj: Json, listed: Sequence[Json]) -> tuple[str, ...]:
    uid = _meta(obj).get("uid")
    found = {
        (one.get("spec") or {}).get("nodeName")
        for one in listed
        if uid and one.get("kind") == "Pod" and podspec.controller(one)[0] == uid
    }
    return tuple(sorted(node for node in found if node))


def _serves_kubelet(pod: Json) -> bool:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    paths = (str((one.get("hostPath") or {}).get("path") or "") for one in volumes)
    return any(path.rstrip("/") == PLUGIN_FOLDER for path in paths)


def _webhook(obj: Json) -> Iterator[Component]:
    name = _meta(obj)["name"]
    if name == OURS or not any(_creates_pods(one) for one in obj.get("webhooks") or ()):
        return
    words = " ".join([name, *(one.get("name", "") for one in obj["webhooks"])]).lower()
    system = next((one for one in SYSTEMS if _named(words, one.webhooks)), None)
    foreign = "delete it: it sends pods with cards to its own scheduler"
    yield Component(
        kind=obj["kind"],
        namespace="",
        name=name,
        system=system.name if system else "",
        role=Role.WEBHOOK,
        when=When.NAMESPACE if system else When.LOOK,
        way_out=foreign if system else "nothing, unless it writes GPU resources or schedulerName into pods",
    )


def _creates_pods(webhook: Mapping[str, Any]) -> bool:
    return any(
        {"CREATE", "*"} & set(rule.get("operations") or ())
        and {"pods", "*", "*/*"} & set(rule.get("resources") or ())
        for rule in webhook.get("rules") or ()
    )


def _slice(obj: Json) -> Iterator[Component]:
    spec = obj.get("spec") or {}
    if spec.get("driver") in keys.GPU_DRIVERS and spec.get("nodeName"):
        yield Component(
            kind=obj["kind"],
            namespace="",
            name=_meta(obj)["name"],
            system=spec["driver"],
            role=Role.DRIVER,
            when=When.NODE,
            nodes=(spec["nodeName"],),
            way_out="it goes when its driver has left the node",
        )


def _extender(obj: Json) -> Iterator[Component]:
    for key, text in (obj.get("data") or {}).items():
        if "extenders" in text and ("KubeSchedulerConfiguration" in text or "urlPrefix" in text):
            named = sorted({name for one in dialects.ALL for name in one.resources if name in text})
            if named:
                where = _where(obj)
                yield Component(
                    kind=obj["kind"],
                    namespace=where["namespace"],
                    name=where["name"],
                    system=", ".join(named),
                    role=Role.EXTENDER,
                    when=When.LAST,
                    way_out=f"take these resources out of extenders in {key}",
                )


def _kube_scheduler(obj: Json) -> Iterator[Component]:
    """Its configuration lies in a file of its node, which nobody can read from here."""
    if podspec.labels(obj).get("component") != "kube-scheduler":
        return
    for container in podspec.containers(obj):
        words = " ".join([*(container.raw.get("command") or ()), *(container.raw.get("args") or ())])
        if found := CONFIGURATION.search(words):
            where, node = _where(obj), (obj.get("spec") or {}).get("nodeName")
            yield Component(
                kind="Pod",
                namespace=where["namespace"],
                name=where["name"],
                system="kube-scheduler",
                role=Role.EXTENDER,
                when=When.LOOK,
                nodes=(node,) if node else (),
                way_out=f"read {found[1]} there: extenders of GPU resources go after the last node",
            )


def _totals(obj: Json) -> Iterator[Component]:
    """What the node shows though Sublet did not write it: with it the node stays ForeignPlugin."""
    written = (_meta(obj).get("annotations") or {}).get(WRITTEN, "").split(",")
    for name, amount in ((obj.get("status") or {}).get("capacity") or {}).items():
        if name == keys.SLOT or name in written or not any(one.names(name) for one in dialects.ALL):
            continue
        if _is_positive(amount):
            node = _meta(obj)["name"]
            yield Component(
                kind="Node",
                namespace="",
                name=node,
                system=f"{name}={amount}",
                role=Role.TOTAL,
                when=When.NODE,
                nodes=(node,),
                way_out="it goes five minutes after its plugin has left; where a plugin wrote it by hand: "
                f"kubectl patch node {node} --subresource=status --type=merge "
                f'-p \'{{"status":{{"capacity":{{"{name}":null}},"allocatable":{{"{name}":null}}}}}}\'',
            )


def _is_positive(amount: object) -> bool:
    try:
        return quantity.quantity(amount) > 0
    except ValueError:
        return False


def _where(obj: Json) -> dict[str, str]:
    return {"namespace": _meta(obj).get("namespace") or "default", "name": _meta(obj).get("name") or ""}


def _meta(obj: Json) -> Mapping[str, Any]:
    return obj.get("metadata") or {}
