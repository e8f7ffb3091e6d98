"""A namespace of one test on the stage: its nodes with cards, its agents' words, its pods."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.port import Bus
from sublet.contract import keys, subjects
from sublet.model.card import Heartbeat
from sublet.model.health import Verdict
from sublet.model.ids import NodeName
from sublet.model.placement import CardUse, NodeLedger, Occupancy
from sublet.runtime.clock import unix_ms
from sublet.wire.health import verdict_out
from sublet.wire.ledger import node_ledger_in
from sublet.wire.node import heartbeat_out, inventory_out, occupancy_out
from tests import builders
from tests.api.deployment import apply
from tests.api.pods import MERGE
from tests.api.scheduler.stage import Json, Stage, pods_path
from tests.eventually import eventually
from tests.integration.schedulerstage import until
from tests.lab.controlplane import ADMIN, Answer, User


@dataclass(slots=True)
class Team:
    """A namespace of one test, whose pods and nodes end with it."""

    stage: Stage
    bus: Bus
    name: str
    nodes: list[str] = field(default_factory=list)

    # -- the cluster

    async def add_node(
        self,
        count: int = 1,
        *,
        gib: int = 10,
        cpu: str = "64",
        labels: dict[str, str] | None = None,
        totals: bool = True,
    ) -> str:
        """A node of its own with so many cards; with `totals`, once it shows them."""
        name = f"n-{uuid.uuid4().hex[:6]}"
        self.nodes.append(name)
        await self._must("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels or {}}})
        shown = {"cpu": cpu, "memory": "256Gi", "pods": "110", keys.SLOT: str(builders.SLOTS)}
        status = {
            "capacity": shown,
            "allocatable": shown,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self._must("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        # no node controller is here to lift the taint that every new node gets
        await self._must("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        node = NodeName(name)
        told = inventory_out(builders.inventory(name, *builders.cards(name, count, gib=gib)))
        await self.bus.put(subjects.INVENTORY_BUCKET, subjects.inventory_key(name), told)
        beat = Heartbeat(node=node, boot_id="boot-1", epoch="epoch-1", seq=1, at_ms=unix_ms())
        await self.bus.put(subjects.INVENTORY_BUCKET, subjects.heartbeat_key(name), heartbeat_out(beat))

        async def shows() -> bool:
            body = (await self.stage.plane.call("GET", f"/api/v1/nodes/{name}")).body
            return keys.GPU in body["status"]["allocatable"]

        if totals:
            await until(shows)
        return name

    async def judge(self, verdict: Verdict) -> None:
        key = subjects.verdict_key(verdict.node, verdict.card)
        await self.bus.put(subjects.VERDICTS_BUCKET, key, verdict_out(verdict))

    async def say_nothing_runs(self, node: str, *uses: CardUse) -> None:
        """The agent looked after the newest ledger entry: no pod has a cgroup; `uses` are of others."""
        seen = Occupancy(
            node=NodeName(node),
            boot_id="boot-1",
            epoch="epoch-1",
            seq=1,
            at_ms=unix_ms(),
            ledger_revision=(await self.ledger(node)).revision,
            checkpoint_read=True,
            pod_resources_read=True,
            cgroups_read=True,
            processes_read=True,
            pods_with_cgroups=frozenset(),
            cards=uses,
        )
        await self.bus.put(subjects.INVENTORY_BUCKET, subjects.occupancy_key(node), occupancy_out(seen))

    async def ledger(self, node: str) -> NodeLedger:
        entry = await self.bus.get(subjects.LEDGER_BUCKET, subjects.ledger_key(node))
        if entry is None:
            return NodeLedger(node=NodeName(node), term=0)
        return node_ledger_in(entry.value, revision=entry.revision)

    # -- pods

    async def ask(self, pod: Json, *, as_: User = ADMIN, dry_run: bool = False) -> Answer:
        """What the API server says to a new pod."""
        body = {**pod, "metadata": {**pod["metadata"], "namespace": self.name}}
        query = "?dryRun=All" if dry_run else ""
        return await self.stage.plane.call("POST", pods_path(self.name) + query, body, as_=as_)

    async def patch(
        self, name: str, change: object, *, as_: User = ADMIN, kind: str = MERGE, of: str = ""
    ) -> Answer:
        """What the API server says to a change of a pod, or of its subresource `of`."""
        path = f"{self.path(name)}/{of}".rstrip("/")
        return await self.stage.plane.call("PATCH", path, change, as_=as_, content_type=kind)

    async def create(self, pod: Json, *, dry_run: bool = False) -> Json:
        answer = await self.ask(pod, dry_run=dry_run)
        assert answer.ok, answer.text
        return answer.body

    def path(self, name: str) -> str:
        return f"{pods_path(self.name)}/{name}"

    async def get(self, name: str) -> Json:
        return (await self.stage.plane.call("GET", self.path(name))).body

    async def delete(self, name: str) -> None:
        await self._must("DELETE", self.path(name), {"gracePeriodSeconds": 0})

    async def released(self, name: str, *, within_s: float = 8) -> Json:
        """The pod, once our gate is lifted."""

        async def lifted() -> bool:
            return keys.GATE not in gates(await self.get(name))

        await until(lifted, within_s=within_s)
        return await self.get(name)

    async def apply(self, *entries: Json) -> None:
        """Make these objects in the namespace."""
        named = [{**one, "metadata": {**one["metadata"], "namespace": self.name}} for one in entries]
        await apply(self.stage.plane, named)

    async def end(self) -> None:
        await self.stage.plane.call("DELETE", pods_path(self.name), {"gracePeriodSeconds": 0})
        for node in self.nodes:
            await self.stage.plane.call("DELETE", f"/api/v1/nodes/{node}")

    async def _must(self, method: str, path: str, body: Json) -> None:
        kind = MERGE if method == "PATCH" else "application/json"
        answer = await self.stage.plane.call(method, path, body, content_type=kind)
        assert answer.ok, answer.text


@asynccontextmanager
async def team(stage: Stage, *, managed: bool = False) -> AsyncIterator[Team]:
    name = f"t-{uuid.uuid4().hex[:8]}"
    labels = {"test": name} | ({keys.MANAGE_LABEL: "true"} if managed else {})
    body = {"metadata": {"name": name, "labels": labels}}
    answer = await stage.plane.call("POST", "/api/v1/namespaces", body)
    assert answer.ok, answer.text
    async with open_bus(stage.nats_url, name="test", layout=LAYOUT) as bus:
        await eventually(lambda: bus.state().connected)
        made = Team(stage=stage, bus=bus, name=name)
        try:
            yield made
        finally:
            await made.end()


def gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def annotations(pod: Json) -> dict[str, str]:
    return dict(pod["metadata"].get("annotations") or {})


def required_terms(pod: Json) -> list[Json]:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    terms: list[Json] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return terms
