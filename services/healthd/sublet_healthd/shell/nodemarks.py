"""Optional: annotations and labels of Nodes that other systems read, in their own domains.

`volcano.sh/gpu-unhealthy-ids` lists the indices of cards to leave out; labels of NVIDIA's GPU feature
discovery say which cards there are. The annotation `sublet.dev/marks` notes which of them are ours, so that
what another wrote is never taken for ours, and ours goes when nobody wishes it any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from sublet.contract import keys
from sublet.kube.errors import Forbidden, KubeError, NotFound
from sublet.kube.kind import NODES
from sublet.kube.port import Json, Kube, MergePatch
from sublet.model.card import Card
from sublet.model.ids import NodeName
from sublet.runtime.serve import every
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.marking import card_labels, indices

log = structlog.get_logger()

EVERY_S = 5.0
READ_AGAIN = 12
"""After so many rounds what stands on the nodes is read anew: others may have changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _There:
    """What stands on a node: the keys that are ours, and all values of keys that could be."""

    ours: frozenset[str]
    values: Mapping[str, str]


class NodeMarks:
    def __init__(self, kube: Kube, engine: Engine, *, volcano: bool, labels: bool) -> None:
        self._kube = kube
        self._engine = engine
        self._volcano = volcano
        self._labels = labels
        self._there: dict[NodeName, _There] | None = None
        self._forbidden: set[NodeName] = set()
        self._rounds = 0

    async def run(self) -> None:
        await every(EVERY_S, self.once)

    async def once(self) -> None:
        if self._is_done:
            return
        try:
            if self._there is None or self._rounds >= READ_AGAIN:
                self._there, self._rounds = {}, 0
                self._there = {
                    NodeName(one["metadata"]["name"]): _read(one) for one in await self._kube.list(NODES)
                }
            self._rounds += 1
            for node in sorted(self._there):
                if node not in self._forbidden:
                    await self._mark(node, self._there)
        except KubeError as error:
            self._there = None
            log.warning("marks.unwritten", system="nodes", error=str(error))

    @property
    def _is_done(self) -> bool:
        """Nobody wishes marks, and none of ours is left."""
        off = not (self._volcano or self._labels)
        left = self._there is None or any(
            one.ours for node, one in self._there.items() if node not in self._forbidden
        )
        return off and not left

    async def _mark(self, node: NodeName, there: dict[NodeName, _There]) -> None:
        seen, wanted = there[node], self._wanted(node)
        free = {
            key
            for key in wanted
            if key in seen.ours or key not in seen.values or key == keys.VOLCANO_UNHEALTHY
        }
        changed: dict[str, str | None] = {
            key: wanted[key] for key in free if seen.values.get(key) != wanted[key]
        }
        changed |= dict.fromkeys(seen.ours - wanted.keys())
        if not changed and free == seen.ours:
            return
        told: dict[str, str | None] = {keys.MARKS: ",".join(sorted(free)) or None}
        labels = {key: value for key, value in changed.items() if key != keys.VOLCANO_UNHEALTHY}
        told |= {key: value for key, value in changed.items() if key == keys.VOLCANO_UNHEALTHY}
        try:
            after = await self._kube.patch(
                NODES, node, MergePatch({"metadata": {"annotations": told, "labels": labels}})
            )
        except NotFound:
            del there[node]
        except Forbidden as error:  # the component that allows it was taken away
            self._forbidden.add(node)
            log.warning("marks.unwritten", system="nodes", node=node, error=str(error))
        else:
            there[node] = _read(after)

    def _wanted(self, node: NodeName) -> dict[str, str]:
        """The marks that shall stand on a node."""
        cards = self._engine.known.present(node)
        closed = indices(card for card in cards if self._is_closed(node, card))
        wanted = {keys.VOLCANO_UNHEALTHY: closed} if self._volcano and closed else {}
        shares = self._engine.known.shares_per_card(node)
        return wanted | (dict(card_labels(cards, shares)) if self._labels else {})

    def _is_closed(self, node: NodeName, card: Card) -> bool:
        state = self._engine.cards.get((node, card.id))
        return bool(state and state.verdict and not state.verdict.schedulable)


def _read(node: Json) -> _There:
    meta = node["metadata"]
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    return _There(
        ours=frozenset(part for part in annotations.get(keys.MARKS, "").split(",") if part),
        values={
            key: value
            for key, value in (annotations | labels).items()
            if key.startswith(keys.MARKED_PREFIXES)
        },
    )
