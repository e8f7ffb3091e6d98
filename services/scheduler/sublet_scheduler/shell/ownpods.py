"""What the scheduler's own pods have in common: they do nothing, and are known by their labels."""

from collections.abc import Mapping
from typing import Any

from sublet.contract import keys, podspec
from sublet.contract.podspec import Json
from sublet.model.ids import NodeName, PodRef, PodUid
from sublet_scheduler.core.facts import PodFacts


def own_labels(component: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "sublet",
        "app.kubernetes.io/part-of": "sublet",
        keys.COMPONENT_LABEL: component,
    }


def is_own(pod: Json, *, component: str, namespace: str) -> bool:
    """Whether it is one of ours, and not another pod that somebody put into the namespace."""
    labelled = own_labels(component).items() <= podspec.labels(pod).items()
    return pod["metadata"]["namespace"] == namespace and labelled


def idle_spec(component: str, image: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    """One container that only asks for `resources`, under the restricted Pod Security Standard."""
    return {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": component,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "resources": resources,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def own_facts(pod: Json) -> PodFacts:
    """What any of them is and where, without what it stands for."""
    meta, status = pod["metadata"], pod.get("status") or {}
    node = pod["spec"].get("nodeName")
    return PodFacts(
        uid=PodUid(meta["uid"]),
        ref=PodRef(meta["namespace"], meta["name"]),
        version=meta["resourceVersion"],
        node=NodeName(node) if node else None,
        phase=status.get("phase") or "Pending",
        deleting=bool(meta.get("deletionTimestamp")),
    )
