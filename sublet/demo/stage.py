"""The whole of Sublet on this machine: a real bus, the real services, and stand-ins for a cluster.

Real: nats-server, three agents, the scheduler, healthd, each its own process. Stand-ins within this process:
API server, kube-scheduler, three kubelets. Nothing listens beyond loopback, and nothing is left behind.
"""

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

import yaml

from sublet.bus.jetstream import open_bus
from sublet.bus.port import Bus
from sublet.contract import keys
from sublet.contract.inventory import read_inventory
from sublet.demo.apiserver.server import serve_api
from sublet.demo.child import Child, start_child
from sublet.demo.kubelet.standin import Folders, StandInKubelet
from sublet.demo.kubescheduler import KubeScheduler
from sublet.demo.natsserver import NatsServer
from sublet.demo.node import Node
from sublet.demo.webhook import PREDICATES, webhook_configuration
from sublet.kube.client import open_client
from sublet.kube.kind import MUTATING_WEBHOOKS, NAMESPACES
from sublet.kube.port import Json, Kube
from sublet.runtime.clock import unix_ms

NAMESPACE = "demo"
SYSTEM = "sublet-system"
# quicker than the defaults, so that a person sees everything within a minute
HEARTBEAT_S = 1.0
POLL_S = 0.5
IDLE_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything that runs, and the ways to look at it and to break it."""

    kube: Kube
    bus: Bus
    nats_url: str
    kubeconfig: Path
    nodes: Sequence[Node]
    children: Sequence[Child]
    folder: Path

    def break_card(self, node: str, card: str, xid: int) -> None:
        """Let the driver of `node` report an XID, by a line in the agent's signal file."""
        line = {"kind": "xid", "node": node, "card": card, "code": xid, "source": "nvml"}
        with _signals(self.folder, node).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def node(self, name: str) -> Node:
        return next(one for one in self.nodes if one.name == name)


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Start everything; whatever ends before the block does ends the block with an ExceptionGroup."""
    async with AsyncExitStack() as held:
        # sockets of kubelets lie below: their paths may have 107 bytes
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="sublet-demo-", dir="/tmp")))
        nats = NatsServer(folder / "nats")
        await nats.start()
        held.push_async_callback(nats.stop)
        server = await held.enter_async_context(serve_api(predicates=PREDICATES))
        kubeconfig = folder / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        kube = await held.enter_async_context(open_client(server.access))
        webhook_port = free_port()
        await _prepare(kube, webhook_port)
        names = _write_inventory(folder)
        nodes = [
            Node(name, await held.enter_async_context(_kubelet(folder / name)), kube, unix_ms=unix_ms)
            for name in names
        ]
        logs = folder / "logs"
        logs.mkdir()
        children = [
            await held.enter_async_context(start_child(name, module, settings, logs=logs))
            for name, module, settings in _services(folder, names, nats.url, kubeconfig, webhook_port)
        ]
        bus = await held.enter_async_context(open_bus(nats.url, name="demo"))
        group = await held.enter_async_context(asyncio.TaskGroup())
        loops = [
            group.create_task(KubeScheduler(kube, unix_ms=unix_ms).run(), name="kube-scheduler"),
            *(group.create_task(node.run(), name=node.name) for node in nodes),
            *(group.create_task(child.watch(), name=f"watch {child.name}") for child in children),
        ]
        try:
            yield Stage(
                kube=kube,
                bus=bus,
                nats_url=nats.url,
                kubeconfig=kubeconfig,
                nodes=nodes,
                children=children,
                folder=folder,
            )
        finally:
            for loop in loops:
                loop.cancel()
            for child in children:  # all at once; each is waited for later
                child.ask_to_stop()


def samples(name: str) -> list[Json]:
    """The pods of ``samples/<name>.yaml``."""
    text = files(__package__).joinpath("samples", f"{name}.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _prepare(kube: Kube, webhook_port: int) -> None:
    """What `kubectl apply -k` would have put there."""
    for name, labels in ((SYSTEM, {}), ("sublet-node", {}), (NAMESPACE, {keys.MANAGE_LABEL: "true"})):
        await kube.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    await kube.create(MUTATING_WEBHOOKS, webhook_configuration(webhook_port))


def _write_inventory(folder: Path) -> list[str]:
    text = files(__package__).joinpath("inventory.yaml").read_text(encoding="utf-8")
    (folder / "inventory.yaml").write_text(text)
    return [node.name for node in read_inventory(yaml.safe_load(text))]


def _kubelet(folder: Path) -> StandInKubelet:
    for name in ("signals.jsonl", "boot-id"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{uuid4()}\n" if name == "boot-id" else "")
    for name in ("cdi", "vendor", "state"):
        (folder / name).mkdir()
    return StandInKubelet(Folders(kubelet=folder / "kubelet", cdi=folder / "cdi", cgroups=folder / "cgroup"))


def _signals(folder: Path, node: str) -> Path:
    return folder / node / "signals.jsonl"


def _services(
    folder: Path, nodes: Sequence[str], nats_url: str, kubeconfig: Path, webhook_port: int
) -> list[tuple[str, str, dict[str, str]]]:
    everywhere = {"nats_url": nats_url, "probe_host": "127.0.0.1", "probe_port": "0"}
    cluster = everywhere | {"kubeconfig": str(kubeconfig), "namespace": SYSTEM}
    scheduler = {
        "webhook_host": "127.0.0.1",
        "webhook_port": str(webhook_port),
        "webhook_names": "127.0.0.1",
        "drain_s": "0",
    }
    healthd = {"idle_grace_s": str(IDLE_GRACE_S)}
    agents = [(f"agent-{node}", "sublet_agent", everywhere | _agent(folder, node)) for node in nodes]
    return [
        ("scheduler", "sublet_scheduler", cluster | scheduler),
        ("healthd", "sublet_healthd", cluster | healthd),
        *agents,
    ]


def _agent(folder: Path, node: str) -> dict[str, str]:
    home = folder / node
    return {
        "node": node,
        "cards": "file",
        "inventory": str(folder / "inventory.yaml"),
        "signals": str(_signals(folder, node)),
        "kubelet_dir": str(home / "kubelet"),
        "cdi_dir": str(home / "cdi"),
        "vendor_cdi_dirs": str(home / "vendor"),
        "state_dir": str(home / "state"),
        "cgroup_root": str(home / "cgroup"),
        "boot_id_file": str(home / "boot-id"),
        "dev_root": str(home),
        "heartbeat_s": str(HEARTBEAT_S),
        "poll_s": str(POLL_S),
    }
