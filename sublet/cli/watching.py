"""The demo's eyes: reads the API server, the bus and the kubelets, and waits for what should come true."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from sublet.cli.cluster import read_cluster
from sublet.cli.picture import Cluster
from sublet.client.subscriber import PublicEvent, read_events
from sublet.contract import keys, subjects
from sublet.contract.inventory import InventoryGrant, InventoryNode
from sublet.demo.child import DemoFailed
from sublet.demo.stage import NAMESPACE, Stage
from sublet.kube.kind import NODES, PODS
from sublet.kube.port import Json, Selection
from sublet.model.card import Card
from sublet.model.errors import SubletError
from sublet.model.ids import CardId, PodUid
from sublet.model.placement import LedgerGrant
from sublet.wire.ledger import node_ledger_in

T = TypeVar("T")

WITHIN_S = 20.0
"""Longest for anything to come true; most of it takes a second or two."""
LOOK_EVERY_S = 0.1
READ_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Seat:
    """One card of the cluster, its node and who sits on it."""

    node: InventoryNode
    card: Card
    grants: tuple[InventoryGrant, ...]


@dataclass(frozen=True, slots=True)
class Watching:
    stage: Stage

    async def until(self, what: str, look: Callable[[], Awaitable[T | None]], *needs: str) -> T:
        """Look again and again until `look` finds something; `needs` names the services it takes.

        Raises:
            DemoFailed: it did not come true; with the last words of those services.
        """
        last = ""
        try:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    try:
                        if (found := await look()) is not None:
                            return found
                    except SubletError as error:  # a service that still starts
                        last = f" ({error})"
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            said = [one.last_lines() for one in self.stage.children if one.name.startswith(needs)]
            raise DemoFailed("\n".join((f"{what}: not within {WITHIN_S:.0f} s{last}", *said))) from None

    async def cluster(self) -> Cluster:
        return await read_cluster(self.stage.bus)

    async def seats(self) -> list[Seat]:
        return [
            Seat(node, card, tuple(grant for grant in node.grants if grant.card == card.id))
            for node in (await self.cluster()).nodes
            for card in node.cards
        ]

    async def seat(self, card: CardId) -> Seat | None:
        return next((one for one in await self.seats() if one.card.id == card), None)

    async def nodes(self) -> list[Json]:
        return sorted(await self.stage.kube.list(NODES), key=lambda node: str(node["metadata"]["name"]))

    async def pods(self) -> list[Json]:
        found = await self.stage.kube.list(PODS, Selection(namespace=NAMESPACE))
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    async def pod(self, name: str) -> Json:
        return await self.stage.kube.get(PODS, name, namespace=NAMESPACE)

    async def slots(self, node: str) -> tuple[int, int]:
        """Slots in capacity and in allocatable, as the Node object shows them."""
        status = (await self.stage.kube.get(NODES, node))["status"]
        return int(status["capacity"].get(keys.SLOT, 0)), int(status["allocatable"].get(keys.SLOT, 0))

    async def ledger(self) -> tuple[dict[PodUid, list[LedgerGrant]], set[CardId]]:
        """Grants by pod, and the closed cards."""
        entries = await self.stage.bus.entries(subjects.LEDGER_BUCKET, within_s=READ_WITHIN_S)
        grants: dict[PodUid, list[LedgerGrant]] = {}
        closed: set[CardId] = set()
        for key, entry in entries.items():
            if subjects.parse_ledger_key(key) is not None:
                node = node_ledger_in(entry.value, revision=entry.revision)
                closed |= set(node.closed)
                for grant in node.grants:
                    grants.setdefault(grant.uid, []).append(grant)
        return grants, closed

    async def events(self, *kinds: str) -> list[PublicEvent]:
        """What is stored of these kinds."""
        patterns = [subjects.pattern(kind) for kind in kinds]
        async with aclosing(read_events(self.stage.bus, patterns, since=0, follow=False)) as stored:
            return [event async for event in stored]

    def sees(self, pod: Json) -> Mapping[str, Mapping[str, str]]:
        """Container -> environment of its processes, as the kubelet started them; without a node, nothing."""
        node = pod["spec"].get("nodeName")
        if not node:
            return {}
        uid = pod["metadata"]["uid"]
        running = self.stage.node(node).kubelet.containers
        return {name: one.env for (its_pod, name), one in running.items() if its_pod == uid}
