"""What the scheduler writes into Node objects: the totals that kube-scheduler reads, and acknowledgements."""

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from sublet.contract import keys
from sublet.kube.errors import KubeError, NotFound
from sublet.kube.kind import NODES
from sublet.kube.port import Kube, MergePatch
from sublet.model.ids import NodeName
from sublet_scheduler.core.effects import AckRelease, WriteTotals
from sublet_scheduler.core.events import TotalsWritten
from sublet_scheduler.core.totals import WRITTEN

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class NodeWrites:
    kube: Kube

    async def totals(self, effect: WriteTotals) -> TotalsWritten:
        """The names are noted before the first total is written and forgotten after the last was removed,
        so that whatever is interrupted, no total of ours is ever taken for another's."""
        names = effect.totals.keys() | set(effect.remove)
        amounts = {name: str(amount) for name, amount in effect.totals.items()}
        amounts |= dict.fromkeys(effect.remove)  # type: ignore[arg-type]  # null removes
        try:
            await self._note(effect.node, names, effect.label if effect.totals else "", effect.unit)
            if amounts:
                body = {"status": {"capacity": amounts, "allocatable": amounts}}
                await self.kube.patch(NODES, effect.node, MergePatch(body), subresource="status")
            if effect.remove or not effect.totals:
                await self._note(effect.node, effect.totals.keys(), effect.label, effect.unit)
        except NotFound:
            return TotalsWritten(effect.node, done=True)
        except KubeError as error:
            log.warning("totals.unwritten", node=effect.node, error=str(error))
            return TotalsWritten(effect.node, done=False)
        log.info("totals.written", node=effect.node, totals=dict(effect.totals), removed=effect.remove)
        return TotalsWritten(effect.node, done=True)

    async def acknowledge(self, effect: AckRelease) -> None:
        try:
            await self._annotate(effect.node, {keys.RELEASE_REQUESTED: None}, {})
        except KubeError as error:  # the request stays and is answered again
            log.warning("release.unacknowledged", node=effect.node, error=str(error))

    async def _note(self, node: NodeName, names: Iterable[str], label: str | None, unit: str) -> None:
        """`label` empty: leave it as it is."""
        labels = {} if label == "" else {keys.CARDS_LABEL: label}
        written = {WRITTEN: ",".join(sorted(names)) or None, keys.GPU_MEM_UNIT: unit or None}
        await self._annotate(node, written, labels)

    async def _annotate(
        self, node: NodeName, annotations: dict[str, str | None], labels: dict[str, str | None]
    ) -> None:
        body = {"metadata": {"annotations": annotations, **({"labels": labels} if labels else {})}}
        await self.kube.patch(NODES, node, MergePatch(body))
