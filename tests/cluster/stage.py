"""The three services as processes on a real cluster with two nodes of four simulated cards each.

The scheduler and healthd run with the rights of their service accounts, the agents in their nodes' mount
namespaces; the cards come from inventory files, their device nodes are real ones. What a pod got is read
from its container's own /proc/1/environ and /dev.
"""

import json
import os
import re
import stat
import sys
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from sublet.bus.jetstream import open_bus
from sublet.contract import keys, subjects
from sublet.demo.natsserver import nats_server_program
from sublet.model.ids import NodeName
from sublet.model.placement import NodeLedger
from sublet.wire.ledger import node_ledger_in
from tests.api.deployment import HEALTHD, SCHEDULER, apply, install
from tests.lab.controlplane import ControlPlane
from tests.lab.fixtures import Cluster
from tests.lab.images import PAUSE
from tests.lab.node import Node
from tests.lab.programs import LabError, free_port
from tests.manifests.rendering import added_by, reviewed

CARD_MIB = 10_240
CARDS_A_NODE = 4
IMAGE = "lab.local/busybox:1"
RATIOS = "- {nodeSelector: {ratio: cpu-for-cards}, cpu: 300m, memory: 64Mi}"
Json = dict[str, Any]


@dataclass
class Stage:
    cluster: Cluster
    nats_port: int = field(default_factory=free_port)
    webhook_port: int = field(default_factory=free_port)
    probes: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def plane(self) -> ControlPlane:
        return self.cluster.plane

    @property
    def nodes(self) -> tuple[Node, Node]:
        return (self.cluster.node, self.cluster.older_node)

    @property
    def folder(self) -> Path:
        return self.plane.run.folder

    @property
    def nats_url(self) -> str:
        return f"nats://127.0.0.1:{self.nats_port}"

    # -- starting and stopping

    async def start(self) -> None:
        await install(self.plane)
        [webhooks] = [one for one in reviewed("default") if one["kind"] == "MutatingWebhookConfiguration"]
        for webhook in webhooks["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self.webhook_port}{path}"}
        brought = added_by("ballast")
        await apply(self.plane, [one for one in brought if one["kind"] == "Namespace"])
        await apply(self.plane, [webhooks, *(one for one in brought if one["kind"] != "Namespace")])
        self.start_nats()
        self.start_scheduler()
        self.start_healthd()
        for node in self.nodes:
            self.write_inventory(node)
            self.start_agent(node)
        for name in ("sublet-scheduler", "sublet-healthd", *(agent_name(node) for node in self.nodes)):
            await self.ready(name)
        for node in self.nodes:
            await self.until(f"{node.name} shows its cards", lambda node=node: self._shows_cards(node))  # type: ignore[misc]

    def start_nats(self) -> None:
        data = self.folder / "nats"
        command = [
            nats_server_program(),
            "-a",
            "127.0.0.1",
            "-p",
            str(self.nats_port),
            "-js",
            "-sd",
            str(data),
        ]
        self.plane.run.start("nats", command)

    def start_scheduler(self, **settings: str) -> None:
        ratios = self.folder / "ratios.yaml"
        ratios.write_text(RATIOS)
        self._start_service(
            "sublet_scheduler",
            "sublet-scheduler",
            {
                "SUBLET_KUBECONFIG": str(self.plane.kubeconfig(SCHEDULER)),
                "SUBLET_WEBHOOK_HOST": "127.0.0.1",
                "SUBLET_WEBHOOK_PORT": str(self.webhook_port),
                "SUBLET_WEBHOOK_NAMES": "127.0.0.1",
                "SUBLET_DRAIN_S": "0.2",
                "SUBLET_STUCK_PIN_S": "10",
                "SUBLET_RATIOS": str(ratios),
                "SUBLET_BALLAST_IMAGE": PAUSE,
                **settings,
            },
        )

    def start_healthd(self, name: str = "sublet-healthd", **settings: str) -> None:
        self._start_service(
            "sublet_healthd",
            name,
            {
                "SUBLET_KUBECONFIG": str(self.plane.kubeconfig(HEALTHD)),
                "SUBLET_IDLE_GRACE_S": "3",
                "SUBLET_PROBATION_S": "3",
                **settings,
            },
        )

    def start_agent(self, node: Node, **settings: str) -> None:
        self._start_service(
            "sublet_agent",
            agent_name(node),
            {
                "SUBLET_NODE": node.name,
                "SUBLET_CARDS": "file",
                "SUBLET_INVENTORY": str(self.inventory_file(node)),
                "SUBLET_SIGNALS": str(self.signal_file(node)),
                "SUBLET_DEV_ROOT": str(self.dev_root),
                "SUBLET_BOOT_ID_FILE": str(node.boot_id_file),
                "SUBLET_HEARTBEAT_S": "1",
                "SUBLET_POLL_S": "2",
                **settings,
            },
            on=node,
        )

    def _start_service(
        self, module: str, name: str, settings: dict[str, str], on: Node | None = None
    ) -> None:
        port = self.probes.setdefault(name, ("127.0.0.1", free_port()))[1]
        env = {
            "SUBLET_NATS_URL": self.nats_url,
            "SUBLET_PROBE_HOST": "127.0.0.1",
            "SUBLET_PROBE_PORT": str(port),
        }
        words: list[str | Path] = [sys.executable, "-m", module]
        self.plane.run.start(name, on.on_node(*words) if on else words, env=env | settings)

    async def stop(self, name: str) -> None:
        await self.plane.run.stop(name)

    async def kill(self, name: str) -> None:
        await self.plane.run.kill(name)

    async def restart_agent(self, node: Node, **settings: str) -> None:
        """A new agent process on the node, ready to serve."""
        await self.stop(agent_name(node))
        self.start_agent(node, **settings)
        await self.ready(agent_name(node))

    async def ready(self, name: str, *, within_s: float = 40) -> None:
        host, port = self.probes[name]

        async def answers() -> bool:
            try:
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                    session.get(f"http://{host}:{port}/readyz") as answer,
                ):
                    return answer.status == 200
            except (aiohttp.ClientError, TimeoutError):
                return False

        await self.plane.run.until(f"{name} ready", answers, within_s=within_s, of=name)

    async def until(
        self, what: str, condition: Callable[[], Awaitable[bool]], *, within_s: float = 40
    ) -> None:
        await self.plane.run.until(what, condition, within_s=within_s)

    # -- cards

    @property
    def dev_root(self) -> Path:
        return self.folder / "devroot"

    def inventory_file(self, node: Node) -> Path:
        return node.folder / "inventory.yaml"

    def signal_file(self, node: Node) -> Path:
        return node.folder / "signals.jsonl"

    def write_inventory(self, node: Node) -> None:
        """Four cards of 10 GiB with a device node each (the null device under another name)."""
        dev = self.dev_root / "dev"
        dev.mkdir(parents=True, exist_ok=True)
        for minor in range(CARDS_A_NODE):
            if not (dev / f"nvidia{minor}").exists():
                os.mknod(dev / f"nvidia{minor}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        held = [
            {"uuid": card_uuid(node, at), "index": at, "minor": at, "memoryMiB": CARD_MIB, "model": "Lab A10"}
            for at in range(CARDS_A_NODE)
        ]
        self.inventory_file(node).write_text(yaml.safe_dump({"nodes": [{"name": node.name, "cards": held}]}))
        self.signal_file(node).touch()

    def change_card(self, node: Node, index: int, **values: Any) -> None:
        """Another description of one card; the agent reads the file again by itself."""
        document = yaml.safe_load(self.inventory_file(node).read_text())
        document["nodes"][0]["cards"][index] |= values
        self.inventory_file(node).write_text(yaml.safe_dump(document))

    def signal(self, node: Node, **line: Any) -> None:
        """Append one line to the node's signal file, as formats.md's replay input has it."""
        with self.signal_file(node).open("a") as file:
            file.write(json.dumps({"t": 0, "node": node.name, **line}) + "\n")

    async def _shows_cards(self, node: Node) -> bool:
        body = (await self.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
        allocatable = body["status"]["allocatable"]
        return (
            int(allocatable.get(keys.GPU_MEMORY, 0)) == CARDS_A_NODE * CARD_MIB and keys.SLOT in allocatable
        )

    async def slots(self, node: Node) -> int:
        """Slots which the kubelet offers on the node."""
        body = (await self.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
        return int(body["status"]["allocatable"].get(keys.SLOT, 0))

    async def ledger(self, node: Node) -> NodeLedger | None:
        async with open_bus(self.nats_url, name="test") as bus:
            key = subjects.ledger_key(NodeName(node.name))
            entry = await bus.get(subjects.LEDGER_BUCKET, key, within_s=10)
        return node_ledger_in(entry.value, revision=entry.revision) if entry else None

    # -- pods

    async def namespace(self, *, managed: bool = True) -> "Namespace":
        name = f"t-{uuid.uuid4().hex[:8]}"
        labels = {keys.MANAGE_LABEL: "true"} if managed else {}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        await self.create("/api/v1/namespaces", body)

        async def account() -> bool:
            return (await self.plane.call("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")).ok

        await self.until(f"service account of {name}", account)
        return Namespace(self, name)

    async def create(self, path: str, body: Json) -> Json:
        answer = await self.plane.call("POST", path, body)
        if not answer.ok:
            raise LabError(answer.text)
        return answer.body


@dataclass(frozen=True)
class Namespace:
    """A namespace of one test."""

    stage: Stage
    name: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    async def create(self, pod: Json) -> Json:
        """Create a pod; LabError with the API server's words where it is refused."""
        return await self.stage.create(self.path, pod)

    async def get(self, pod: str) -> Json | None:
        answer = await self.stage.plane.call("GET", f"{self.path}/{pod}")
        return answer.body if answer.ok else None

    async def delete(self, pod: str, *, grace_s: int = 0) -> None:
        await self.stage.plane.call("DELETE", f"{self.path}/{pod}", {"gracePeriodSeconds": grace_s})

    async def restarts(self, pod: str) -> int:
        found = await self.get(pod) or {}
        statuses = found.get("status", {}).get("containerStatuses", ())
        return sum(one["restartCount"] for one in statuses)

    async def delete_all(self) -> None:
        """Delete every pod and wait until none is left."""
        await self.stage.plane.call("DELETE", self.path, {"gracePeriodSeconds": 0})

        async def none() -> bool:
            return not (await self.stage.plane.call("GET", self.path)).body["items"]

        await self.stage.until(f"no pod in {self.name}", none)

    async def running(self, pod: str, *, within_s: float = 60) -> Json:
        """The pod, once it is Ready."""

        async def ready() -> bool:
            found = await self.get(pod)
            conditions = (found or {}).get("status", {}).get("conditions", ())
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

        try:
            await self.stage.until(f"{pod} ready", ready, within_s=within_s)
        except LabError as error:
            described = await self.stage.plane.kubectl("-n", self.name, "describe", "pod", pod)
            raise LabError(f"{error}\n{described}") from None
        found = await self.get(pod)
        assert found is not None
        return found

    async def gone(self, pod: str, *, within_s: float = 60) -> None:
        async def gone() -> bool:
            return await self.get(pod) is None

        await self.stage.until(f"{pod} gone", gone, within_s=within_s)

    async def waits(self, pod: str, reason: str) -> None:
        """Until the pod is held behind our gate and says so."""

        async def held() -> bool:
            found = await self.get(pod) or {}
            gates = [gate["name"] for gate in found.get("spec", {}).get("schedulingGates", ())]
            text = found.get("metadata", {}).get("annotations", {}).get(keys.WAITING, "")
            return keys.GATE in gates and reason in text

        await self.stage.until(f"{pod} waits with {reason}", held)

    async def environ(self, pod: str, container: str = "main") -> dict[str, str]:
        """The variables of the container's first process, as the kernel has them."""
        text = await self.run(pod, container, "cat", "/proc/1/environ")
        return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)

    async def devices(self, pod: str, container: str = "main") -> list[str]:
        """The card device nodes that exist in the container."""
        listed = await self.run(pod, container, "ls", "/dev")
        return sorted(re.findall(r"^nvidia\d+$", listed, re.M))

    async def run(self, pod: str, container: str, *words: str) -> str:
        return await self.stage.plane.kubectl("-n", self.name, "exec", pod, "-c", container, "--", *words)


def agent_name(node: Node) -> str:
    return f"sublet-agent-{node.name}"


def card_uuid(node: Node, index: int) -> str:
    return f"GPU-{node.name.replace('.', '-')}-{index}"


def container(name: str = "main", command: str = "exec sleep 3600", **limits: object) -> Json:
    """A container with short resource names: gpu=, gpu_memory=, nvidia=, gpu_mem=, gpu_core=."""
    short = {
        "gpu": keys.GPU,
        "gpu_memory": keys.GPU_MEMORY,
        "gpu_core": keys.GPU_CORE,
        "nvidia": keys.NVIDIA_GPU,
        "gpu_mem": keys.ALIYUN_GPU_MEM,
        "gpu_count": keys.ALIYUN_GPU_COUNT,
    }
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "resources": {"limits": {short.get(key, key): str(value) for key, value in limits.items()}},
    }


def pod(name: str, *containers: Json, node: Node | None = None, **spec: Any) -> Json:
    body: Json = {"terminationGracePeriodSeconds": 0, "containers": list(containers), **spec}
    if node:
        body["nodeSelector"] = {"kubernetes.io/hostname": node.name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}
