"""Lets go of a released pod that its node cannot take: deletes it where an owner makes another one.

A Job's pod is deleted only where the Job forgives it: a podFailurePolicy that ignores DisruptionTarget, and
the condition written before.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from sublet.kube.errors import KubeError, NotFound
from sublet.kube.kind import JOBS, PODS
from sublet.kube.port import Json, Kube, StrategicPatch
from sublet.model.reasons import ReportCode
from sublet_scheduler.core.effects import FreeStuckPin, Report

log = structlog.get_logger()

CONDITION = "DisruptionTarget"
REASON = "SubletStuckPin"


@dataclass(frozen=True, slots=True)
class StuckPins:
    kube: Kube

    async def free(self, effect: FreeStuckPin, *, now_ms: int) -> Report | None:
        """What a person should know of it; None where the pod needed no freeing any more."""
        try:
            return await self._free(effect, now_ms)
        except NotFound:
            return None
        except KubeError as error:
            log.warning("stuck_pin.unfreed", pod=str(effect.ref), error=str(error))
            return None  # it is still stuck, and is tried again after the owner's back-off

    async def _free(self, effect: FreeStuckPin, now_ms: int) -> Report | None:
        namespace, name = effect.ref.namespace, effect.ref.name
        pod = await self.kube.get(PODS, name, namespace=namespace)
        if pod["metadata"]["uid"] != effect.uid or (pod.get("status") or {}).get("startTime"):
            return None
        if not effect.owner_kind:
            return _report(
                effect, ReportCode.STUCK_PIN, "nothing would replace it: delete it, or make room on the node"
            )
        if effect.owner_kind == "Job":
            if not await self._job_forgives(pod, namespace):
                why = (
                    f"its Job would count a failure: delete the pod, or give the Job a podFailurePolicy with "
                    f"action Ignore on {CONDITION}"
                )
                return _report(effect, ReportCode.STUCK_PIN, why)
            pod = await self._mark(effect, now_ms)
        version = pod["metadata"]["resourceVersion"]
        await self.kube.delete(PODS, name, namespace=namespace, uid=effect.uid, resource_version=version)
        log.info("stuck_pin.freed", pod=str(effect.ref), owner_kind=effect.owner_kind)
        return _report(
            effect, ReportCode.STUCK_PIN_FREED, f"deleted, so that its {effect.owner_kind} makes another one"
        )

    async def _job_forgives(self, pod: Json, namespace: str) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        owner = next((one for one in owners if one.get("controller")), None)
        if owner is None:  # its Job has let go of it since
            return False
        job = await self.kube.get(JOBS, owner["name"], namespace=namespace)
        policy = (job.get("spec") or {}).get("podFailurePolicy") or {}
        for rule in policy.get("rules") or ():
            patterns = rule.get("onPodConditions") or ()
            if any(one.get("type") == CONDITION and one.get("status", "True") == "True" for one in patterns):
                return bool(rule.get("action") == "Ignore")
        return False

    async def _mark(self, effect: FreeStuckPin, now_ms: int) -> Json:
        condition: dict[str, Any] = {
            "type": CONDITION,
            "status": "True",
            "reason": REASON,
            "message": effect.message,
            "lastTransitionTime": datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = {"metadata": {"uid": effect.uid}, "status": {"conditions": [condition]}}
        return await self.kube.patch(
            PODS,
            effect.ref.name,
            StrategicPatch(body),
            namespace=effect.ref.namespace,
            subresource="status",
        )


def _report(effect: FreeStuckPin, code: ReportCode, what: str) -> Report:
    return Report(code, f"{effect.message}; {what}", ref=effect.ref, uid=effect.uid)
