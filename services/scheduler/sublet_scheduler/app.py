"""The composition root of the scheduler: the only place that knows all its parts."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import structlog

from sublet import __version__
from sublet.bus.jetstream import open_bus
from sublet.bus.layout import LAYOUT
from sublet.bus.port import Bus
from sublet.kube.client import connect
from sublet.kube.clusterid import cluster_id
from sublet.kube.errors import KubeError
from sublet.kube.port import Kube
from sublet.runtime.clock import monotonic_s, unix_ms
from sublet.runtime.garbage import keep_settled
from sublet.runtime.probes import serve_probes
from sublet.runtime.serve import Loop, serve
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.flight.recorder import Recorder
from sublet_scheduler.core.shapes import Policies
from sublet_scheduler.core.state import Rules
from sublet_scheduler.settings import Settings
from sublet_scheduler.shell.admission import Admission
from sublet_scheduler.shell.ballast import BallastWrites
from sublet_scheduler.shell.cards import Cards
from sublet_scheduler.shell.certs import Certificates
from sublet_scheduler.shell.driver import Driver
from sublet_scheduler.shell.effects import ClusterEffects
from sublet_scheduler.shell.evictions import Evictions
from sublet_scheduler.shell.extender import Extender, serve_extender
from sublet_scheduler.shell.feeds import Feeds
from sublet_scheduler.shell.kubeevents import KubeEvents
from sublet_scheduler.shell.ledger import Ledger
from sublet_scheduler.shell.metrics import Metrics, StateCollector
from sublet_scheduler.shell.namespaces import Namespaces
from sublet_scheduler.shell.nodes import Nodes, follow_dra
from sublet_scheduler.shell.nodewrites import NodeWrites
from sublet_scheduler.shell.outbox import Outbox
from sublet_scheduler.shell.placeholders import PlaceholderWrites
from sublet_scheduler.shell.podfacts import PodReader
from sublet_scheduler.shell.podpatches import PodPatches
from sublet_scheduler.shell.pods import Pods
from sublet_scheduler.shell.pools import read_pools
from sublet_scheduler.shell.publishing import Publishing
from sublet_scheduler.shell.quotas import Quotas
from sublet_scheduler.shell.ratios import read_ratios
from sublet_scheduler.shell.readiness import Readiness
from sublet_scheduler.shell.secret import decision_key
from sublet_scheduler.shell.stuckpin import StuckPins
from sublet_scheduler.shell.webhook import serve_webhook
from sublet_scheduler.shell.workload import read_workload

log = structlog.get_logger()

CERTIFICATES_EVERY_S = 5.0
START_AGAIN_S = 1.0
FLIGHT = "/flight"
"""Where the flight recorder is read, beside the probes."""


Listening = Callable[[int, int], None]
"""Told the ports of webhook and probes."""


def _nobody(webhook_port: int, probe_port: int) -> None:  # noqa: ARG001 - nobody wants to know
    return


async def run(
    settings: Settings,
    *,
    stop: asyncio.Event,
    kube: Kube | None = None,
    bus: Bus | None = None,
    listening: Listening = _nobody,
) -> None:
    """Run until `stop` is set. `kube` and `bus` are opened from the settings unless they are given;
    `listening` is told the ports once both servers listen."""
    async with AsyncExitStack() as held:
        if kube is None:
            kubeconfig = Path(settings.kubeconfig) if settings.kubeconfig else None
            kube = await held.enter_async_context(connect(kubeconfig))
        if bus is None:
            bus = await held.enter_async_context(open_bus(settings.nats_url, name="scheduler", layout=LAYOUT))
        await _run(settings, kube, bus, held, stop=stop, listening=listening)


async def _run(
    settings: Settings,
    kube: Kube,
    bus: Bus,
    held: AsyncExitStack,
    *,
    stop: asyncio.Event,
    listening: Listening,
) -> None:
    options = settings.options
    metrics = Metrics(clock=monotonic_s)
    ready = Readiness()
    streams: dict[str, Callable[[], Iterator[str]]] = {}
    probe_port = await held.enter_async_context(
        serve_probes(
            host=settings.probe_host,
            port=settings.probe_port,
            registry=metrics.registry,
            not_ready=ready.against,
            streams=streams,
        )
    )
    certificates = Certificates(
        kube, namespace=settings.namespace, names=settings.webhook_names, unix_ms=unix_ms
    )
    prepared = await _prepare(kube, settings, certificates, stop)
    if prepared is None:
        return
    key, name = prepared

    engine = Engine(
        Rules(
            options=options,
            policies=Policies(settings.node_policy, settings.card_policy),
            overcommit=settings.overcommit,
            workload=read_workload(Path(settings.workload), options) if settings.workload else (),
            reservation_s=settings.reservation_s,
            fresh_s=settings.heartbeat_fresh_s,
            stuck_pin_s=settings.stuck_pin_s,
            outside_use=settings.outside_use,
            preemption=settings.preemption,
            gang_s=settings.gang_s,
            holds=settings.queue_holds,
            hold_s=settings.queue_hold_s,
            ratios=read_ratios(Path(settings.ratios)) if settings.ratios else (),
            ballast_wait_s=settings.ballast_wait_s,
            placeholders=settings.placeholders,
            placeholder_after_s=settings.placeholder_after_s,
            pools=read_pools(Path(settings.node_pools)) if settings.node_pools else (),
        )
    )
    outbox = Outbox(on_fact=metrics.told, unix_ms=unix_ms)
    recorder = Recorder(engine, release=__version__)
    streams[FLIGHT] = recorder.lines
    driver = Driver(engine, outbox, clock=monotonic_s, observe=metrics.answered, recorder=recorder)
    metrics.registry.register(StateCollector(engine, bus.state, lambda: outbox.dropped))

    cards = Cards()
    reader = PodReader(options=options, key=key)
    namespaces = Namespaces(kube, manage_all=settings.manage_all)
    pods = Pods(kube, reader, driver.submit)
    nodes = Nodes(kube, options, driver.submit)
    quotas = Quotas(kube, driver.submit, options=options)
    feeds = Feeds(bus, driver.submit, cards, dropped=metrics.dropped, unix_ms=unix_ms)
    ledger = Ledger(
        bus,
        driver.submit,
        driver.report,
        rebuilt=driver.rebuilt,
        rebuilt_under=lambda term: engine.rebuilt and engine.state.term == term,
        is_awaited=outbox.is_awaited,
        conflicted=metrics.conflicted,
    )
    cluster = ClusterEffects(
        pods=PodPatches(
            kube=kube,
            reader=reader,
            cards_of=cards.of,
            labels_of=engine.state.labels,
            options=options,
            unix_ms=unix_ms,
        ),
        nodes=NodeWrites(kube),
        pins=StuckPins(kube),
        evictions=Evictions(kube),
        ballast=BallastWrites(kube=kube, image=settings.ballast_image),
        placeholders=PlaceholderWrites(
            kube=kube, image=settings.placeholder_image, resource=settings.placeholder_resource
        ),
        events=KubeEvents(kube),
        outbox=outbox,
        report=driver.report,
        unix_ms=unix_ms,
    )
    admission = Admission(
        ask=driver.ask,
        managed=namespaces.managed,
        cards_of=cards.of,
        labels_of=engine.state.labels,
        node_labels=lambda: engine.state.fleet.labels,
        cards_on=cards.on if settings.daemonset_cards else None,
        options=options,
        key=key,
        budget_s=settings.decision_budget_s,
        unix_ms=unix_ms,
        refused=metrics.refused,
    )
    ready.need("pods are not listed yet", lambda: pods.listed)
    ready.need("nodes are not listed yet", lambda: nodes.listed)
    ready.need("quotas are not listed yet", lambda: quotas.listed)
    ready.need("namespaces are not listed yet", lambda: namespaces.listed)
    ready.need("the webhook configuration does not trust our certificate yet", lambda: certificates.trusted)
    webhook = await held.enter_async_context(AsyncExitStack())
    webhook_port = await webhook.enter_async_context(
        serve_webhook(
            host=settings.webhook_host,
            port=settings.webhook_port,
            tls=certificates.context,
            claims=admission.claims,
            elsewhere=admission.elsewhere,
        )
    )
    if settings.extender_port:
        extender = Extender(state=engine.state, kube=kube, options=options)
        await held.enter_async_context(
            serve_extender(extender, host=settings.extender_host, port=settings.extender_port)
        )
    ready.begin()
    listening(webhook_port, probe_port)
    loops: dict[str, Loop] = {
        "certificates": partial(certificates.run, every_s=CERTIFICATES_EVERY_S),
        "engine": driver.run,
        "garbage": partial(keep_settled, driver.rebuilt.wait),
        "namespaces": namespaces.run,
        "pods": pods.run,
        "nodes": nodes.run,
        "quotas": quotas.run,
        "dra": partial(follow_dra, kube, driver.submit, every_s=settings.reconcile_s),
        "inventories": feeds.follow_nodes,
        "verdicts": feeds.follow_verdicts,
        "ledger": ledger.follow,
        "ledger-term": ledger.hold,
        "ledger-completion": ledger.complete,
        "ledger-writes": partial(outbox.ledger.run, ledger.write),
        "cluster-effects": partial(outbox.cluster.run, cluster.perform),
        "public-events": partial(outbox.public.run, Publishing(bus=bus, cluster=name).tell),
    }

    async def withdraw() -> None:
        """Not ready, but still answering, since the API server learns of it with a lag; then finish."""
        ready.end()
        await asyncio.sleep(settings.drain_s)
        await webhook.aclose()

    await serve(loops, stop=stop, drain=[withdraw])


async def _prepare(
    kube: Kube, settings: Settings, certificates: Certificates, stop: asyncio.Event
) -> tuple[bytes, str] | None:
    """The certificate; then the key that signs decisions and the cluster's name, as soon as the API server
    lets us; None: stopped."""
    while not stop.is_set():
        try:
            await certificates.check()
            key = await decision_key(kube, namespace=settings.namespace)
            return key, settings.cluster or await cluster_id(kube)
        except KubeError as error:
            log.warning("start.postponed", error=str(error))
        with suppress(TimeoutError):
            async with asyncio.timeout(START_AGAIN_S):
                await stop.wait()
    return None
