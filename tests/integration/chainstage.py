"""The whole way of a signal: a stand-in for NVIDIA's library under the real binding, the agent, a real
nats-server, healthd, and back to the agent and a stand-in kubelet. Only the scheduler is played."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sublet_agent.app import run as run_agent
from sublet_agent.settings import Settings as AgentSettings
from sublet_agent.settings import Source
from sublet_healthd.app import run as run_healthd
from sublet_healthd.settings import Settings as HealthdSettings
from sublet_healthd.shell.retry import Pauses

from sublet.bus.jetstream import NatsBus, open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.port import Upserted
from sublet.contract import keys, subjects
from sublet.demo.apiserver.server import serve_api
from sublet.demo.kubelet.standin import Folders, StandInKubelet
from sublet.demo.natsserver import NatsServer
from sublet.kube.client import open_client
from sublet.kube.kind import NODES
from sublet.kube.port import Kube
from sublet.model.health import HealthState, Verdict
from sublet.model.ids import CardId
from sublet.model.placement import LedgerGrant, LedgerMeta, NodeLedger
from sublet.wire.health import verdict_in
from sublet.wire.ledger import ledger_meta_out, node_ledger_out
from sublet.wire.node import occupancy_in
from tests.fakenvml.build import fake_nvml
from tests.fakenvml.control import XID, FakeCard, FakeNvml
from tests.integration.agentstage import CARDS, NODE

SHARES = 16
ALL = SHARES * len(CARDS)
POLL_S = 0.1
PROBATION_S = 0.3


def fake_card(number: int, **more: Any) -> FakeCard:
    values: dict[str, Any] = {"pci": f"0:b{number}:0", "minor": number, "ecc": 0, "recovery": 0} | more
    return FakeCard(uuid=CARDS[number], **values)


@dataclass(slots=True)
class Chain:
    root: Path
    driver: FakeNvml
    kubelet: StandInKubelet
    bus: NatsBus
    kube: Kube
    url: str
    grants: tuple[LedgerGrant, ...] = ()
    closed: frozenset[CardId] = frozenset()
    verdicts: dict[CardId, list[Verdict]] = field(default_factory=dict)
    """All that were seen of each card, in order."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    # what goes wrong

    def xid(self, card: CardId, code: int) -> None:
        self.driver.event(card, XID, code)

    def kernel_says(self, *lines: str) -> None:
        with (self.root / "kmsg").open("a") as log:
            log.write("".join(f"4,{number},{number},-;{line}\n" for number, line in enumerate(lines, 1)))

    # what is to come of it

    @property
    def allocatable(self) -> int:
        return self.kubelet.table.allocatable().get(keys.SLOT, 0)

    async def until(self, card: CardId, holds: Callable[[Verdict], bool]) -> Verdict:
        """The newest verdict of `card`, once it is so."""

        def newest() -> Verdict | None:
            found = self.verdicts.get(card)
            return found[-1] if found and holds(found[-1]) else None

        async with asyncio.timeout(8), self.changed:
            await self.changed.wait_for(lambda: newest() is not None)
        verdict = newest()
        assert verdict is not None
        return verdict

    async def until_state(self, card: CardId, state: HealthState) -> Verdict:
        return await self.until(card, lambda verdict: verdict.state is state)

    async def until_reason(self, card: CardId, reason: str) -> Verdict:
        return await self.until(card, lambda verdict: reason in ids(verdict))

    async def until_allocatable(self, slots: int) -> None:
        await self.kubelet.until(lambda _: self.allocatable == slots, within_s=8)

    async def until_seen(self, uid: str) -> None:
        """Until the agent has seen the pod hold its slot; before, the slot counts as taken for a while."""
        key = subjects.occupancy_key(NODE)
        async with asyncio.timeout(8), aclosing(self.bus.follow(subjects.INVENTORY_BUCKET, key)) as changes:
            async for change in changes:
                if isinstance(change, Upserted):
                    seen = occupancy_in(change.entry.value)
                    if uid in {use.uid for use in seen.slots}:
                        return

    def states(self, card: CardId) -> list[HealthState]:
        """Without repetitions."""
        found: list[HealthState] = []
        for verdict in self.verdicts.get(card, ()):
            if not found or found[-1] is not verdict.state:
                found.append(verdict.state)
        return found

    # the scheduler's part

    async def grant(self, *grants: LedgerGrant) -> None:
        self.grants = grants
        await self._write()

    async def _write(self) -> None:
        entry = NodeLedger(node=NODE, term=1, grants=self.grants, closed=tuple(sorted(self.closed)))
        await self.bus.put(
            subjects.LEDGER_BUCKET, subjects.ledger_key(NODE), node_ledger_out(entry), within_s=5
        )

    async def begin(self) -> None:
        meta = LedgerMeta(epoch="e1", complete=True, term=1)
        await self.bus.put(
            subjects.LEDGER_BUCKET, subjects.LEDGER_META_KEY, ledger_meta_out(meta), within_s=5
        )
        await self._write()

    async def schedule(self) -> None:
        """Close each card that is not schedulable, open it again when it is."""
        async with aclosing(self.bus.follow(subjects.VERDICTS_BUCKET)) as changes:
            async for change in changes:
                if not isinstance(change, Upserted):
                    continue
                verdict = verdict_in(change.entry.value)
                closed = self.closed - {verdict.card}
                closed |= set() if verdict.schedulable else {verdict.card}
                if closed != self.closed:
                    self.closed = closed
                    await self._write()
                async with self.changed:
                    self.verdicts.setdefault(verdict.card, []).append(verdict)
                    self.changed.notify_all()

    # the services

    @asynccontextmanager
    async def agent(self, **more: Any) -> AsyncIterator[None]:
        """It runs, and the kubelet follows it."""
        values: dict[str, Any] = {
            "node": NODE,
            "cards": Source.NVML,
            "nvml_library": str(self.driver.library),
            "nvml_call_limit_s": 0.3,
            "nats_url": self.url,
            "kubelet_dir": str(self.root / "kubelet"),
            "cdi_dir": str(self.root / "cdi"),
            "state_dir": str(self.root / "state"),
            "cgroup_root": str(self.root / "cgroups"),
            "boot_id_file": str(self.root / "boot_id"),
            "kmsg": str(self.root / "kmsg"),
            "sysfs_root": str(self.root / "sys"),
            "dev_root": str(self.root),
            "probe_host": "127.0.0.1",
            "probe_port": 0,
            "heartbeat_s": 0.1,
            "poll_s": POLL_S,
            "list_debounce_s": 0.01,
        }
        stop = asyncio.Event()
        before = len(self.kubelet.registrations)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_agent(AgentSettings(**(values | more)), stop=stop), name="agent")
            try:
                await self.kubelet.until(lambda kubelet: len(kubelet.registrations) > before, within_s=8)
                await self.until_allocatable_is_known()
                yield
            finally:
                stop.set()

    async def until_allocatable_is_known(self) -> None:
        await self.kubelet.until(lambda _: self.allocatable > 0, within_s=8)

    @asynccontextmanager
    async def healthd(self) -> AsyncIterator[None]:
        settings = HealthdSettings(
            nats_url=self.url,
            probe_host="127.0.0.1",
            probe_port=0,
            idle_grace_s=0.2,
            probation_s=PROBATION_S,
            silence_s=60.0,
        )
        stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
        pauses = Pauses(first_s=0.01, most_s=0.05)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_healthd(settings, stop=stop, kube=self.kube, pauses=pauses, opened=port.set_result),
                name="healthd",
            )
            try:
                async with asyncio.timeout(8):
                    await port
                yield
            finally:
                stop.set()


