"""Performs what the engine wants done in the cluster, and tells it what came of that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from sublet_scheduler.core.effects import (
    AckRelease,
    ClusterEffect,
    EvictPods,
    FindPod,
    FreeStuckPin,
    MakeBallast,
    MakePlaceholder,
    MarkWaiting,
    ReleasePod,
    RemoveBallast,
    RemovePlaceholder,
    Report,
    ResizeBallast,
    WriteTotals,
)
from sublet_scheduler.core.events import Event
from sublet_scheduler.shell.ballast import BallastWrites
from sublet_scheduler.shell.evictions import Evictions
from sublet_scheduler.shell.kubeevents import KubeEvents
from sublet_scheduler.shell.nodewrites import NodeWrites
from sublet_scheduler.shell.outbox import Outbox
from sublet_scheduler.shell.placeholders import PlaceholderWrites
from sublet_scheduler.shell.podpatches import PodPatches
from sublet_scheduler.shell.stuckpin import StuckPins


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEffects:
    pods: PodPatches
    nodes: NodeWrites
    pins: StuckPins
    evictions: Evictions
    ballast: BallastWrites
    placeholders: PlaceholderWrites
    events: KubeEvents
    outbox: Outbox
    report: Callable[[Event], None]
    unix_ms: Callable[[], int]

    async def perform(self, effect: ClusterEffect) -> None:
        match effect:
            case ReleasePod() | MarkWaiting():
                self.report(await self.pods.perform(effect))
            case FindPod():
                found = await self.pods.find(effect)
                if found:
                    self.report(found)
                else:
                    self.outbox.put(effect)
            case WriteTotals():
                self.report(await self.nodes.totals(effect))
            case AckRelease():
                await self.nodes.acknowledge(effect)
            case FreeStuckPin():
                told = await self.pins.free(effect, now_ms=self.unix_ms())
                if told:
                    self.outbox.put(told)
            case EvictPods():
                reports, refused = await self.evictions.perform(effect)
                for report in reports:
                    self.outbox.put(report)
                if refused:
                    self.report(refused)
            case MakeBallast() | ResizeBallast() | RemoveBallast():
                self.report(await self.ballast.perform(effect))
            case MakePlaceholder() | RemovePlaceholder():
                self.report(await self.placeholders.perform(effect))
            case Report():
                await self.events.tell(effect, at_ms=self.unix_ms())
            case _:
                assert_never(effect)
