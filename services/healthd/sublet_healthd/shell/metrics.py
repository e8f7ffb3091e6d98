"""What Prometheus sees: counters as things happen, the rest read from the engine when it is asked for."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sublet.bus.port import Bus
from sublet.contract import metrics as names
from sublet.model.health import HealthState, Signal
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import Effect, Event
from sublet_healthd.core.judge import Transition
from sublet_healthd.shell.fleetmetrics import FleetMetrics

JUDGE_BUCKETS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class Metrics:
    def __init__(
        self, registry: CollectorRegistry, engine: Engine, bus: Bus, *, unix_ms: Callable[[], int]
    ) -> None:
        self._signals = Counter(
            names.CARD_SIGNALS,
            "Raw health observations by what they told",
            [*names.CARD_LABELS, "kind", "code", "source"],
            registry=registry,
        )
        self._transitions = Counter(
            names.CARD_TRANSITIONS,
            "Changes of a card's state or reasons",
            [*names.CARD_LABELS, "from", "to", "reason"],
            registry=registry,
        )
        self._ignored = Counter(
            names.BUS_IGNORED_MESSAGES,
            "Messages that nobody should have written, by stream or bucket",
            ["source"],
            registry=registry,
        )
        self._dropped = Counter(
            names.FACTS_DROPPED, "Public facts given up while the bus was away", registry=registry
        )
        self._evictions = Counter(
            names.EVICTIONS, "Tries to evict pods from condemned cards", ["outcome"], registry=registry
        )
        self._judged = Histogram(
            names.JUDGE_SECONDS,
            "Time that one event took the judge",
            buckets=JUDGE_BUCKETS_S,
            registry=registry,
        )
        self._engine = engine
        registry.register(_Cards(engine, bus, unix_ms))
        registry.register(FleetMetrics(engine))

    def observe(self, event: Event, effects: Sequence[Effect], took_s: float) -> None:
        self._judged.observe(took_s)
        if isinstance(event, Signal):
            code = str(event.code) if event.code else event.name or event.value
            where = _labels(self._engine, event.node, event.card, pci=event.pci, model=event.model)
            self._signals.labels(*where, event.kind, code, event.source).inc(max(event.count, 1))
        for effect in effects:
            if isinstance(effect, Transition):
                verdict = effect.verdict
                where = _labels(
                    self._engine, verdict.node, verdict.card, pci=verdict.pci, model=verdict.model
                )
                self._transitions.labels(*where, effect.previous, verdict.state, verdict.rule).inc()

    def ignored(self, source: str) -> None:
        self._ignored.labels(source).inc()

    def evicted(self, outcome: str) -> None:
        self._evictions.labels(outcome).inc()

    def dropped(self) -> None:
        self._dropped.inc()


class _Cards(Collector):
    """Gauges of the engine's present state; a reason that has been active goes back to 0."""

    def __init__(self, engine: Engine, bus: Bus, unix_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._bus = bus
        self._unix_ms = unix_ms
        self._reasons: dict[tuple[NodeName, CardId, str], tuple[str, ...]] = {}

    def collect(self) -> Iterator[Metric]:
        now_ms = self._unix_ms()
        state = GaugeMetricFamily(
            names.CARD_HEALTH_STATE, "1 for the state shown", labels=[*names.CARD_LABELS, "state"]
        )
        takes = GaugeMetricFamily(
            names.CARD_SCHEDULABLE, "1 if new shares may be placed", labels=names.CARD_LABELS
        )
        active = GaugeMetricFamily(
            names.CARD_REASON_ACTIVE, "1 while a reason is open", labels=[*names.CARD_LABELS, "kind", "code"]
        )
        since = GaugeMetricFamily(
            names.CARD_REASON_AGE_SECONDS,
            "Age of an open reason",
            labels=[*names.CARD_LABELS, "kind", "code"],
        )
        age = GaugeMetricFamily(
            names.CARD_SILENCE_SECONDS, "Since anybody last told of the card", labels=names.CARD_LABELS
        )
        for card in self._engine.cards.values():
            if card.verdict is None:
                continue
            told = card.verdict
            labels = _labels(self._engine, card.node, card.card, pci=told.pci, model=told.model)
            for one in HealthState:
                state.add_metric([*labels, one], float(card.verdict.state is one))
            takes.add_metric(labels, float(card.verdict.schedulable))
            for reason in card.verdict.reasons:
                code = reason.id.partition(":")[2]
                self._reasons[card.node, card.card, reason.id] = (*labels, reason.kind, code)
                since.add_metric([*labels, reason.kind, code], (now_ms - reason.first_seen_ms) / 1000)
            if card.fresh_ms:
                age.add_metric(labels, (now_ms - card.fresh_ms) / 1000)
        open_now = {
            (card.node, card.card, reason.id)
            for card in self._engine.cards.values()
            if card.verdict
            for reason in card.verdict.reasons
        }
        for key in [key for key in self._reasons if key[:2] not in self._engine.cards]:
            del self._reasons[key]  # of a partition that is forgotten
        for key, reason_labels in self._reasons.items():
            active.add_metric(reason_labels, float(key in open_now))
        yield from (state, takes, active, since, age, *self._of_bus())

    def _of_bus(self) -> Iterator[Metric]:
        told = self._bus.state()
        yield GaugeMetricFamily(
            names.BUS_CONNECTED, "1 while the bus is reachable", value=float(told.connected)
        )
        lag = GaugeMetricFamily(
            names.BUS_LAG_MESSAGES, "Messages that wait for a consumer", labels=["consumer"]
        )
        poisoned = CounterMetricFamily(
            names.BUS_POISONED_MESSAGES, "Messages given up for good", labels=["consumer"]
        )
        for consumer, waiting in told.lag.items():
            lag.add_metric([consumer], waiting)
        for consumer, given_up in told.poisoned.items():
            poisoned.add_metric([consumer], given_up)
        yield from (lag, poisoned)


def _labels(engine: Engine, node: NodeName, card: CardId | None, *, pci: str, model: str) -> tuple[str, ...]:
    """As its agent lists the card, else as far as it was told."""
    if card and (listed := engine.known.listed(node, card)):
        return names.labels_of(node, listed)
    return names.card_labels(node, card, pci=pci, model=model)
