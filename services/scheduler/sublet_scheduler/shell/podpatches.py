"""The guarded patches of a pod: release, and back to waiting.

Each is one PATCH, made from the pod as the watch showed it, that fails whole where the pod is another than
the engine saw. Whatever else comes back than
a clear yes, the pod is read again and what it says counts.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from sublet.contract import decision, keys, podspec
from sublet.contract.dialects.interface import Options
from sublet.contract.patching import Operation, release_patch, waiting_patch
from sublet.contract.results import pod_results
from sublet.kube.errors import Forbidden, Invalid, KubeError, NotFound, Throttled
from sublet.kube.kind import PODS
from sublet.kube.port import Json, JsonPatch, Kube
from sublet.model.claim import PodAsk
from sublet.model.ids import NodeName
from sublet_scheduler.core.effects import FindPod, MarkWaiting, ReleasePod
from sublet_scheduler.core.events import Event, PatchRefused, PatchUnclear, PodFound, PodPatched
from sublet_scheduler.shell.cards import CardsOf
from sublet_scheduler.shell.podfacts import PodReader

log = structlog.get_logger()

PodPatch = ReleasePod | MarkWaiting
LONGEST_PAUSE_S = 5.0
FIND_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPatches:
    """`reader` reads the pod that comes back and holds the key that signs."""

    kube: Kube
    reader: PodReader
    cards_of: CardsOf
    labels_of: Callable[[NodeName], Mapping[str, str]]
    options: Options
    unix_ms: Callable[[], int]

    async def perform(self, effect: PodPatch) -> Event:
        """What came of it; never raises KubeError."""
        try:
            return await self._perform(effect)
        except NotFound:
            return PodPatched(effect.uid, done=False, pod=None)
        except Throttled as error:
            await asyncio.sleep(min(error.retry_after_s, LONGEST_PAUSE_S))
            return PatchUnclear(effect.uid)
        except KubeError as error:
            log.warning("pod.unreadable", pod=str(effect.ref), error=str(error))
            return PatchUnclear(effect.uid)

    async def find(self, effect: FindPod) -> PodFound | None:
        """Whether the pod is there; None where that could not be learned, after a pause."""
        try:
            pod = await self._get(effect)
        except NotFound:
            pod = None
        except KubeError as error:
            log.warning("pod.unreadable", pod=str(effect.ref), error=str(error))
            pause_s = error.retry_after_s if isinstance(error, Throttled) else FIND_AGAIN_S
            await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))
            return None
        return PodFound(effect.uid, self.reader.read_whole(pod) if pod else None)

    async def _perform(self, effect: PodPatch) -> Event:
        recalled = self.reader.recall(effect.uid, effect.version)
        pod = recalled[0] if recalled else await self._get(effect)
        if pod is None:
            return PodPatched(effect.uid, done=False, pod=None)
        if pod["metadata"]["resourceVersion"] != effect.version:
            return self._by_what_it_says(effect, pod)
        facts = recalled[1] if recalled else self.reader.read_whole(pod)
        patch = JsonPatch(self._operations(effect, pod, facts.ask))
        try:
            after = await self.kube.patch(PODS, effect.ref.name, patch, namespace=effect.ref.namespace)
        except (NotFound, Throttled):
            raise
        except KubeError as error:
            return await self._after_failure(effect, error)
        return PodPatched(effect.uid, done=True, pod=self.reader.read_answer(after))

    async def _after_failure(self, effect: PodPatch, error: KubeError) -> Event:
        log.info("pod.patch_failed", pod=str(effect.ref), patch=type(effect).__name__, error=str(error))
        pod = await self._get(effect)
        if pod is None:
            return PodPatched(effect.uid, done=False, pod=None)
        unchanged = pod["metadata"]["resourceVersion"] == effect.version
        if unchanged and isinstance(error, Invalid | Forbidden):
            return PatchRefused(effect.uid, str(error), self.reader.read_whole(pod))
        return self._by_what_it_says(effect, pod)

    def _by_what_it_says(self, effect: PodPatch, pod: Json) -> Event:
        """Done if the pod carries what this very patch writes, whoever's answer was lost."""
        carried = podspec.annotations(pod).get(keys.DECISION, "")
        gated = keys.GATE in podspec.gates(pod)
        done = carried == self._decision(effect) and gated is isinstance(effect, MarkWaiting)
        return PodPatched(effect.uid, done=done, pod=self.reader.read_whole(pod))

    async def _get(self, effect: PodPatch | FindPod) -> Json | None:
        """The pod, or None where another one has its name."""
        pod = await self.kube.get(PODS, effect.ref.name, namespace=effect.ref.namespace)
        return pod if pod["metadata"]["uid"] == effect.uid else None

    def _operations(self, effect: PodPatch, pod: Json, ask: PodAsk | None) -> list[Operation]:
        if isinstance(effect, MarkWaiting):
            return waiting_patch(
                pod,
                effect.decision,
                uid=effect.uid,
                version=effect.version,
                waiting=effect.message,
                key=self.reader.key,
            )
        if ask is None:  # its containers cannot change: the engine saw the same claims
            raise Invalid(f"pod {effect.ref} has no claim any more")
        written = pod_results(
            ask,
            effect.placement,
            self.cards_of(effect.placement),
            self.options,
            at_ns=self.unix_ms() * 1_000_000,
            labels=self.labels_of(effect.placement.node),
        )
        return release_patch(
            pod,
            effect.decision,
            uid=effect.uid,
            version=effect.version,
            placement=effect.placement,
            written=written,
            key=self.reader.key,
        )

    def _decision(self, effect: PodPatch) -> str:
        """The annotation that the patch writes."""
        if isinstance(effect, MarkWaiting):
            return decision.write(
                effect.decision, None, uid=effect.uid, key=self.reader.key, after=effect.version
            )
        return decision.write(effect.decision, effect.placement, uid=effect.uid, key=self.reader.key)
