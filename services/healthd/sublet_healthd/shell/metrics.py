"""What Prometheus sees: counters as things happen, the rest read from the engine when it is asked for."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sublet.bus.port import Bus
from sublet.model.health import HealthState, Signal, Verdict
from sublet_healthd.core.card import CardState
from sublet_healthd.core.engine import Effect, Engine, Event
from sublet_healthd.core.judge import Transition

CARD = ["node", "uuid", "gpu", "pci_bus_id", "model"]  # dcgm-exporter's join labels in lower case


class Metrics:
    def __init__(
        self, registry: CollectorRegistry, engine: Engine, bus: Bus, *, unix_ms: Callable[[], int]
    ) -> None:
        self._signals = Counter(
            "sublet_gpu_signals",
            "Raw health observations by what they told",
            ["node", "uuid", "kind", "code", "source"],
            registry=registry,
        )
        self._transitions = Counter(
            "sublet_gpu_transitions",
            "Changes of a card's state or reasons",
            ["node", "uuid", "from", "to", "reason"],
            registry=registry,
        )
        self._suppressed = Counter(
            "sublet_healthd_signals_suppressed",
            "Messages and transitions that were left out, and why",
            ["why"],
            registry=registry,
        )
        registry.register(_Cards(engine, bus, unix_ms))

    def observe(self, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, Signal):
            code = str(event.code) if event.code else event.name or event.value
            card = event.card or ""
            self._signals.labels(event.node, card, event.kind, code, event.source).inc(max(event.count, 1))
        for effect in effects:
            if isinstance(effect, Transition):
                verdict = effect.verdict
                self._transitions.labels(
                    verdict.node, verdict.card, effect.previous, verdict.state, verdict.rule
                ).inc()

    def suppressed(self, why: str) -> None:
        self._suppressed.labels(why).inc()


class _Cards(Collector):
    """Gauges of the engine's present state; a reason that has been active goes back to 0."""

    def __init__(self, engine: Engine, bus: Bus, unix_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._bus = bus
        self._unix_ms = unix_ms
        self._reasons: dict[tuple[str, str, str], list[str]] = {}

    def collect(self) -> Iterator[Metric]:
        now_ms = self._unix_ms()
        state = GaugeMetricFamily("sublet_gpu_health_state", "1 for the state shown", labels=[*CARD, "state"])
        takes = GaugeMetricFamily("sublet_gpu_schedulable", "1 if new shares may be placed", labels=CARD)
        active = GaugeMetricFamily(
            "sublet_gpu_reason_active", "1 while a reason is open", labels=[*CARD, "kind", "code"]
        )
        since = GaugeMetricFamily(
            "sublet_gpu_reason_since_seconds", "Age of an open reason", labels=[*CARD, "kind", "code"]
        )
        age = GaugeMetricFamily(
            "sublet_healthd_verdict_age_seconds", "Since anybody last told of the card", labels=CARD
        )
        for card in self._engine.cards.values():
            if card.verdict is None:
                continue
            labels = self._labels(card, card.verdict)
            for one in HealthState:
                state.add_metric([*labels, one], float(card.verdict.state is one))
            takes.add_metric(labels, float(card.verdict.schedulable))
            for reason in card.verdict.reasons:
                code = reason.id.partition(":")[2]
                self._reasons[card.node, card.card, reason.id] = [*labels, reason.kind, code]
                since.add_metric([*labels, reason.kind, code], (now_ms - reason.first_seen_ms) / 1000)
            if card.fresh_ms:
                age.add_metric(labels, (now_ms - card.fresh_ms) / 1000)
        open_now = {
            (card.node, card.card, reason.id)
            for card in self._engine.cards.values()
            if card.verdict
            for reason in card.verdict.reasons
        }
        for key, reason_labels in self._reasons.items():
            active.add_metric(reason_labels, float(key in open_now))
        yield from (state, takes, active, since, age, *self._of_bus())

    def _labels(self, card: CardState, verdict: Verdict) -> list[str]:
        listed = self._engine.listed(card.node, card.card)
        return [card.node, card.card, str(listed.index) if listed else "", verdict.pci, verdict.model]

    def _of_bus(self) -> Iterator[Metric]:
        told = self._bus.state()
        yield GaugeMetricFamily(
            "sublet_bus_connected", "1 while the bus answers", value=float(told.connected)
        )
        lag = GaugeMetricFamily("sublet_bus_lag_messages", "Messages that wait", labels=["consumer"])
        poisoned = CounterMetricFamily(
            "sublet_bus_poisoned_messages", "Messages that were given up", labels=["consumer"]
        )
        for consumer, waiting in told.lag.items():
            lag.add_metric([consumer], waiting)
        for consumer, given_up in told.poisoned.items():
            poisoned.add_metric([consumer], given_up)
        yield from (lag, poisoned)
