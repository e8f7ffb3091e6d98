"""healthd between a bus and an embedded API server; agent and scheduler say what they are told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from sublet_healthd.app import run
from sublet_healthd.settings import Settings
from sublet_healthd.shell.retry import Pauses

from sublet.bus.port import Bus, Message
from sublet.contract import cloudevents, keys, subjects
from sublet.demo.apiserver.server import ApiServer
from sublet.demo.apiserver.store import Key
from sublet.kube.client import KubeClient
from sublet.kube.kind import EVENTS, NODES
from sublet.kube.port import Json
from sublet.model.card import Card, Heartbeat, Inventory
from sublet.model.health import HealthState, Signal, SignalKind, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.model.placement import LedgerMeta, NodeLedger, Occupancy
from sublet.runtime.clock import unix_ms
from sublet.wire.health import signal_out, verdict_in
from sublet.wire.ledger import ledger_meta_out, node_ledger_out
from sublet.wire.node import heartbeat_out, inventory_out, occupancy_out
from tests.eventually import eventually

NODE = NodeName("n1.example")
A, B = CardId("GPU-A"), CardId("GPU-B")
QUICK = Pauses(first_s=0.01, most_s=0.05)


@dataclass(slots=True)
class Stage:
    bus: Bus
    api: ApiServer
    kube: KubeClient
    numbers: int = 0

    # -- healthd

    @asynccontextmanager
    async def healthd(self, **more: Any) -> AsyncIterator["Running"]:
        """One life; at the end of the block it is killed without a word."""
        values = {"idle_grace_s": 0.2, "probation_s": 0.2, "silence_s": 60.0} | more
        settings = Settings(probe_host="127.0.0.1", probe_port=0, **values)
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        life = asyncio.create_task(
            run(
                settings,
                stop=asyncio.Event(),
                bus=self.bus,
                kube=self.kube,
                pauses=QUICK,
                opened=port.set_result,
            )
        )
        try:
            async with asyncio.timeout(5):
                bound = await port
            yield Running(life, bound)
        finally:
            life.cancel()
            await asyncio.wait([life])

    # -- agent and scheduler

    async def agent_says(
        self,
        *,
        boot_id: str = "b1",
        cards: tuple[CardId, ...] = (A, B),
        verdicts: tuple[Verdict, ...] = (),
    ) -> None:
        """Its inventory, and a heartbeat after it."""
        listed = tuple(
            Card(id=card, index=n, pci=f"0000:0{n + 1}:00.0", model="NVIDIA A100")
            for n, card in enumerate(cards)
        )
        inventory = Inventory(
            node=NODE,
            boot_id=boot_id,
            epoch="e1",
            seq=1,
            at_ms=unix_ms(),
            cards=listed,
            shares_per_card=16,
            slots=64,
            registered=True,
            verdicts=verdicts,
        )
        await self._put(subjects.inventory_key(NODE), inventory_out(inventory))
        await self.beat(boot_id=boot_id)

    async def beat(self, *, boot_id: str = "b1") -> None:
        beat = Heartbeat(node=NODE, boot_id=boot_id, epoch="e1", seq=1, at_ms=unix_ms())
        await self._put(subjects.heartbeat_key(NODE), heartbeat_out(beat))

    async def observe(self, kind: SignalKind, card: CardId | None = A, **more: Any) -> None:
        self.numbers += 1
        signal = Signal(
            node=NODE,
            card=card,
            kind=kind,
            epoch="e1",
            seq=self.numbers,
            at_ms=unix_ms(),
            **({"boot_id": "b1"} | more),
        )
        await self.send(subjects.signal_subject(NODE, card), signal_out(signal))

    async def send(self, subject: str, body: bytes) -> None:
        self.numbers += 1
        await self.bus.publish(subject, body, once_id=f"signal-{self.numbers}", within_s=5)

    async def ledger_says(self, *, closed: tuple[CardId, ...] = ()) -> int:
        meta = LedgerMeta(epoch="l1", complete=True, term=1)
        await self.bus.put(
            subjects.LEDGER_BUCKET, subjects.LEDGER_META_KEY, ledger_meta_out(meta), within_s=5
        )
        entry = NodeLedger(node=NODE, term=1, closed=closed)
        return await self.bus.put(
            subjects.LEDGER_BUCKET, subjects.ledger_key(NODE), node_ledger_out(entry), within_s=5
        )

    async def node_is_empty(self, revision: int) -> None:
        seen = Occupancy(
            node=NODE,
            boot_id="b1",
            epoch="e1",
            seq=1,
            at_ms=unix_ms(),
            ledger_revision=revision,
            checkpoint_read=True,
            pod_resources_read=True,
            cgroups_read=True,
            processes_read=True,
        )
        await self._put(subjects.occupancy_key(NODE), occupancy_out(seen))

    async def close_and_empty(self, card: CardId) -> None:
        """The scheduler closes the card, the agent sees nobody afterwards."""
        await self.node_is_empty(await self.ledger_says(closed=(card,)))
        await self.beat()

    # -- what came of it

    async def verdict(self, card: CardId = A) -> Verdict | None:
        entry = await self.bus.get(subjects.VERDICTS_BUCKET, subjects.verdict_key(NODE, card), within_s=5)
        return verdict_in(entry.value) if entry else None

    async def until_state(self, state: HealthState, card: CardId = A) -> Verdict:
        """The verdict with that state, once it is stored and its event is known to be published."""
        async with asyncio.timeout(5):
            changes = self.bus.follow(subjects.VERDICTS_BUCKET)
            try:
                async for _ in changes:
                    verdict = await self.verdict(card)
                    if verdict and verdict.state is state and not verdict.events:
                        return verdict
            finally:
                await changes.aclose()
        raise AssertionError("the bucket ended")

    async def events(self, card: CardId = A) -> list[tuple[str, str, int]]:
        """from, to and number of every public health event of the card, in order."""
        return [
            (body["from"], body["to"], int(body["seq"]))
            for body in (json.loads(message.body) for message in await self.messages(card))
        ]

    async def messages(self, card: CardId = A) -> list[Message]:
        subject = subjects.subject("health", NODE, card)
        stored = self.bus.subscribe(subjects.EVENTS_STREAM, [subject], since=0, follow=False)
        return [message async for message in stored]

    def node(self) -> Json:
        node = self.api.store.find(Key(NODES, "", NODE))
        assert node is not None
        return node

    def annotation(self) -> Json:
        """The cards in the node's annotation."""
        text = self.node()["metadata"].get("annotations", {}).get(keys.HEALTH_ANNOTATION)
        return json.loads(text)["cards"] if text else {}

    def condition(self) -> tuple[str, str]:
        conditions = self.node().get("status", {}).get("conditions", [])
        found = [one for one in conditions if one["type"] == keys.NODE_CONDITION]
        return (found[0]["status"], found[0]["message"]) if found else ("", "")

    async def until_condition(self, status: str) -> None:
        await eventually(lambda: self.condition()[0] == status)

    def told(self, namespace: str = "default") -> dict[str, int]:
        """Reason and count of each Kubernetes Event."""
        found = self.api.store.select(EVENTS, namespace, lambda _: True)
        return {stored.obj["reason"]: stored.obj["count"] for stored in found}

    async def make_node(self) -> None:
        await self.kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})

    async def _put(self, key: str, value: bytes) -> None:
        await self.bus.put(subjects.INVENTORY_BUCKET, key, value, within_s=5)


@dataclass(frozen=True, slots=True)
class Running:
    life: asyncio.Task[None]
    port: int

    async def probe(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}/{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def metric(self, line: str) -> float:
        """The value of the metric whose line begins so; -1 where there is none."""
        _, text = await self.probe("metrics")
        found = [one for one in text.splitlines() if one.startswith(line)]
        return float(found[0].rsplit(" ", 1)[1]) if found else -1.0


def identity(message: Message) -> str:
    return cloudevents.from_headers(message.headers).id


def pending(verdict: Verdict, event_id: str) -> Verdict:
    """The verdict as a judge leaves it that dies before it has published."""
    return replace(verdict, events=(event_id,))
