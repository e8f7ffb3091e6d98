"""The agent's metrics; labels of cards are those of dcgm-exporter, so that the two can be joined."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sublet.bus.port import Bus
from sublet.model.card import Card
from sublet.model.health import HealthState
from sublet_agent.core.engine import Engine
from sublet_agent.shell.signals import SignalBox

_CARD_LABELS = ("uuid", "gpu", "pci_bus_id", "modelName")


class Metrics:
    def __init__(self, registry: CollectorRegistry, engine: Engine, box: SignalBox, bus: Bus) -> None:
        self._start = Histogram(
            "sublet_agent_start_seconds",
            "How long a PreStartContainer call took, by whether the container could start",
            ("allowed",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30),
            registry=registry,
        )
        registry.register(_Scrape(engine, box, bus))

    def measured(self, seconds: float, allowed: bool) -> None:
        self._start.labels(str(allowed).lower()).observe(seconds)


class _Scrape(Collector):
    """Read from the engine when asked, so that nothing has to be kept in step."""

    def __init__(self, engine: Engine, box: SignalBox, bus: Bus) -> None:
        self._engine = engine
        self._box = box
        self._bus = bus

    def collect(self) -> Iterator[Metric]:
        yield from self._cards()
        yield from self._grants()
        engine = self._engine
        held = engine.held
        slots = GaugeMetricFamily("sublet_agent_slots", "Slots by state", labels=("state",))
        slots.add_metric(("healthy",), engine.slot_count - len(engine.withheld))
        slots.add_metric(("unhealthy",), len(engine.withheld))
        slots.add_metric(("held",), float("nan") if held is None else len(held))
        yield slots
        yield _gauge("sublet_agent_registered", "1 while the kubelet follows the slots", engine.registered)
        yield _gauge("sublet_agent_starts_waiting", "Container starts that wait now", len(engine.pending))
        yield _gauge("sublet_bus_connected", "1 while the bus is reachable", self._bus.state().connected)
        yield CounterMetricFamily("sublet_agent_signals_sent", "Signals stored on the bus", self._box.sent)
        yield CounterMetricFamily(
            "sublet_agent_signals_dropped", "Signals given up because the box was full", self._box.dropped
        )

    def _cards(self) -> Iterator[Metric]:
        memory = GaugeMetricFamily("sublet_card_memory_mib", "Usable memory", labels=_CARD_LABELS)
        lost = GaugeMetricFamily("sublet_card_lost", "1 while the driver misses it", labels=_CARD_LABELS)
        used = GaugeMetricFamily("sublet_card_used_mib", "Memory in use", labels=_CARD_LABELS)
        outside = GaugeMetricFamily(
            "sublet_card_outside_mib", "Memory used by nobody whom the agent prepared", labels=_CARD_LABELS
        )
        uses = {use.card: use for use in self._engine.uses}
        for card in (self._engine.cards or {}).values():
            labels = _labels(card)
            memory.add_metric(labels, card.memory_mib or 0)
            lost.add_metric(labels, card.health is HealthState.LOST)
            if (use := uses.get(card.id)) is not None:
                used.add_metric(labels, use.used_mib)
                outside.add_metric(labels, use.outside_mib)
        yield from (memory, lost, used, outside)

    def _grants(self) -> Iterator[Metric]:
        promised = GaugeMetricFamily(
            "sublet_grant_memory_mib",
            "Memory promised to a container",
            labels=(*_CARD_LABELS, "namespace", "pod", "container"),
        )
        cards = self._engine.cards or {}
        for grant in self._engine.entry.grants if self._engine.entry else ():
            if (card := cards.get(grant.grant.card)) is not None:
                labels = (*_labels(card), grant.pod.namespace, grant.pod.name, grant.container)
                promised.add_metric(labels, grant.grant.memory_mib or 0)
        yield promised


def _labels(card: Card) -> tuple[str, ...]:
    return (card.id, str(card.index), card.pci or "", card.model)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family
