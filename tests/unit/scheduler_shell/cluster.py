"""An embedded API server with one admitted pod on it, for what writes to the cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sublet_scheduler.core.effects import MarkWaiting, ReleasePod
from sublet_scheduler.shell.cards import Cards
from sublet_scheduler.shell.podfacts import PodReader
from sublet_scheduler.shell.podpatches import PodPatches

from sublet.contract.dialects.interface import Options
from sublet.contract.patching import admission_patch
from sublet.demo.apiserver.faults import Faults
from sublet.demo.apiserver.patching import with_operations
from sublet.demo.apiserver.server import serve_api
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import PODS
from sublet.kube.port import Json
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardGrant, Placement
from tests.builders import ask, cards, container, pod

KEY = b"k" * 32
DECISION = DecisionId("d1")
PLACED = Placement(
    node=NodeName("n1"),
    containers={"main": (CardGrant(card=CardId("n1-0"), index=0, memory_mib=4096, core_percent=0),)},
)
REF = PodRef("default", "p")


@dataclass(slots=True)
class Cluster:
    kube: KubeClient
    faults: Faults
    patches: PodPatches

    async def admit(self, **spec: Any) -> Json:
        """A pod as the webhook lets it in, without a decision."""
        manifest = pod(REF.name, container(gpu_memory=4096), **spec)
        patch = admission_patch(
            manifest,
            ask(manifest),
            DECISION,
            placement=None,
            written=None,
            waiting="later",
            options=Options(),
            key=KEY,
        )
        return await self.kube.create(PODS, with_operations(manifest, patch))

    async def pod(self) -> Json:
        return await self.kube.get(PODS, REF.name, namespace=REF.namespace)


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    known = Cards()
    known.set(NodeName("n1"), cards("n1", 2))
    async with serve_api() as api, open_client(api.access, timeout_s=0.5) as kube:
        reader = PodReader(options=Options(), key=KEY)
        patches = PodPatches(
            kube=kube,
            reader=reader,
            cards_of=known.of,
            labels_of=lambda _: {},
            options=Options(),
            unix_ms=lambda: 1_000,
        )
        yield Cluster(kube=kube, faults=api.faults, patches=patches)


def release(of: Json) -> ReleasePod:
    meta = of["metadata"]
    return ReleasePod(PodUid(meta["uid"]), REF, meta["resourceVersion"], DECISION, PLACED)


def wait(of: Json, message: str = "no room") -> MarkWaiting:
    meta = of["metadata"]
    return MarkWaiting(PodUid(meta["uid"]), REF, meta["resourceVersion"], DECISION, message)
