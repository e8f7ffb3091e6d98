"""The composition root: the only place that knows all parts of healthd."""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.port import Bus
from sublet.kube.client import connect
from sublet.kube.clusterid import cluster_id
from sublet.kube.port import Kube
from sublet.model.errors import Unavailable
from sublet.runtime.clock import unix_ms
from sublet.runtime.probes import serve_probes
from sublet.runtime.serve import Loop, every, serve
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import BreakerRestored, Restored
from sublet_healthd.core.policy import Policy
from sublet_healthd.settings import Settings, read_policy
from sublet_healthd.shell.announcer import Announcer
from sublet_healthd.shell.audit import Audit
from sublet_healthd.shell.breakerkeeper import BreakerKeeper
from sublet_healthd.shell.devicetaints import DeviceTaints
from sublet_healthd.shell.driver import Driver
from sublet_healthd.shell.evictions import Evictions
from sublet_healthd.shell.feeds import Feeds
from sublet_healthd.shell.heartbeat import Heartbeat
from sublet_healthd.shell.kubeevents import EventWriter, KubeEvents
from sublet_healthd.shell.leadership import Leadership
from sublet_healthd.shell.marks import Marks
from sublet_healthd.shell.metrics import Metrics
from sublet_healthd.shell.nodemarks import NodeMarks
from sublet_healthd.shell.nodes import Nodes
from sublet_healthd.shell.outbox import Outbox
from sublet_healthd.shell.people import People
from sublet_healthd.shell.performer import Performer
from sublet_healthd.shell.retry import Pauses, keep_trying
from sublet_healthd.shell.store import VerdictStore

log = structlog.get_logger()


async def run(
    settings: Settings,
    *,
    stop: asyncio.Event,
    bus: Bus | None = None,
    kube: Kube | None = None,
    pauses: Pauses = Pauses(),  # noqa: B008  # frozen
    opened: Callable[[int], None] = lambda _port: None,
) -> None:
    """Run healthd until `stop` is set.

    `bus` and `kube` stand in for the ones that the settings name; `opened` hears the port of the probes.
    """
    policy = read_policy(settings)
    async with AsyncExitStack() as held:
        if bus is None:
            bus = await held.enter_async_context(open_bus(settings.nats_url, name="healthd", layout=LAYOUT))
        if kube is None:
            kubeconfig = Path(settings.kubeconfig) if settings.kubeconfig else None
            kube = await held.enter_async_context(connect(kubeconfig))
        healthd = Healthd(settings, policy, bus=bus, kube=kube, pauses=pauses)
        port = await held.enter_async_context(
            serve_probes(
                host=settings.probe_host,
                port=settings.probe_port,
                registry=healthd.registry,
                not_ready=healthd.not_ready,
            )
        )
        opened(port)
        await serve(healthd.loops(), stop=stop, drain=(healthd.leave,))


