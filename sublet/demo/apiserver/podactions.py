"""The subresources of a pod that act instead of storing: binding and eviction."""

from sublet.demo.apiserver.answers import Refused, conflict, success
from sublet.demo.apiserver.registry import Registry
from sublet.demo.apiserver.selectors import matches_object
from sublet.demo.apiserver.store import Key
from sublet.kube.kind import POD_DISRUPTION_BUDGETS, PODS
from sublet.kube.port import Json


async def bind(registry: Registry, key: Key, body: Json, *, dry_run: bool, user: str) -> Json:
    """Give a pod its node, once, and take over the binding's annotations."""
    body = await registry.admit_subresource(key, "binding", body, dry_run=dry_run, user=user)
    pod = registry.store.get(key)
    meta, spec = pod["metadata"], pod["spec"]
    wanted_uid = (body.get("metadata") or {}).get("uid")
    if wanted_uid and wanted_uid != meta["uid"]:
        raise _refuse(
            key, f"Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {meta['uid']}"
        )
    if meta.get("deletionTimestamp"):
        raise _refuse(key, f"pod {key.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _refuse(key, f'pod {key.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refuse(key, f"pod {key.name} has non-empty .spec.schedulingGates")
    added = (body.get("metadata") or {}).get("annotations") or {}
    if added:
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **added}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": registry.now()}
    conditions = [each for each in pod["status"].get("conditions") or [] if each["type"] != "PodScheduled"]
    bound = {
        **pod,
        "metadata": meta,
        "spec": {**spec, "nodeName": body["target"]["name"]},
        "status": {**pod["status"], "conditions": [*conditions, scheduled]},
    }
    if not dry_run:
        registry.store.replace(key, bound)
    return success(PODS, key.name, meta["uid"], code=201)


async def evict(registry: Registry, key: Key, body: Json, *, dry_run: bool, user: str) -> Json:
    """Delete a pod unless a disruption budget says not now."""
    body = await registry.admit_subresource(key, "eviction", body, dry_run=dry_run, user=user)
    pod = registry.store.get(key)
    going = pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") != "Running"
    if not going:
        _ask_budgets(registry, key, pod)
    await registry.delete(key, body.get("deleteOptions") or {}, dry_run=dry_run, user=user)
    return success(PODS, key.name, code=201)


def _ask_budgets(registry: Registry, key: Key, pod: Json) -> None:
    labels = pod["metadata"].get("labels") or {}
    for stored in registry.store.select(POD_DISRUPTION_BUDGETS, key.namespace, lambda _: True):
        budget = stored.obj
        if not matches_object(budget["spec"].get("selector"), labels):
            continue
        if (budget.get("status") or {}).get("disruptionsAllowed", 0) <= 0:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise Refused(429, "TooManyRequests", message, retry_after_s=10)


def _refuse(key: Key, why: str) -> Refused:
    return conflict(PODS, key.name, why, of="binding")
