"""What is counted, and what is read from the engine's state when somebody scrapes."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sublet.bus.port import BusState
from sublet.model.ids import DecisionId
from sublet.model.placement import Placement
from sublet.model.reasons import Reason, Refusal, RefusalCode
from sublet_scheduler.core.effects import Announce, AnnounceCard, Answer, Report
from sublet_scheduler.core.records import Stage
from sublet_scheduler.core.state import State
from sublet_scheduler.shell.outbox import PublicEffect

log = structlog.get_logger()

CARD = ["Hostname", "gpu", "UUID", "modelName"]  # as dcgm-exporter names them, so that series join
GRANT = [*CARD, "namespace", "pod", "container"]
DECISION_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2)
RELEASE_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)
COMMITTED_MOST = 10_000
"""Commits whose release is awaited for its latency."""


class Metrics:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._committed: dict[DecisionId, float] = {}
        self.registry = CollectorRegistry()
        self._decisions = Counter(
            "sublet_decisions", "Answers to reviews.", ["outcome"], registry=self.registry
        )
        self._refusals = Counter(
            "sublet_refusals", "Pods refused at admission.", ["code"], registry=self.registry
        )
        self._decision_s = Histogram(
            "sublet_decision_seconds",
            "From a review's question to the engine's answer.",
            buckets=DECISION_S,
            registry=self.registry,
        )
        self._release_s = Histogram(
            "sublet_release_seconds",
            "From the grant in the ledger to the pod without our gate.",
            buckets=RELEASE_S,
            registry=self.registry,
        )
        self._conflicts = Counter(
            "sublet_ledger_conflicts", "Ledger writes that met a newer entry.", registry=self.registry
        )
        self._dropped = Counter(
            "sublet_dropped_messages",
            "Messages on the bus that nobody should have written.",
            ["bucket"],
            registry=self.registry,
        )
        self._claims = Counter(
            "sublet_claims", "What became of pods' claims.", ["what"], registry=self.registry
        )
        self._reports = Counter(
            "sublet_reports", "Things a person should know of.", ["code"], registry=self.registry
        )

    def answered(self, answer: Answer, took_s: float) -> None:
        outcome = answer.outcome
        held = "refused" if isinstance(outcome, Refusal) else "held"
        self._decisions.labels("placed" if isinstance(outcome, Placement) else held).inc()
        self._decision_s.observe(took_s)

    def refused(self, code: RefusalCode) -> None:
        self._refusals.labels(code).inc()

    def conflicted(self) -> None:
        self._conflicts.inc()

    def dropped(self, bucket: str) -> None:
        self._dropped.labels(bucket).inc()

    def told(self, fact: PublicEffect) -> None:
        """Count a public fact, and log it: what becomes of a claim after its decision is read here."""
        if isinstance(fact, Announce):
            self._claims.labels(fact.what).inc()
            self._time(fact)
            node = fact.placement.node if fact.placement else None
            log.info("claim.changed", what=fact.what, decision=fact.decision, pod=str(fact.ref), node=node)
        elif isinstance(fact, AnnounceCard):
            log.info("card.changed", what=fact.what, node=fact.node, card=fact.card)
        elif isinstance(fact, Report):
            self._reports.labels(fact.code).inc()
            about = str(fact.ref) if fact.ref else fact.node
            log.warning("report.made", code=fact.code, about=about, message=fact.message)

    def _time(self, fact: Announce) -> None:
        if fact.what == "committed" and len(self._committed) < COMMITTED_MOST:
            self._committed[fact.decision] = self._clock()
            return
        since = self._committed.pop(fact.decision, None)
        if since is not None and fact.what == "released":
            self._release_s.observe(self._clock() - since)


class StateCollector(Collector):
    """Cards, grants and waiting pods as the engine knows them at the moment of a scrape."""

    def __init__(self, state: State, bus: Callable[[], BusState], dropped: Callable[[], int]) -> None:
        self._state = state
        self._bus = bus
        self._dropped = dropped

    def collect(self) -> Iterable[Metric]:
        yield from self._cards()
        yield from self._grants()
        yield self._waiting()
        state = self._bus()
        up = GaugeMetricFamily("sublet_bus_connected", "Whether the bus is reachable.")
        up.add_metric([], float(state.connected))
        yield up
        lag = GaugeMetricFamily("sublet_bus_lag", "Messages that wait for a consumer.", labels=["consumer"])
        for consumer, waiting in sorted(state.lag.items()):
            lag.add_metric([consumer], waiting)
        yield lag
        lost = CounterMetricFamily("sublet_dropped_facts", "Public facts given up while the bus was away.")
        lost.add_metric([], self._dropped())
        yield lost

    def _cards(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily("sublet_card_memory_mib", "Usable memory of a card.", labels=CARD)
        promised = GaugeMetricFamily("sublet_card_promised_mib", "Memory promised of a card.", labels=CARD)
        outside = GaugeMetricFamily(
            "sublet_card_outside_mib", "Memory of a card that others use.", labels=CARD
        )
        core = GaugeMetricFamily(
            "sublet_card_promised_core_percent", "Compute promised of a card.", labels=CARD
        )
        shares = GaugeMetricFamily("sublet_card_shares", "Shares on a card.", labels=CARD)
        open_ = GaugeMetricFamily("sublet_card_open", "Whether a card takes new shares.", labels=CARD)
        for node in self._state.fleet.nodes.values():
            for one in node.by_index:
                labels = [node.name, str(one.card.index), one.card.id, one.card.model]
                if one.card.memory_mib is not None:
                    memory.add_metric(labels, one.card.memory_mib)
                promised.add_metric(labels, one.used_mib)
                outside.add_metric(labels, one.card.used_outside_mib)
                core.add_metric(labels, one.used_core)
                shares.add_metric(labels, one.shares)
                open_.add_metric(labels, float(one.open))
        return (memory, promised, outside, core, shares, open_)

    def _grants(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily("sublet_grant_mib", "Memory that a container was granted.", labels=GRANT)
        core = GaugeMetricFamily(
            "sublet_grant_core_percent", "Compute that a container was granted.", labels=GRANT
        )
        for record in self._state.records.values():
            cards = self._state.cards(record.node) if record.node else {}
            for one in record.grants:
                card = cards.get(one.grant.card)
                labels = [
                    record.node or "",
                    str(one.grant.index),
                    one.grant.card,
                    card.model if card else "",
                    record.ref.namespace,
                    record.ref.name,
                    one.container,
                ]
                memory.add_metric(labels, one.grant.memory_mib or 0)
                core.add_metric(labels, one.grant.core_percent)
        return (memory, core)

    def _waiting(self) -> Metric:
        """Each waiting pod counts once, under the reason that most cards or nodes give."""
        counts: Tally[Reason] = Tally()
        for record in self._state.records.values():
            if record.stage is Stage.WAITING and record.facts and record.facts.gated:
                reasons = record.no_room.reasons if record.no_room else {}
                counts[max(reasons, key=lambda one: reasons[one], default=Reason.UNDECIDED)] += 1
        waiting = GaugeMetricFamily("sublet_waiting_pods", "Pods behind our gate.", labels=["reason"])
        for reason, count in sorted(counts.items()):
            waiting.add_metric([reason], count)
        return waiting
