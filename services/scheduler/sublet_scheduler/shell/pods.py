"""Follows all pods and tells the engine of each; it is how a reservation learns that its pod exists."""

from collections.abc import Awaitable, Callable
from typing import assert_never

from sublet.kube.kind import PODS
from sublet.kube.port import Kube
from sublet.kube.reflector import Change, Gone, Reflector, Relisted, Synced, Upserted
from sublet.model.ids import PodUid
from sublet_scheduler.core.events import Event, PodGone, PodSeen, PodsListed
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.shell.podfacts import PodReader


class Pods:
    """`listed` is set once every pod was told."""

    def __init__(self, kube: Kube, reader: PodReader, submit: Callable[[Event], Awaitable[None]]) -> None:
        self._reflector = Reflector(kube, PODS, decode=reader.read)
        self._submit = submit
        self._told: dict[PodUid, PodFacts] = {}
        self.listed = False

    async def run(self) -> None:
        await self._reflector.run(self._take)

    async def _take(self, change: Change[PodFacts]) -> None:
        match change:
            case Upserted(_, pod):
                self._told[pod.uid] = pod
                await self._submit(PodSeen(pod))
            case Gone(_, last):
                # what was told before is no final state: only its absence is known
                told = self._told.pop(last.uid, None)
                await self._submit(PodGone(last.uid, None if last is told else last))
            case Synced():
                self.listed = True
                await self._submit(PodsListed())
            case Relisted():
                pass
            case _:
                assert_never(change)
