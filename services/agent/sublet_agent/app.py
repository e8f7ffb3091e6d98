"""The composition root: the only place that knows all parts of the agent."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from sublet.bus.jetstream import open_bus
from sublet.bus.port import Bus
from sublet.cards.kernellog import KernelLog
from sublet.cards.port import CardSource
from sublet.model.ids import NodeName, SlotId
from sublet.runtime.clock import monotonic_s, unix_ms
from sublet.runtime.probes import serve_probes
from sublet.runtime.serve import Loop, every, serve
from sublet_agent.core import event as ev
from sublet_agent.core.edits import Injection
from sublet_agent.core.engine import Config, Engine
from sublet_agent.settings import Settings
from sublet_agent.shell import feeds
from sublet_agent.shell.board import Board
from sublet_agent.shell.cdi import SpecFiles
from sublet_agent.shell.device_plugin import DevicePlugin
from sublet_agent.shell.driver import Driver
from sublet_agent.shell.hands import Hands
from sublet_agent.shell.looks import Looks
from sublet_agent.shell.mailbox import Mailbox
from sublet_agent.shell.metrics import Metrics, Scrape
from sublet_agent.shell.observer import CHECKPOINT, Observer
from sublet_agent.shell.origins import Origins, open_origins
from sublet_agent.shell.podresources import PodResources
from sublet_agent.shell.publisher import Publisher
from sublet_agent.shell.pulse import Pulse
from sublet_agent.shell.registration import Registration
from sublet_agent.shell.signals import Announcer, SignalBox
from sublet_agent.shell.starts import Starts
from sublet_agent.shell.state import State

log = structlog.get_logger()

_TICK_S = 1.0
_STILL_AFTER_S = 15.0
"""A loop that has not turned for so long is dead; a registration alone may take 15 s."""


async def run(
    settings: Settings,
    *,
    stop: asyncio.Event,
    bus: Bus | None = None,
    source: CardSource | None = None,
    opened: Callable[[int], None] = lambda _port: None,
) -> None:
    """Run the agent until `stop` is set.

    `bus` and `source` stand in for the ones that the settings name; `opened` hears the port of the probes.
    """
    async with AsyncExitStack() as held:
        node = NodeName(settings.node)
        boot_id = Path(settings.boot_id_file).read_text().strip()  # noqa: ASYNC240  # before anything runs
        epoch = secrets.token_hex(4)
        structlog.contextvars.bind_contextvars(node=node, epoch=epoch)
        if bus is None:
            bus = await held.enter_async_context(open_bus(settings.nats_url, name=f"agent-{node}"))
        origins = Origins.of(source) if source else await held.enter_async_context(open_origins(settings))
        pod_resources = await held.enter_async_context(
            PodResources(Path(settings.kubelet_dir, "pod-resources", "kubelet.sock"))
        )
        agent = Agent(
            settings, bus=bus, origins=origins, pod_resources=pod_resources, boot_id=boot_id, epoch=epoch
        )
        port = await held.enter_async_context(
            serve_probes(
                host=settings.probe_host,
                port=settings.probe_port,
                registry=agent.registry,
                not_ready=agent.not_ready,
                unhealthy=agent.unhealthy,
            )
        )
        opened(port)
        await serve(agent.loops(), stop=stop, drain=(agent.leave,))


class Agent:
    """The parts of one agent, put together; nothing runs before its loops do."""

    def __init__(
        self,
        settings: Settings,
        *,
        bus: Bus,
        origins: Origins,
        pod_resources: PodResources,
        boot_id: str,
        epoch: str,
    ) -> None:
        node = NodeName(settings.node)
        plugins = Path(settings.kubelet_dir, "device-plugins")
        self._settings, self._bus, self._origins, self._node = settings, bus, origins, node
        self._boot_id, self._epoch = boot_id, epoch
        self._leaving = False
        self.registry = CollectorRegistry()
        self._pulse = Pulse(("engine", "registration"), clock=monotonic_s, limit_s=_STILL_AFTER_S)
        state = State(Path(settings.state_dir))
        self.engine = Engine(
            Config(
                node=node,
                boot_id=boot_id,
                epoch=epoch,
                shares_per_card=settings.shares_per_card,
                injection=settings.injection,
                runtime=settings.runtime,
                grant_wait_s=settings.grant_wait_s,
            ),
            records=state.read_records(),
            slot_count=state.read_count(),
            kept={one.card: one for one in state.read_verdicts() if one.node == node},
        )
        self._board = Board(debounce_s=settings.list_debounce_s)
        self._publisher = Publisher(
            bus, node=node, unix_ms=unix_ms, verdicts=lambda: self.engine.kept.values()
        )
        self._box = SignalBox(
            bus, node=node, boot_id=boot_id, epoch=epoch, unix_ms=unix_ms, busy=self.engine.is_given
        )
        self._healthd = feeds.HealthdSeen()
        self.registry.register(
            Scrape(self.engine, self._box, bus, judged_ms=lambda: self._healthd.at_ms, unix_ms=unix_ms)
        )
        self._kernel_log = KernelLog(settings.kernel_log) if settings.kernel_log else None
        self._wished: Mailbox[None] = Mailbox()
        self._read_ledger: Mailbox[int] = Mailbox()
        hands = Hands(
            state=state,
            specs=_spec_files(settings),
            board=self._board,
            publisher=self._publisher,
            announcer=Announcer(self._box, boot_id=boot_id, driver=lambda: self.engine.driver),
            look=self._wished,
            read_ledger=self._read_ledger,
        )
        self._driver = Driver(
            self.engine, perform=hands.perform, clock=monotonic_s, pulse=self._pulse.of("engine")
        )
        observer = Observer(
            checkpoint=plugins / CHECKPOINT,
            cgroup_root=Path(settings.cgroup_root),
            pod_resources=pod_resources,
            source=origins.reader,
            clock=monotonic_s,
            unix_ms=unix_ms,
            environs_s=settings.poll_s,
        )
        self._looks = Looks(observer, self.engine, self._driver, self._wished, poll_s=settings.poll_s)
        self._starts = Starts(
            observer,
            self._driver,
            grant_wait_s=settings.grant_wait_s,
            clock=monotonic_s,
            measured=Metrics(self.registry).measured,
        )
        self._registration = Registration(
            plugins,
            epoch=epoch,
            make_plugin=self._plugin,
            changed=lambda registered: self._driver.submit(ev.RegistrationChanged(registered)),
            pulse=self._pulse.of("registration"),
            clock=monotonic_s,
        )

    def loops(self) -> dict[str, Loop]:
        driver, bus, node = self._driver, self._bus, self._node
        return {
            "engine": driver.run,
            "ticks": partial(every, _TICK_S, partial(driver.submit, ev.Tick())),
            "registration": self._register_when_shown,
            "looks": self._looks.run,
            "checkpoint": self._looks.watch_checkpoint,
            "cards": partial(feeds.feed_cards, self._origins.reader, driver),
            **self._signal_loops(),
            "signals": self._box.run,
            "verdicts": partial(feeds.feed_verdicts, bus, node, driver),
            "healthd": partial(self._healthd.follow, bus),
            "ledger": partial(feeds.feed_ledger, bus, node, driver, self._publisher),
            "ledger-meta": partial(feeds.feed_ledger_meta, bus, driver),
            "ledger-reads": partial(feeds.read_ledger, bus, node, self._read_ledger, driver),
            "connections": partial(feeds.feed_connections, bus, driver, self._publisher),
            "publisher": self._publisher.run,
            "heartbeat": partial(every, self._settings.heartbeat_s, self._beat),
        }

    def _signal_loops(self) -> dict[str, Loop]:
        loops: dict[str, Loop] = {
            f"card-signals-{number}": partial(feeds.feed_signals, source, self._box)
            for number, source in enumerate(self._origins.sources)
        }
        if self._kernel_log is not None:
            loops["kernel-log"] = partial(
                feeds.feed_kernel_log, self._kernel_log, lambda: (self.engine.cards or {}).values(), self._box
            )
        return loops

    async def leave(self) -> None:
        """Not ready first, then end the kubelet's stream and stop to serve it."""
        self._leaving = True
        await self._registration.stop()

    def not_ready(self) -> list[str]:
        against = ["the agent is stopping"] if self._leaving else []
        if not self.engine.registered:
            against.append("the kubelet does not follow our slots")
        return against + self.unhealthy()

    def unhealthy(self) -> list[str]:
        """A bus that is away is no reason: containers that ran before start without it."""
        against = [f"loop {name} stands still" for name in self._pulse.still()]
        if why := self._origins.reader.needs_restart():
            against.append(why)
        return against

    def _plugin(self) -> DevicePlugin:
        return DevicePlugin(
            self._board,
            injection=self._settings.injection,
            start=self._starts.start,
            taken=self._taken,
        )

    def _taken(self, slots: tuple[SlotId, ...]) -> None:
        self._driver.offer(ev.SlotsTaken(slots))

    async def _register_when_shown(self) -> None:
        """The kubelet hears of slots only after each of them has its spec file."""
        await self._board.ready.wait()
        await self._registration.run()

    async def _beat(self) -> None:
        if still := self._pulse.still():
            log.error("heartbeat.withheld", still=still)
            return
        await self._publisher.beat(boot_id=self._boot_id, epoch=self._epoch)


def _spec_files(settings: Settings) -> SpecFiles | None:
    if settings.injection is Injection.ENV:
        return None
    return SpecFiles(
        Path(settings.cdi_dir), vendor_folders=tuple(Path(one) for one in settings.vendor_cdi_dirs)
    )
