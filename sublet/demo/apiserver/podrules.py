"""The API server's rules for pods that scheduling gates, pins and extended resources depend on.

Each function returns complaints in the form `path: what is wrong`; none means yes.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from sublet.demo.apiserver.poddefaults import containers
from sublet.demo.quantity import quantity
from sublet.kube.port import Json

_UPDATABLE = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_NATIVE = ("cpu", "memory", "ephemeral-storage")


def creation_complaints(pod: Json) -> list[str]:
    spec = pod["spec"]
    complaints = [*_container_complaints(spec), *_gate_complaints(spec), *_term_complaints(spec)]
    for path, container in containers(spec):
        complaints += _resource_complaints(f"{path}.resources", container.get("resources") or {})
    return complaints


def update_complaints(old: Json, new: Json) -> list[str]:
    """What an update may not do; a pod that was gated allows more than one that was not."""
    was, now = old["spec"], new["spec"]
    complaints = [*_new_gate_complaints(was, now), *_toleration_complaints(was, now)]
    comparable = deepcopy(now)
    for (_, container), (_, before) in zip(containers(comparable), containers(was), strict=False):
        container["image"] = before.get("image")
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _take_over(comparable, was, field)
    if was.get("schedulingGates"):
        complaints += _selector_complaints(was, now) + _required_complaints(was, now) + _term_complaints(now)
        _take_over(comparable, was, "nodeSelector")
        _take_over_node_affinity(comparable, was)
    if comparable != was:
        complaints.append(_UPDATABLE)
    return complaints


def resized(was: Json, now: Json) -> Json:
    """The spec with new resources of its containers, which is all that a resize may change."""
    sizes = {one["name"]: one.get("resources") or {} for one in now["containers"]}
    return {
        **was,
        "containers": [
            {**one, "resources": sizes.get(one["name"], one.get("resources") or {})}
            for one in was["containers"]
        ],
    }


def gate_names(spec: Json) -> list[str]:
    return [gate["name"] for gate in spec.get("schedulingGates") or []]


def _container_complaints(spec: Json) -> list[str]:
    complaints = [] if spec.get("containers") else ["spec.containers: Required value"]
    seen: set[str] = set()
    for path, container in containers(spec):
        name = container.get("name", "")
        if not name:
            complaints.append(f"{path}.name: Required value")
        elif name in seen:
            complaints.append(f'{path}.name: Duplicate value: "{name}"')
        seen.add(name)
        if not container.get("image"):
            complaints.append(f"{path}.image: Required value")
    return complaints


def _gate_complaints(spec: Json) -> list[str]:
    names = gate_names(spec)
    complaints = [
        f'spec.schedulingGates[{number}]: Duplicate value: "{name}"'
        for number, name in enumerate(names)
        if name in names[:number]
    ]
    if names and spec.get("nodeName"):
        complaints.append(
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
        )
    return complaints


def _resource_complaints(path: str, resources: Json) -> list[str]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    complaints: list[str] = []
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            complaints += _quantity_complaints(f"{path}.{part}[{name}]", name, value)
    if complaints:
        return complaints
    for name, value in requests.items():
        at = f'{path}.requests: Invalid value: "{value}"'
        if name not in limits:
            if _is_extended(name):
                complaints.append(
                    f"{path}.limits: Required value: Limit must be set for non overcommitable resources"
                )
        elif _is_extended(name) and quantity(value) != quantity(limits[name]):
            complaints.append(f"{at}: must be equal to {name} limit of {limits[name]}")
        elif quantity(value) > quantity(limits[name]):
            complaints.append(f"{at}: must be less than or equal to {name} limit of {limits[name]}")
    return complaints


def _quantity_complaints(path: str, name: str, value: Any) -> list[str]:
    try:
        amount = quantity(value)
    except ValueError:
        return [f'{path}: Invalid value: "{value}": quantities must match the regular expression']
    if amount < 0:
        return [f'{path}: Invalid value: "{value}": must be greater than or equal to 0']
    if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        return [f'{path}: Invalid value: "{name}": must be a standard resource for containers']
    if _is_extended(name) and amount.denominator != 1:
        return [f'{path}: Invalid value: "{value}": must be an integer']
    return []


def _is_extended(name: str) -> bool:
    return "/" in name and not name.split("/")[0].endswith("kubernetes.io")


def _new_gate_complaints(was: Json, now: Json) -> list[str]:
    added = set(gate_names(now)) - set(gate_names(was))
    only = "only deletion is allowed, but found new scheduling gate"
    return [f"spec.schedulingGates: Forbidden: {only} '{name}'" for name in sorted(added)]


def _toleration_complaints(was: Json, now: Json) -> list[str]:
    """Every old toleration must still be there; only its seconds may have changed."""

    def but_seconds(toleration: Json) -> Json:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [but_seconds(each) for each in now.get("tolerations") or []]
    if all(but_seconds(each) in kept for each in was.get("tolerations") or []):
        return []
    return [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def _selector_complaints(was: Json, now: Json) -> list[str]:
    new = now.get("nodeSelector") or {}
    if all(new.get(key) == value for key, value in (was.get("nodeSelector") or {}).items()):
        return []
    return ["spec.nodeSelector: Invalid value: only additions are allowed (no mutations or deletions)"]


def _required_complaints(was: Json, now: Json) -> list[str]:
    """Old terms stay in number and place, and each keeps what it demanded as an unchanged prefix."""
    old, new = required_terms(was), required_terms(now)
    if not old:
        return []
    if len(old) != len(new):
        return [
            f"{_TERMS}: Invalid value: no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        ]
    return [
        f"{_TERMS}[{number}]: Invalid value: only additions are allowed (no mutations or deletions)"
        for number, (before, after) in enumerate(zip(old, new, strict=True))
        if not _only_longer(before, after)
    ]


def _only_longer(before: Json, after: Json) -> bool:
    parts = [(before.get(part) or [], after.get(part) or []) for part in ("matchExpressions", "matchFields")]
    if not any(old for old, _ in parts):  # an empty term matches nothing and must not begin to
        return not any(new for _, new in parts)
    return all(new[: len(old)] == old for old, new in parts)


def _term_complaints(spec: Json) -> list[str]:
    only = "Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
    return [
        f"{_TERMS}[{number}].matchFields[0].values: {only}"
        for number, term in enumerate(required_terms(spec))
        for field in term.get("matchFields") or []
        if field.get("operator") in ("In", "NotIn") and len(field.get("values") or []) != 1
    ]


def required_terms(spec: Json) -> Sequence[Json]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or []


def _take_over(spec: Json, was: Json, field: str) -> None:
    if field in was:
        spec[field] = was[field]
    else:
        spec.pop(field, None)


def _take_over_node_affinity(spec: Json, was: Json) -> None:
    affinity: Json = dict(spec.get("affinity") or {})
    _take_over(affinity, was.get("affinity") or {}, "nodeAffinity")
    spec["affinity"] = affinity
    if not affinity and "affinity" not in was:
        del spec["affinity"]
