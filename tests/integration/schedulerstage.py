"""The scheduler between an embedded API server and a bus, with agents that only say what they are told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from sublet_scheduler.app import run
from sublet_scheduler.settings import Settings

from sublet.bus.port import Bus
from sublet.contract import decision, keys, subjects
from sublet.demo.apiserver.server import ApiServer, serve_api
from sublet.demo.apiserver.store import Key
from sublet.kube.client import KubeClient, open_client
from sublet.kube.kind import MUTATING_WEBHOOKS, NAMESPACES, NODES, PODS
from sublet.kube.port import Json, MergePatch
from sublet.model.card import Card, Heartbeat
from sublet.model.health import Verdict
from sublet.model.ids import NodeName, PodUid
from sublet.model.placement import LedgerMeta, NodeLedger, Occupancy
from sublet.runtime.clock import unix_ms
from sublet.wire.health import verdict_out
from sublet.wire.ledger import ledger_meta_in, node_ledger_in
from sublet.wire.node import heartbeat_out, inventory_out, occupancy_out
from tests import builders
from tests.eventually import eventually

MANIFEST = Path(__file__).parents[2] / "deploy/kustomize/base/admission/webhook.yaml"
EXCLUDED = ["kube-system", "sublet-system"]
FOREIGN = {keys.NVIDIA_GPU, keys.ALIYUN_GPU_MEM, keys.ALIYUN_GPU_COUNT}
SERVICE = ("sublet-system", "sublet-scheduler")


@dataclass(frozen=True, slots=True)
class Running:
    """One run of the scheduler."""

    webhook_port: int
    probe_port: int
    task: asyncio.Task[None]

    async def is_ready(self) -> bool:
        return (await self._probe("readyz"))[0] == 200

    async def not_ready_because(self) -> str:
        return (await self._probe("readyz"))[1]

    async def metrics(self) -> str:
        return (await self._probe("metrics"))[1]

    async def flight(self) -> list[str]:
        return (await self._probe("flight"))[1].splitlines()

    async def _probe(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.probe_port}/{path}") as answer,
        ):
            return answer.status, await answer.text()


@dataclass(slots=True)
class Stage:
    api: ApiServer
    kube: KubeClient
    bus: Bus
    services: dict[tuple[str, str], str]
    occupied: dict[str, int] = field(default_factory=dict)

    # -- the scheduler

    @asynccontextmanager
    async def scheduler(self, *, ready: bool = True, **more: Any) -> AsyncIterator[Running]:
        """One run; it ends as after SIGTERM when the block ends."""
        values: dict[str, Any] = {
            "webhook_host": "127.0.0.1",
            "webhook_port": 0,
            "probe_host": "127.0.0.1",
            "probe_port": 0,
            "drain_s": 0.0,
            "heartbeat_fresh_s": 600.0,
        }
        stop = asyncio.Event()
        ports: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()

        def listening(webhook_port: int, probe_port: int) -> None:
            ports.set_result((webhook_port, probe_port))

        async with open_client(self.api.access) as kube, asyncio.TaskGroup() as group:
            settings = Settings(**(values | more))
            task = group.create_task(run(settings, stop=stop, kube=kube, bus=self.bus, listening=listening))
            try:
                async with asyncio.timeout(5):
                    webhook_port, probe_port = await ports
                self.services[SERVICE] = f"https://127.0.0.1:{webhook_port}"
                running = Running(webhook_port, probe_port, task)
                if ready:
                    await until(running.is_ready)
                yield running
            finally:
                stop.set()

    # -- the cluster

    async def add_node(self, name: str, *held: Card, slots: int = builders.SLOTS) -> None:
        """A Node object, and an agent's first words about it."""
        await self.kube.create(NODES, {"metadata": {"name": name}})
        shown = {"cpu": "64", "memory": "256Gi", "pods": "110", keys.SLOT: str(slots)}
        status = {
            "capacity": shown,
            "allocatable": shown,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.kube.patch(NODES, name, MergePatch({"status": status}), subresource="status")
        await self.say_inventory(name, *held)
        await self.beat(name)

    async def say_inventory(self, node: str, *held: Card, seq: int = 1) -> None:
        body = inventory_out(builders.inventory(node, *held, seq=seq))
        await self.bus.put(subjects.INVENTORY_BUCKET, subjects.inventory_key(node), body)

    async def beat(self, node: str, *, seq: int = 1) -> None:
        beat = Heartbeat(node=NodeName(node), boot_id="boot-1", epoch="epoch-1", seq=seq, at_ms=unix_ms())
        await self.bus.put(subjects.INVENTORY_BUCKET, subjects.heartbeat_key(node), heartbeat_out(beat))

    async def say_occupied(self, node: str, *pods: PodUid, boot_id: str = "boot-1") -> None:
        """The agent looked after the newest ledger entry: only these pods have cgroups."""
        entry = await self.ledger(node)
        self.occupied[node] = self.occupied.get(node, 0) + 1
        seen = Occupancy(
            node=NodeName(node),
            boot_id=boot_id,
            epoch="epoch-1",
            seq=self.occupied[node],
            at_ms=unix_ms(),
            ledger_revision=entry.revision,
            checkpoint_read=True,
            pod_resources_read=True,
            cgroups_read=True,
            processes_read=True,
            pods_with_cgroups=frozenset(pods),
        )
        await self.bus.put(subjects.INVENTORY_BUCKET, subjects.occupancy_key(node), occupancy_out(seen))

    async def judge(self, verdict: Verdict) -> None:
        key = subjects.verdict_key(verdict.node, verdict.card)
        await self.bus.put(subjects.VERDICTS_BUCKET, key, verdict_out(verdict))

    async def add_namespace(self, name: str, **labels: str) -> None:
        written = {key.replace("_", "-"): value for key, value in labels.items()}
        metadata = {"name": name, "labels": {f"{keys.PREFIX}{key}": value for key, value in written.items()}}
        await self.kube.create(NAMESPACES, {"metadata": metadata})

    async def create(self, pod: Json, *, dry_run: bool = False) -> Json:
        return await self.kube.create(PODS, pod, dry_run=dry_run)

    async def delete(self, name: str, namespace: str = "default") -> None:
        await self.kube.delete(PODS, name, namespace=namespace, grace_period_s=0)

    # -- looking

    def pod(self, name: str, namespace: str = "default") -> Json:
        return self.api.store.get(Key(PODS, namespace, name))

    def node(self, name: str) -> Json:
        return self.api.store.get(Key(NODES, "", name))

    def is_gated(self, name: str, namespace: str = "default") -> bool:
        gates = self.pod(name, namespace)["spec"].get("schedulingGates") or ()
        return any(gate["name"] == keys.GATE for gate in gates)

    async def released(self, name: str, namespace: str = "default", *, within_s: float = 5.0) -> Json:
        await eventually(lambda: not self.is_gated(name, namespace), within_s=within_s)
        return self.pod(name, namespace)

    async def ledger(self, node: str) -> NodeLedger:
        entry = await self.bus.get(subjects.LEDGER_BUCKET, subjects.ledger_key(node))
        if entry is None:
            return NodeLedger(node=NodeName(node), term=0)
        return node_ledger_in(entry.value, revision=entry.revision)

    async def meta(self) -> LedgerMeta | None:
        entry = await self.bus.get(subjects.LEDGER_BUCKET, subjects.LEDGER_META_KEY)
        return ledger_meta_in(entry.value) if entry else None

    async def until_ledger(
        self, node: str, holds: Callable[[NodeLedger], bool], *, within_s: float = 5.0
    ) -> NodeLedger:
        async def held() -> bool:
            return holds(await self.ledger(node))

        await until(held, within_s=within_s)
        return await self.ledger(node)

    async def until_complete(self, *, within_s: float = 5.0) -> LedgerMeta:
        async def complete() -> bool:
            meta = await self.meta()
            return meta is not None and meta.complete

        await until(complete, within_s=within_s)
        meta = await self.meta()
        assert meta is not None
        return meta

    async def until_totals(self, node: str, *, within_s: float = 5.0) -> None:
        """The node shows what kube-scheduler needs to agree with a decision."""
        await eventually(lambda: keys.GPU in self.node(node)["status"]["allocatable"], within_s=within_s)


async def until(holds: Callable[[], Awaitable[bool]], *, within_s: float = 5.0) -> None:
    """Return once `holds`, asked again and again: other processes and servers set no event here."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def cards_of(pod: Json) -> dict[str, tuple[str, ...]]:
    """What the pod's decision gives each container."""
    placement = decision.read(pod["metadata"]["annotations"][keys.DECISION]).placement
    assert placement is not None
    return {name: tuple(grant.card for grant in grants) for name, grants in placement.containers.items()}


def pinned_to(pod: Json) -> list[str]:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = affinity["nodeSelectorTerms"]
    [requirement] = term["matchFields"]
    values: list[str] = requirement["values"]
    return values


@asynccontextmanager
async def stage(bus: Bus) -> AsyncIterator[Stage]:
    """An API server with the deployment's own webhook configuration, nothing running yet."""
    services: dict[tuple[str, str], str] = {}
    predicates = {"names-sublet": _names_sublet, "names-cards": _names_cards}
    async with AsyncExitStack() as held:
        api = await held.enter_async_context(
            serve_api(service_urls=services, predicates=predicates, bookmark_every_s=1.0)
        )
        kube = await held.enter_async_context(open_client(api.access))
        await kube.create(NAMESPACES, {"metadata": {"name": "sublet-system"}})
        configuration = yaml.safe_load(MANIFEST.read_text())
        for webhook in configuration["webhooks"]:
            for one in webhook["namespaceSelector"]["matchExpressions"]:
                one["values"] = one["values"] or EXCLUDED
        await kube.create(MUTATING_WEBHOOKS, configuration)
        yield Stage(api=api, kube=kube, bus=bus, services=services)


def seen_again(pod: Json) -> Json:
    """The manifest somebody makes of a pod that exists."""
    metadata = pod["metadata"]
    kept = {key: metadata[key] for key in ("namespace", "annotations", "labels") if key in metadata}
    return {**pod, "metadata": {**kept, "name": "copy"}, "status": {}}


def uid_of(pod: Json) -> PodUid:
    return PodUid(pod["metadata"]["uid"])


def newer(verdict: Verdict, **changes: Any) -> Verdict:
    return replace(verdict, seq=verdict.seq + 1, **changes)


def _limits(review: Json) -> set[str]:
    spec = review["object"]["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return {key for one in containers for key in (one.get("resources") or {}).get("limits") or {}}


def _names_sublet(review: Json) -> bool:
    metadata = review["object"]["metadata"]
    written = {*(metadata.get("annotations") or {}), *(metadata.get("labels") or {}), *_limits(review)}
    return any(keys.is_ours(key) for key in written)


def _names_cards(review: Json) -> bool:
    return bool(FOREIGN & _limits(review))
