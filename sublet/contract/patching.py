"""JSON Patches that write a decision into a pod: at admission, at release, and back to waiting.

Each touched part of the pod is computed whole and replaced whole, so that patching an object which
already carries our part yields an empty patch.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from sublet.contract import decision, dialects, keys, podspec, results
from sublet.contract.dialects.interface import Options
from sublet.contract.podspec import Json
from sublet.contract.reading import replaced_scheduler
from sublet.contract.results import PodResults
from sublet.model.claim import Claim, PodAsk
from sublet.model.ids import DecisionId, NodeName, PodUid
from sublet.model.placement import Placement

Operation = dict[str, Any]

DEFAULT_SCHEDULER = "default-scheduler"


def admission_patch(
    pod: Json,
    ask: PodAsk,
    id_: DecisionId,
    *,
    placement: Placement | None,
    written: PodResults | None,
    waiting: str,
    options: Options,
    key: bytes,
    node_labels: Container[tuple[str, str]] = (),
) -> list[Operation]:
    """What the webhook answers for a claiming pod: gate, slots, label, tolerations, env and annotations.

    `placement` with its `written` results is the proposal; without it the pod waits and `waiting`
    says why. A pod with spec.nodeName gets no gate (the API refuses it). `node_labels` are labels that
    some node has: variables that go with others would be of no use.
    """
    patch = _Patch(pod)
    spec = pod.get("spec") or {}
    if not ask.node_name and keys.GATE not in podspec.gates(pod):
        patch.put("/spec/schedulingGates", [*(spec.get("schedulingGates") or ()), {"name": keys.GATE}])
    added = [
        {"key": one.key, "operator": one.operator}
        for one in podspec.missing_tolerations(pod, options.tolerate)
    ]
    patch.put("/spec/tolerations", [*(spec.get("tolerations") or ()), *added])
    if replaced_scheduler(pod, ask.claims, options):
        patch.put("/spec/schedulerName", DEFAULT_SCHEDULER)
    claims = {claim.container: claim for claim in ask.claims}
    for container in podspec.containers(pod):
        if container.name in claims:
            patch.put(f"{container.path}/resources", _with_slot(container.raw.get("resources") or {}))
            env = _with_env(container.raw.get("env") or (), claims[container.name], node_labels)
            patch.put(f"{container.path}/env", env)
    labels = {**_without_result_labels(pod), keys.CLAIMED_LABEL: "true"}
    patch.put("/metadata/labels", labels | dict(written.labels if written else {}))
    annotations = _without_results(podspec.annotations(pod))
    annotations[keys.DECISION] = decision.write(id_, placement, uid=None, key=key)
    annotations |= written.annotations if written else {keys.WAITING: waiting}
    patch.put("/metadata/annotations", annotations)
    return patch.operations


def release_patch(
    pod: Json,
    id_: DecisionId,
    *,
    uid: PodUid,
    version: str,
    placement: Placement,
    written: PodResults,
    key: bytes,
) -> list[Operation]:
    """The ONE patch that pins and releases a gated pod, or completes an ungated one (spec.nodeName).

    It fails as a whole where the pod is another, was changed since `version`, or lost our gate.
    """
    patch = _Patch(pod)
    patch.test("/metadata/uid", uid)
    patch.test("/metadata/resourceVersion", version)
    gates = podspec.gates(pod)
    if keys.GATE in gates:
        at = gates.index(keys.GATE)
        patch.test(f"/spec/schedulingGates/{at}/name", keys.GATE)
        patch.put("/spec/affinity", _pinned((pod.get("spec") or {}).get("affinity") or {}, placement.node))
        patch.remove(f"/spec/schedulingGates/{at}")
    patch.put("/metadata/labels", _without_result_labels(pod) | dict(written.labels))
    annotations = _without_results(podspec.annotations(pod))
    annotations[keys.DECISION] = decision.write(id_, placement, uid=uid, key=key)
    patch.put("/metadata/annotations", annotations | dict(written.annotations))
    return patch.operations


def waiting_patch(
    pod: Json, id_: DecisionId, *, uid: PodUid, version: str, waiting: str, key: bytes
) -> list[Operation]:
    """Back to waiting: no trace of an older proposal stays. It always changes the pod, so that every
    release patch made for an earlier version must fail."""
    patch = _Patch(pod)
    patch.test("/metadata/uid", uid)
    patch.test("/metadata/resourceVersion", version)
    annotations = _without_results(podspec.annotations(pod))
    annotations[keys.DECISION] = decision.write(id_, None, uid=uid, key=key, after=version)
    annotations[keys.WAITING] = waiting
    patch.put("/metadata/labels", _without_result_labels(pod))
    patch.put("/metadata/annotations", annotations)
    return patch.operations


def elsewhere_patch(pod: Json) -> list[Operation]:
    """Keep a pod that names foreign resources in an unmanaged namespace off our nodes."""
    requirement = {"key": keys.CARDS_LABEL, "operator": "DoesNotExist"}
    patch = _Patch(pod)
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    patch.put("/spec/affinity", _with_requirement(affinity, "matchExpressions", requirement))
    return patch.operations


class _Patch:
    """Collects operations; leaves out what would change nothing."""

    def __init__(self, pod: Json) -> None:
        self._pod = pod
        self.operations: list[Operation] = []

    def test(self, path: str, value: object) -> None:
        self.operations.append({"op": "test", "path": path, "value": value})

    def put(self, path: str, value: Any) -> None:
        if self._at(path) != value and (value or self._at(path)):
            self.operations.append({"op": "add", "path": path, "value": value})

    def remove(self, path: str) -> None:
        self.operations.append({"op": "remove", "path": path})

    def _at(self, path: str) -> Any:
        found: Any = self._pod
        for step in path.strip("/").split("/"):
            found = found[int(step)] if isinstance(found, list | tuple) else (found or {}).get(step)
        return found


def _with_slot(resources: Mapping[str, Any]) -> dict[str, Any]:
    limits = {**(resources.get("limits") or {}), keys.SLOT: "1"}
    requests = {**(resources.get("requests") or {}), keys.SLOT: "1"}
    return {**resources, "limits": limits, "requests": requests}


def _with_env(
    env: Iterable[Mapping[str, Any]], claim: Claim, node_labels: Container[tuple[str, str]]
) -> list[Mapping[str, Any]]:
    """The container's variables with ours in place of any of the same name."""
    ours: dict[str, Mapping[str, Any]] = {}
    sources = results.env_sources(claim) | results.label_sources(claim, node_labels)
    for name, annotation in sources.items():
        # apiVersion as the API defaults it, so that a second round sees no difference
        field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}
        ours[name] = {"name": name, "valueFrom": {"fieldRef": field}}
    for name, value in results.env_constants(claim).items():
        ours[name] = {"name": name, "value": value}
    kept = [one for one in env if one.get("name") not in ours]
    return [*ours.values(), *kept]


def _without_results(annotations: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in annotations.items()
        if not (keys.is_reserved(key) or any(one.is_result(key) for one in dialects.ALL))
    }


def _without_result_labels(pod: Json) -> dict[str, str]:
    theirs = tuple(label for one in dialects.ALL for label in one.result_labels)
    return {key: value for key, value in podspec.labels(pod).items() if not key.startswith(theirs)}


def _pinned(affinity: Mapping[str, Any], node: NodeName) -> dict[str, Any]:
    requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    return _with_requirement(affinity, "matchFields", requirement)


def _with_requirement(
    affinity: Mapping[str, Any], kind: str, requirement: Mapping[str, Any]
) -> dict[str, Any]:
    """`requirement` in every non-empty required term (they are alternatives), or as the only term."""
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    node_affinity = affinity.get("nodeAffinity") or {}
    terms = (node_affinity.get(name) or {}).get("nodeSelectorTerms") or ()
    new = [
        {**term, kind: [*(term.get(kind) or ()), requirement]}
        if any(term.values()) and requirement not in (term.get(kind) or ())
        else term
        for term in terms
    ] or [{kind: [requirement]}]
    return {**affinity, "nodeAffinity": {**node_affinity, name: {"nodeSelectorTerms": new}}}
