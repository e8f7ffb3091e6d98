"""Gauges of the fleet as a whole: the breaker, and how much automation has out."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sublet.contract import metrics as names
from sublet.model.health import BreakerState
from sublet_healthd.core.engine import Engine

FLEET = "fleet"


class FleetMetrics(Collector):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        breaker = GaugeMetricFamily(
            names.BREAKER_STATE, "1 for the state of the breaker", labels=["scope", "state"]
        )
        for state in BreakerState:
            breaker.add_metric([FLEET, state], float(self._engine.breaker.state is state))
        yield breaker
        out = GaugeMetricFamily(
            names.OUT_FRACTION,
            "Part of the cards that automation keeps out, of the fleet and of each model",
            labels=["pool"],
        )
        there: Counter[str] = Counter()
        gone: Counter[str] = Counter()
        for card in self._engine.cards.values():
            if card.verdict is None or card.facts.gone:
                continue
            taken = card.automatic and not card.verdict.schedulable
            for pool in (FLEET, card.facts.model):
                there[pool] += 1
                gone[pool] += taken
        for pool, cards in sorted(there.items()):
            out.add_metric([pool or "unknown"], gone[pool] / cards)
        yield out
