"""Look at the node: the kubelet's checkpoint, PodResources, cgroups, and who holds the cards."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from sublet.cards.port import CardReader, ProcessUse
from sublet.model.errors import BadRequest, Unavailable
from sublet.model.ids import CardId, PodUid, SlotId
from sublet_agent.core.checkpoint import read_checkpoint
from sublet_agent.core.identity import Identity, Unclear, identify
from sublet_agent.core.observation import Checkpoint, Exposure, Observation, PodDevices, Process
from sublet_agent.shell.cgroups import name_of_pid, pod_of_pid, pods_with_cgroups
from sublet_agent.shell.environs import exposures
from sublet_agent.shell.podresources import PodResources

log = structlog.get_logger()

CHECKPOINT = "kubelet_internal_checkpoint"


class Observer:
    def __init__(
        self,
        *,
        checkpoint: Path,
        cgroup_root: Path,
        pod_resources: PodResources,
        source: CardReader,
        clock: Callable[[], float],
        unix_ms: Callable[[], int],
        environs_s: float,
        proc: Path = Path("/proc"),
    ) -> None:
        """The variables of containers are read again after `environs_s`: there are many of them."""
        self._checkpoint = checkpoint
        self._cgroup_root = cgroup_root
        self._pod_resources = pod_resources
        self._source = source
        self._clock = clock
        self._unix_ms = unix_ms
        self._proc = proc
        self._environs_s = environs_s
        self._exposures: tuple[Exposure, ...] = ()
        self._again_s = float("-inf")
        self._unreadable: dict[str, str] = {}

    async def observe(self, *, generation: int, revision: int, cards: tuple[CardId, ...]) -> Observation:
        """Read everything; `revision` is that of the ledger's entry as known before."""
        began_s = self._clock()
        async with asyncio.TaskGroup() as group:
            checkpoint = group.create_task(self._read_checkpoint())
            devices = group.create_task(self._read_devices())
            cgroups = group.create_task(asyncio.to_thread(pods_with_cgroups, self._cgroup_root))
            exposed = group.create_task(self._read_exposures(began_s))
            holders = {card: group.create_task(self._source.processes(card)) for card in cards}
        held = devices.result()
        uses = {card: task.result() for card, task in holders.items()}
        self._note("cgroups", "" if cgroups.result() is not None else f"no kubepods in {self._cgroup_root}")
        return Observation(
            began_s=began_s,
            at_ms=self._unix_ms(),
            generation=generation,
            revision=revision,
            checkpoint=checkpoint.result(),
            listings=held.listings if held else None,
            others=held.others if held else frozenset(),
            pods_with_cgroups=cgroups.result(),
            processes=await asyncio.to_thread(self._processes, uses),
            processes_read=all(use is not None for use in uses.values()),
            exposures=exposed.result(),
        )

    async def identify(self, slot: SlotId) -> Identity | Unclear:
        """Whose slot it is, by the checkpoint and PodResources as they are now."""
        checkpoint = await self._read_checkpoint()
        if checkpoint is None:
            return Unclear("the kubelet's device checkpoint is not readable")
        held = await self._read_devices()
        return identify(slot, checkpoint.holdings, held.listings if held else None)

    def checkpoint_stamp(self) -> tuple[int, int, int]:
        """Changes whenever the kubelet writes its checkpoint."""
        try:
            found = self._checkpoint.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    async def _read_checkpoint(self) -> Checkpoint | None:
        try:
            found = read_checkpoint(await asyncio.to_thread(self._checkpoint.read_bytes))
        except (OSError, BadRequest) as error:
            self._note("checkpoint", str(error))
            return None
        self._note("checkpoint", "")
        return found

    async def _read_devices(self) -> PodDevices | None:
        try:
            found = await self._pod_resources.devices()
        except Unavailable as error:
            self._note("pod_resources", str(error))
            return None
        self._note("pod_resources", "")
        return found

    async def _read_exposures(self, now_s: float) -> tuple[Exposure, ...]:
        if now_s >= self._again_s:
            self._exposures = await asyncio.to_thread(exposures, self._proc)
            self._again_s = now_s + self._environs_s
        return self._exposures

    def _processes(self, uses: dict[CardId, tuple[ProcessUse, ...] | None]) -> tuple[Process, ...]:
        pods: dict[int, PodUid | None] = {}
        return tuple(
            Process(
                card=card,
                pid=use.pid,
                used_mib=use.used_mib,
                uid=uid,
                name="" if uid else name_of_pid(use.pid, self._proc),
            )
            for card, found in uses.items()
            for use in found or ()
            for uid in [pods.setdefault(use.pid, pod_of_pid(use.pid, self._proc))]
        )

    def _note(self, what: str, why: str) -> None:
        """Log when something becomes unreadable or readable again, not at every look."""
        if self._unreadable.get(what, "") == why:
            return
        self._unreadable[what] = why
        if why:
            log.warning("source.became_unreadable", what=what, error=why)
        else:
            log.info("source.became_readable", what=what)
