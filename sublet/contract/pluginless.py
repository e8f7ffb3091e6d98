"""Pods that ask for cards with variables alone, as on nodes without any device plugin.

NVIDIA's runtime gives whoever names cards what they name; where a machine has one card and one DaemonSet that
uses it, many clusters have nothing else.
"""

from collections.abc import Mapping
from typing import Any

from sublet.contract import dialects, keys, podspec
from sublet.contract.podspec import ContainerSpec, Json

VISIBLE = keys.ENV_NVIDIA_VISIBLE
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
NO_CARDS = frozenset({"", "void", "none"})
_METADATA_NAME = "metadata.name"


def names_cards(container: ContainerSpec) -> bool:
    """Whether the container's variables ask for cards. Capabilities alone do: images add the rest."""
    values = {one.get("name"): one.get("value", "") for one in container.raw.get("env") or ()}
    return values.get(VISIBLE, "all" if CAPABILITIES in values else "") not in NO_CARDS


def naming_container(pod: Json) -> str:
    """The one container that names cards, of a pod without any claim; empty for none and for several."""
    found = list(podspec.containers(pod))
    claiming = any(one.names(key) for one in dialects.ALL for each in found for key in each.limits)
    annotated = any(one.claiming_annotations & podspec.annotations(pod).keys() for one in dialects.ALL)
    named = [one.name for one in found if names_cards(one)]
    return named[0] if len(named) == 1 and not (claiming or annotated) else ""


def daemonset_node(pod: Json) -> str:
    """The node that a DaemonSet made the pod for; empty for other pods."""
    if podspec.controller(pod)[1] != "DaemonSet":
        return ""
    named = {
        one.values
        for term in podspec.required_affinity(pod)
        for one in term
        if one.field and one.key == _METADATA_NAME and one.operator == "In"
    }
    return next(iter(named))[0] if len(named) == 1 and all(len(one) == 1 for one in named) else ""


def with_whole_card(pod: Json, container: str) -> dict[str, Any]:
    """The pod as if `container` had asked for a whole card in NVIDIA's words."""
    spec = dict(pod["spec"])
    for part in ("initContainers", "containers"):
        if part in spec:
            spec[part] = [_claiming(one) if one.get("name") == container else one for one in spec[part]]
    return {**pod, "spec": spec}


def _claiming(raw: Mapping[str, Any]) -> dict[str, Any]:
    resources = raw.get("resources") or {}
    amounts = {part: {**(resources.get(part) or {}), keys.NVIDIA_GPU: "1"} for part in ("limits", "requests")}
    return {**raw, "resources": {**resources, **amounts}}
