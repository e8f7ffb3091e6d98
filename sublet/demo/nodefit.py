"""Whether a pod fits a node, as kube-scheduler filters: labels, taints, what is left of each resource.

Pod affinity, volumes, ports and topology spread are not looked at.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from sublet.demo.apiserver.podrules import required_terms
from sublet.demo.apiserver.selectors import holds
from sublet.demo.quantity import quantity
from sublet.kube.port import Json

Amounts = Mapping[str, Fraction]
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def objection(pod: Json, node: Json, *, used: Amounts) -> str | None:
    """The first thing that stands against this node, in kube-scheduler's words; None when it fits."""
    spec = pod["spec"]
    if not _is_ready(node):
        return "node(s) were not ready"
    if not _selected(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    for taint in _taints(node):
        if not any(_tolerates(each, taint) for each in spec.get("tolerations") or []):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    for name, amount in requests(pod).items():
        if used.get(name, Fraction(0)) + amount > quantity(allocatable.get(name, 0)):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return None


def requests(pod: Json) -> Amounts:
    """What the pod takes: its containers together or its largest moment of initialising."""
    spec = pod["spec"]
    running: Amounts = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or []:
        own = _requested(container)
        for name, amount in added((own, running)).items():
            peak[name] = max(peak.get(name, Fraction(0)), amount)
        if container.get("restartPolicy") == "Always":  # a sidecar stays
            running = added((running, own))
    total = dict(added((running, *(_requested(each) for each in spec.get("containers") or []))))
    for name, amount in peak.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
    return total | {"pods": Fraction(1)}


def added(amounts: Iterable[Amounts]) -> Amounts:
    total: dict[str, Fraction] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def _requested(container: Json) -> Amounts:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {name: quantity(value) for name, value in asked.items()}


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return all(each["status"] == "True" for each in conditions if each["type"] == "Ready")


def _selected(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(spec)
    return not terms or any(_term_matches(term, node) for term in terms)


def _term_matches(term: Json, node: Json) -> bool:
    """A term's requirements must all hold; a term without any matches nothing."""
    labels = node["metadata"].get("labels") or {}
    by_label, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
    fields = {"metadata.name": node["metadata"]["name"]}
    return bool(by_label or by_field) and (
        all(holds(each["operator"], labels.get(each["key"]), each.get("values") or []) for each in by_label)
        and all(
            holds(each["operator"], fields.get(each["key"]), each.get("values") or []) for each in by_field
        )
    )


def _taints(node: Json) -> list[Json]:
    spec = node.get("spec") or {}
    taints = [each for each in spec.get("taints") or [] if each["effect"] in ("NoSchedule", "NoExecute")]
    return [*taints, _UNSCHEDULABLE] if spec.get("unschedulable") else taints


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect", "") not in ("", taint["effect"]):
        return False
    if toleration.get("key", "") not in ("", taint["key"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