class Healthd:
    """The parts of healthd, put together; nothing runs before its loops do."""

    def __init__(self, settings: Settings, policy: Policy, *, bus: Bus, kube: Kube, pauses: Pauses) -> None:
        self.registry = CollectorRegistry()
        self.engine = Engine(policy)
        self._reconcile_s = settings.reconcile_s
        self._kube, self._pauses = kube, pauses
        self._cluster = settings.cluster
        self._leaving = False
        self._restored = asyncio.Event()
        metrics = Metrics(self.registry, self.engine, bus, unix_ms=unix_ms)
        maker = KubeEvents(namespace=settings.namespace, run=secrets.token_hex(4), unix_ms=unix_ms)
        events = EventWriter(kube, maker)
        self._nodes = Nodes(kube, events, pauses=pauses, unix_ms=unix_ms)
        self._store = VerdictStore(bus, pauses=pauses)
        self._announcer = Announcer(
            bus,
            self._store,
            self.engine,
            cluster=self._named,
            name_pods=settings.name_pods,
            pauses=pauses,
        )
        audit = Audit(bus, cluster=self._named, pauses=pauses)
        self._breaker = BreakerKeeper(bus, audit, events.tell_breaker, pauses=pauses)
        self._outbox = Outbox(dropped=metrics.dropped)
        self._performer = Performer(self.engine, self._outbox, self._store, self._announcer, self._nodes)
        self._driver = Driver(
            self.engine,
            self._outbox,
            unix_ms=unix_ms,
            observe=metrics.observe,
            breaker=self._breaker.put,
        )
        self._people = People(
            bus,
            self._driver,
            audit,
            knows=lambda node, card: (node, card) in self.engine.cards,
            ignored=metrics.ignored,
            unix_ms=unix_ms,
        )
        evictions = Evictions(kube, self.engine, counted=metrics.evicted)
        taints = DeviceTaints(kube, self.engine, effect=settings.device_taints)
        marks = Marks(kube, self.engine, on="gpushare" in settings.marks)
        node_marks = NodeMarks(
            kube, self.engine, volcano="volcano" in settings.marks, labels=settings.card_labels
        )
        optional: dict[str, tuple[bool, Loop]] = {
            "evictions": (settings.evict, evictions.run),
            "taints": (bool(settings.device_taints), taints.run),
            "marks": (True, marks.run),  # those of a setting that was switched off go
            "node-marks": (True, node_marks.run),
        }
        self._further = {name: loop for name, (wanted, loop) in optional.items() if wanted}
        self._leadership = Leadership(kube, namespace=settings.namespace) if settings.elect else None
        self._heartbeat = Heartbeat(bus, unix_ms=unix_ms)
        self._feeds = Feeds(
            bus,
            self._driver,
            self._store,
            ignored=metrics.ignored,
            pauses=pauses,
            unix_ms=unix_ms,
        )

    def loops(self) -> dict[str, Loop]:
        """Nothing is judged before all that was known is known again."""
        feeds = self._feeds
        further = {name: self._after_restore(loop) for name, loop in self._further.items()}
        if self._leadership is not None:
            further["lease"] = self._leadership.run
        return further | {
            "judge": self._judge,
            "effects": self._after_restore(self._performer.run),
            "signals": self._after_restore(feeds.signals),
            "inventory": self._after_restore(feeds.inventory),
            "ledger": self._after_restore(feeds.ledger),
            "verdicts": self._after_restore(feeds.verdicts),
            "people": self._after_restore(self._people.run),
            "breaker": self._after_restore(self._breaker.run),
            "heartbeat": self._after_restore(self._heartbeat.run),
            "reconcile": self._after_restore(self._reconcile_at_intervals),
        }

    async def leave(self) -> None:
        """Whatever is not written yet is decided again by the next life."""
        self._leaving = True

    def not_ready(self) -> list[str]:
        against = ["healthd is stopping"] if self._leaving else []
        waits = self._leadership is not None and not self._leadership.won.is_set()
        if not self._restored.is_set() and not waits:  # one that waits for the lease is ready to take over
            against.append("the verdicts of before are not read yet")
        return against

    async def _judge(self) -> None:
        if self._leadership is not None:
            await self._leadership.won.wait()
        await self._restore()
        self._restored.set()
        await self._driver.run()

    def _named(self) -> str:
        return self._cluster

    async def _restore(self) -> None:
        """From the bus; what it does not know, from the nodes' annotations. Then what was left undone."""
        elected = self._leadership is not None
        verdicts = await (self._store.take_over() if elected else self._store.load())
        self.engine.handle(BreakerRestored(await self._breaker.load(fence=elected)), now_ms=unix_ms())
        annotated = await self._nodes.load()
        if not self._cluster:
            self._cluster = await keep_trying("cluster.id", self._read_cluster, pauses=self._pauses)
        known = {(verdict.node, verdict.card) for verdict in verdicts}
        now_ms = unix_ms()
        for verdict in verdicts:
            self.engine.handle(Restored(verdict=verdict), now_ms=now_ms)
        lost = [one for one in annotated if (one.verdict.node, one.verdict.card) not in known]
        for one in lost:
            self.engine.handle(one, now_ms=now_ms)
        for verdict in (*verdicts, *(one.verdict for one in lost)):
            await self._announcer.finish(verdict)
        log.info("verdicts.restored", from_bus=len(verdicts), from_nodes=len(annotated))

    async def _read_cluster(self) -> str:
        return await cluster_id(self._kube)

    def _after_restore(self, loop: Loop) -> Loop:
        async def begin() -> None:
            await self._restored.wait()
            await loop()

        return begin

    async def _reconcile_at_intervals(self) -> None:
        await every(self._reconcile_s, self._reconcile, first_at_once=False)

    async def _reconcile(self) -> None:
        try:
            await self._performer.reconcile()
        except Unavailable as error:
            log.warning("nodes.unread", error=str(error))