def ids(verdict: Verdict) -> list[str]:
    return [reason.id for reason in verdict.reasons]


@asynccontextmanager
async def chain(server: NatsServer) -> AsyncIterator[Chain]:
    """Everything but the agent, which a test runs itself, once or several times; four cards, all well."""
    async with AsyncExitStack() as held:
        root = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="sublet-")))
        driver = fake_nvml(root / "driver")
        driver.show(*(fake_card(number) for number in range(len(CARDS))))
        held.callback(driver.set)
        (root / "boot_id").write_text("boot-1\n")
        (root / "kmsg").touch()
        (root / "dev").mkdir()
        for name in ("nvidiactl", *(f"nvidia{number}" for number in range(len(CARDS)))):
            (root / "dev" / name).touch()
        bus = await held.enter_async_context(open_bus(server.url, name="test", layout=LAYOUT))
        api = await held.enter_async_context(serve_api())
        kube = await held.enter_async_context(open_client(api.access))
        await kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        folders = Folders(kubelet=root / "kubelet", cdi=root / "cdi", cgroups=root / "cgroups")
        kubelet = await held.enter_async_context(StandInKubelet(folders, retry_s=0.02))
        stage = Chain(root=root, driver=driver, kubelet=kubelet, bus=bus, kube=kube, url=server.url)
        await stage.begin()
        scheduling = asyncio.create_task(stage.schedule(), name="scheduler")
        try:
            async with stage.healthd():
                yield stage
        finally:
            scheduling.cancel()
            with suppress(asyncio.CancelledError):
                await scheduling
