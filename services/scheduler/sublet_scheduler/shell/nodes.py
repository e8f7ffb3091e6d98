"""Follows nodes, and looks for GPU drivers of the other kind, which must not share a node with us."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

import structlog

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.kube.errors import KubeError, NotFound
from sublet.kube.kind import NODES, RESOURCE_SLICES
from sublet.kube.port import Kube
from sublet.kube.reflector import Change, Gone, Reflector, Relisted, Synced, Upserted
from sublet.model.ids import NodeName
from sublet_scheduler.core.events import DraServed, Event, NodeGone, NodeReleased, NodeSeen, NodesListed
from sublet_scheduler.core.facts import NodeFacts
from sublet_scheduler.shell.nodefacts import read_node

log = structlog.get_logger()

Submit = Callable[[Event], Awaitable[None]]


class Nodes:
    """`listed` is set once every node was told."""

    def __init__(self, kube: Kube, options: Options, submit: Submit) -> None:
        self._reflector = Reflector(kube, NODES, decode=partial(read_node, options=options))
        self._submit = submit
        self.listed = False

    async def run(self) -> None:
        await self._reflector.run(self._take)

    async def _take(self, change: Change[NodeFacts]) -> None:
        match change:
            case Upserted(_, node):
                await self._submit(NodeSeen(node))
                if keys.RELEASE_REQUESTED in node.annotations:
                    await self._submit(NodeReleased(node.name, by=node.annotations[keys.RELEASE_REQUESTED]))
            case Gone(_, last):
                await self._submit(NodeGone(last.name))
            case Synced():
                self.listed = True
                await self._submit(NodesListed())
            case Relisted():
                pass
            case _:
                assert_never(change)


async def follow_dra(kube: Kube, submit: Submit, *, every_s: float) -> None:
    """Tell the nodes with a ResourceSlice of a GPU driver, at once and whenever they change, for ever."""
    told: frozenset[NodeName] | None = None
    while True:
        try:
            found = await _dra_nodes(kube)
        except KubeError as error:
            log.warning("resource_slices.unread", error=str(error))
        else:
            if found != told:
                await submit(DraServed(found))
                told = found
        await asyncio.sleep(every_s)


async def _dra_nodes(kube: Kube) -> frozenset[NodeName]:
    try:
        slices = await kube.list(RESOURCE_SLICES)
    except NotFound:  # an API server without DRA
        return frozenset()
    specs = [one.get("spec") or {} for one in slices]
    return frozenset(
        NodeName(spec["nodeName"])
        for spec in specs
        if spec.get("driver") in keys.GPU_DRIVERS and spec.get("nodeName")
    )
