"""Optional: evicts pods from cards that will not get better under them, as far as disruption budgets allow.

Looks again at intervals instead of remembering: what could not be evicted is still on the card next time.
"""

from collections.abc import Callable

import structlog

from sublet.kube.errors import Conflict, KubeError, NotFound, Throttled
from sublet.kube.kind import PODS
from sublet.kube.port import Kube
from sublet.model.ids import PodRef, PodUid
from sublet.runtime.serve import every
from sublet_healthd.core.engine import Engine

log = structlog.get_logger()

EVERY_S = 10.0


class Evictions:
    """`counted` is told how each try went: evicted, budget, unowned, gone or failed."""

    def __init__(self, kube: Kube, engine: Engine, *, counted: Callable[[str], None]) -> None:
        self._kube = kube
        self._engine = engine
        self._counted = counted

    async def run(self) -> None:
        await every(EVERY_S, self.once)

    async def once(self) -> None:
        for pod, uid in sorted(self._engine.to_evict()):
            outcome = await self._try(pod, uid)
            self._counted(outcome)
            log.info("pod.eviction_tried", pod=str(pod), uid=uid, outcome=outcome)

    async def _try(self, pod: PodRef, uid: PodUid) -> str:
        try:
            found = await self._kube.get(PODS, pod.name, namespace=pod.namespace)
            meta = found["metadata"]
            if meta.get("uid") != uid or meta.get("deletionTimestamp"):
                return "gone"
            if not any(owner.get("controller") for owner in meta.get("ownerReferences") or ()):
                return "unowned"  # nobody would make it again
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name, "namespace": pod.namespace},
                "deleteOptions": {"preconditions": {"uid": uid}},
            }
            await self._kube.create(
                PODS, body, namespace=pod.namespace, name=pod.name, subresource="eviction"
            )
        except Throttled:
            return "budget"
        except (NotFound, Conflict):
            return "gone"
        except KubeError as error:
            log.warning("pod.eviction_failed", pod=str(pod), error=str(error))
            return "failed"
        return "evicted"
