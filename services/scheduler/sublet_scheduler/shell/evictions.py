"""Evicts pods for one of higher priority, through the eviction API, so that disruption budgets hold.

All are tried without effect first: where one may not go, nobody is evicted in vain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from sublet.kube.errors import Conflict, KubeError, NotFound, Throttled
from sublet.kube.kind import PODS
from sublet.kube.port import Kube
from sublet.model.ids import PodRef, PodUid
from sublet.model.reasons import ReportCode
from sublet_scheduler.core.effects import EvictPods, Report
from sublet_scheduler.core.events import EvictionsRefused

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Evictions:
    kube: Kube

    async def perform(self, effect: EvictPods) -> tuple[Sequence[Report], EvictionsRefused | None]:
        """What people should know of it, and who stays."""
        staying = [uid for uid, ref in effect.victims if not await self._evict(uid, ref, dry_run=True)]
        if staying:
            return (), EvictionsRefused(effect.uid, tuple(staying))
        told: list[Report] = []
        for uid, ref in effect.victims:
            if await self._evict(uid, ref, dry_run=False):
                told.append(Report(ReportCode.PREEMPTED, f"evicted: {effect.message}", ref=ref, uid=uid))
            else:
                staying.append(uid)
        return told, EvictionsRefused(effect.uid, tuple(staying)) if staying else None

    async def _evict(self, uid: PodUid, ref: PodRef, *, dry_run: bool) -> bool:
        """Whether the pod goes, or is gone."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await self.kube.create(
                PODS, body, namespace=ref.namespace, name=ref.name, subresource="eviction", dry_run=dry_run
            )
        except (NotFound, Conflict):
            return True
        except Throttled as error:
            log.info("preemption.put_off", victim=str(ref), why=str(error))
            return False
        except KubeError as error:
            log.warning("preemption.failed", victim=str(ref), error=str(error))
            return False
        return True
