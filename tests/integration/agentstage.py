"""One agent between a stand-in kubelet and a bus in memory, with cards from a file."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from sublet_agent.app import run
from sublet_agent.settings import Settings, Source

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.bus.port import Upserted
from sublet.contract import keys, subjects
from sublet.demo.kubelet.spec import ContainerSpec, PodSpec
from sublet.demo.kubelet.standin import Folders, StandInKubelet
from sublet.model.card import Heartbeat, Inventory
from sublet.model.claim import ContainerKind
from sublet.model.health import HealthState, Verdict
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import (
    CardGrant,
    GrantState,
    LedgerGrant,
    LedgerMeta,
    NodeLedger,
    Occupancy,
)
from sublet.wire.health import verdict_out
from sublet.wire.ledger import ledger_meta_out, node_ledger_out
from sublet.wire.node import heartbeat_in, inventory_in, occupancy_in

T = TypeVar("T")
NODE = NodeName("n1.lab")
CARDS = tuple(CardId(f"GPU-{number}") for number in range(4))


def claiming(name: str, **more: Any) -> ContainerSpec:
    return ContainerSpec(name=name, devices={keys.SLOT: 1}, **more)


def pod(
    name: str, *containers: ContainerSpec, init: tuple[ContainerSpec, ...] = (), uid: str = "", **more: Any
) -> PodSpec:
    chosen = containers or (claiming("main"),)
    return PodSpec(uid=uid or uid_of(name), name=name, containers=chosen, init=init, **more)


def uid_of(name: str) -> str:
    return f"{name}-0000-1111"


def grant(
    pod_name: str,
    *cards: CardId,
    container: str = "main",
    kind: ContainerKind = ContainerKind.MAIN,
    memory_mib: int = 1024,
    core_percent: int = 10,
    state: GrantState = GrantState.COMMITTED,
    **env: str,
) -> tuple[LedgerGrant, ...]:
    return tuple(
        LedgerGrant(
            pod=PodRef("default", pod_name),
            uid=PodUid(uid_of(pod_name)),
            decision=DecisionId(f"d-{pod_name}"),
            container=container,
            kind=kind,
            dialect="sublet",
            grant=CardGrant(
                card=card, index=CARDS.index(card), memory_mib=memory_mib, core_percent=core_percent
            ),
            state=state,
            env=env,
        )
        for card in cards
    )


@dataclass(slots=True)
class Ledger:
    """Writes the ledger as the scheduler would."""

    bus: MemoryBus
    entry: NodeLedger = field(default_factory=lambda: NodeLedger(node=NODE, term=1))

    async def complete(self, *, epoch: str = "e1", complete: bool = True) -> None:
        meta = ledger_meta_out(LedgerMeta(epoch=epoch, complete=complete, term=1))
        await self.bus.put(subjects.LEDGER_BUCKET, subjects.LEDGER_META_KEY, meta)

    async def write(self, *grants: LedgerGrant, closed: tuple[CardId, ...] = ()) -> int:
        self.entry = replace(self.entry, grants=grants, closed=closed)
        return await self.bus.put(
            subjects.LEDGER_BUCKET, subjects.ledger_key(NODE), node_ledger_out(self.entry)
        )

    async def add(self, *grants: LedgerGrant) -> int:
        return await self.write(*self.entry.grants, *grants, closed=self.entry.closed)

    async def close(self, *cards: CardId) -> int:
        return await self.write(*self.entry.grants, closed=cards)


@dataclass(slots=True)
class Stage:
    root: Path
    bus: MemoryBus
    kubelet: StandInKubelet
    folders: Folders
    ledger: Ledger

    def settings(self, **more: Any) -> Settings:
        values: dict[str, Any] = {
            "node": NODE,
            "cards": Source.FILE,
            "inventory": str(self.root / "inventory.yaml"),
            "signals": str(self.root / "signals.jsonl"),
            "kubelet_dir": str(self.folders.kubelet),
            "cdi_dir": str(self.folders.cdi),
            "vendor_cdi_dirs": (str(self.root / "vendor"),),
            "state_dir": str(self.root / "state"),
            "cgroup_root": str(self.folders.cgroups),
            "boot_id_file": str(self.root / "boot_id"),
            "dev_root": str(self.root),
            "probe_host": "127.0.0.1",
            "probe_port": 0,
            "grant_wait_s": 5.0,
            "heartbeat_s": 0.1,
            "poll_s": 0.2,
            "list_debounce_s": 0.01,
        }
        return Settings(**(values | more))

    @asynccontextmanager
    async def agent(self, **more: Any) -> AsyncIterator[int]:
        """The agent runs, and the kubelet follows its slots; yields the port of its probes."""
        stop = asyncio.Event()
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        before = len(self.kubelet.registrations)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run(self.settings(**more), stop=stop, bus=self.bus, opened=port.set_result), name="agent"
            )
            try:
                await self.kubelet.until(
                    lambda kubelet: len(kubelet.registrations) > before and self.allocatable > 0
                )
                yield await port
            finally:
                stop.set()

    def list_cards(self, *cards: CardId) -> None:
        """Write the inventory file; YAML takes JSON."""
        entries = [
            {"uuid": card, "index": number, "memoryMiB": 81920, "model": "A100", "minor": number}
            for number, card in enumerate(cards)
        ]
        temporary = self.root / "inventory.new"
        temporary.write_text(json.dumps({"nodes": [{"name": NODE, "cards": entries}]}))
        temporary.replace(self.root / "inventory.yaml")

    @property
    def allocatable(self) -> int:
        return self.kubelet.table.allocatable().get(keys.SLOT, 0)

    @property
    def capacity(self) -> int:
        return self.kubelet.table.capacity().get(keys.SLOT, 0)

    def sees(self, pod_name: str, container: str = "main") -> dict[str, str]:
        return dict(self.kubelet.containers[uid_of(pod_name), container].env)

    def nodes(self, pod_name: str, container: str = "main") -> list[str]:
        return [node.path for node in self.kubelet.containers[uid_of(pod_name), container].nodes]

    async def judge(self, card: CardId, state: HealthState, *, withheld: bool, seq: int = 0) -> None:
        verdict = Verdict(
            node=NODE,
            card=card,
            state=state,
            schedulable=state.accepts_shares,
            withheld=withheld,
            seq=seq,
        )
        await self.bus.put(subjects.VERDICTS_BUCKET, subjects.verdict_key(NODE, card), verdict_out(verdict))

    async def inventory(self, holds: Callable[[Inventory], bool]) -> Inventory:
        return await self._value(subjects.inventory_key(NODE), inventory_in, holds)

    async def heartbeat(self, holds: Callable[[Heartbeat], bool]) -> Heartbeat:
        return await self._value(subjects.heartbeat_key(NODE), heartbeat_in, holds)

    async def occupancy(self, holds: Callable[[Occupancy], bool]) -> Occupancy:
        return await self._value(subjects.occupancy_key(NODE), occupancy_in, holds)

    async def _value(self, key: str, read: Callable[[bytes], T], holds: Callable[[T], bool]) -> T:
        """The first value of `key` in the inventory bucket of which `holds` is true."""
        async with asyncio.timeout(5), aclosing(self.bus.follow(subjects.INVENTORY_BUCKET, key)) as changes:
            async for change in changes:
                if isinstance(change, Upserted) and holds(value := read(change.entry.value)):
                    return value
        raise AssertionError(f"{key} was never as wanted")


@asynccontextmanager
async def agent_stage() -> AsyncIterator[Stage]:
    """Everything but the agent: `Stage.agent` runs that, once or several times."""
    with tempfile.TemporaryDirectory(prefix="sublet-") as name:  # short: sockets have at most 107 bytes
        root = Path(name)
        folders = Folders(kubelet=root / "kubelet", cdi=root / "cdi", cgroups=root / "cgroups")
        bus = MemoryBus(LAYOUT)
        (root / "boot_id").write_text("boot-1\n")
        (root / "dev").mkdir()
        for node in ("nvidiactl", *(f"nvidia{number}" for number in range(len(CARDS)))):
            (root / "dev" / node).touch()
        async with StandInKubelet(folders, retry_s=0.02) as kubelet:
            stage = Stage(root=root, bus=bus, kubelet=kubelet, folders=folders, ledger=Ledger(bus))
            stage.list_cards(*CARDS)
            await stage.ledger.complete()
            await stage.ledger.write()
            yield stage
