"""What is counted, and what is read from the engine's state when somebody scrapes."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sublet.bus.port import BusState
from sublet.contract import metrics as names
from sublet.model.ids import DecisionId
from sublet.model.placement import Placement
from sublet.model.reasons import Reason, Refusal, RefusalCode
from sublet_scheduler.core.effects import Announce, AnnounceCard, Answer, PublicEffect, Report
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.records import Stage

log = structlog.get_logger()

DECISION_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2)
RELEASE_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)
COMMITTED_MOST = 10_000
"""Commits whose release is awaited for its latency."""


class Metrics:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._committed: dict[DecisionId, float] = {}
        self.registry = CollectorRegistry()
        self._decisions = Counter(names.DECISIONS, "Answers to reviews.", ["outcome"], registry=self.registry)
        self._refusals = Counter(
            names.REFUSALS, "Pods refused at admission.", ["code"], registry=self.registry
        )
        self._decision_s = Histogram(
            names.DECISION_SECONDS,
            "From a review's question to the engine's answer.",
            buckets=DECISION_S,
            registry=self.registry,
        )
        self._release_s = Histogram(
            names.RELEASE_SECONDS,
            "From the grant in the ledger to the pod without our gate.",
            buckets=RELEASE_S,
            registry=self.registry,
        )
        self._conflicts = Counter(
            names.LEDGER_CONFLICTS, "Ledger writes that met a newer entry.", registry=self.registry
        )
        self._dropped = Counter(
            names.BUS_IGNORED_MESSAGES,
            "Messages that nobody should have written, by stream or bucket.",
            ["source"],
            registry=self.registry,
        )
        self._claims = Counter(names.CLAIMS, "What became of pods' claims.", ["what"], registry=self.registry)
        self._reports = Counter(
            names.REPORTS, "Things a person should know of.", ["code"], registry=self.registry
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

    def __init__(self, engine: Engine, bus: Callable[[], BusState], dropped: Callable[[], int]) -> None:
        self._state = engine.state
        self._ballast = engine.ballast
        self._placeholders = engine.placeholders
        self._bus = bus
        self._dropped = dropped

    def collect(self) -> Iterable[Metric]:
        yield from self._cards()
        yield from self._grants()
        yield self._waiting()
        yield from self._kept_for_idle_cards()
        standing = GaugeMetricFamily(
            names.PLACEHOLDERS, "Pods that ask an autoscaler for nodes.", labels=["phase"]
        )
        phases = Tally(pod.phase for pod in self._placeholders.pods.values())
        for phase, count in sorted(phases.items()):
            standing.add_metric([phase], count)
        yield standing
        sought = CounterMetricFamily(names.PLACES_SOUGHT, "How often a place was sought for a pod.")
        sought.add_metric([], self._state.placer.tries)
        yield sought
        state = self._bus()
        up = GaugeMetricFamily(names.BUS_CONNECTED, "1 while the bus is reachable.")
        up.add_metric([], float(state.connected))
        yield up
        lag = GaugeMetricFamily(
            names.BUS_LAG_MESSAGES, "Messages that wait for a consumer.", labels=["consumer"]
        )
        for consumer, waiting in sorted(state.lag.items()):
            lag.add_metric([consumer], waiting)
        poisoned = CounterMetricFamily(
            names.BUS_POISONED_MESSAGES, "Messages given up for good.", labels=["consumer"]
        )
        for consumer, given_up in sorted(state.poisoned.items()):
            poisoned.add_metric([consumer], given_up)
        yield from (lag, poisoned)
        lost = CounterMetricFamily(names.FACTS_DROPPED, "Public facts given up while the bus was away.")
        lost.add_metric([], self._dropped())
        yield lost

    def _cards(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily(
            names.CARD_MEMORY_MIB, "Usable memory of a card.", labels=names.CARD_LABELS
        )
        promised = GaugeMetricFamily(
            names.CARD_PROMISED_MIB, "Memory promised of a card.", labels=names.CARD_LABELS
        )
        shareable = GaugeMetricFamily(
            names.CARD_SHAREABLE_MIB, "Memory that shares may have together.", labels=names.CARD_LABELS
        )
        shareable_core = GaugeMetricFamily(
            names.CARD_SHAREABLE_CORE_PERCENT,
            "Compute that shares may have together.",
            labels=names.CARD_LABELS,
        )
        outside = GaugeMetricFamily(
            names.CARD_OUTSIDE_MIB, "Memory of a card that others use.", labels=names.CARD_LABELS
        )
        core = GaugeMetricFamily(
            names.CARD_PROMISED_CORE_PERCENT, "Compute promised of a card.", labels=names.CARD_LABELS
        )
        shares = GaugeMetricFamily(names.CARD_SHARES, "Shares on a card.", labels=names.CARD_LABELS)
        open_ = GaugeMetricFamily(
            names.CARD_OPEN, "Whether a card takes new shares.", labels=names.CARD_LABELS
        )
        cards = GaugeMetricFamily(names.CARDS, "Cards of a node.", labels=["Hostname"])
        for node in self._state.fleet.nodes.values():
            cards.add_metric([node.name], len(node.by_index))
            for one in node.by_index:
                labels = names.labels_of(node.name, one.card)
                if one.card.memory_mib is not None:
                    memory.add_metric(labels, one.card.memory_mib)
                    shareable.add_metric(labels, one.total_mib)
                shareable_core.add_metric(labels, one.total_core)
                promised.add_metric(labels, one.used_mib)
                outside.add_metric(labels, one.card.used_outside_mib)
                core.add_metric(labels, one.used_core)
                shares.add_metric(labels, one.shares)
                open_.add_metric(labels, float(one.open))
        return (cards, memory, shareable, promised, outside, shareable_core, core, shares, open_)

    def _grants(self) -> Iterable[Metric]:
        memory = GaugeMetricFamily(
            names.GRANT_MEMORY_MIB, "Memory that a container was granted.", labels=names.GRANT_LABELS
        )
        core = GaugeMetricFamily(
            names.GRANT_CORE_PERCENT, "Compute that a container was granted.", labels=names.GRANT_LABELS
        )
        for record in self._state.records.values():
            if (node := record.node) is None:
                continue
            cards = self._state.cards(node)
            for one in record.grants:
                card = cards.get(one.grant.card)
                where = (
                    names.labels_of(node, card)
                    if card
                    else names.card_labels(node, one.grant.card, index=one.grant.index)
                )
                labels = (*where, record.ref.namespace, record.ref.name, one.container)
                memory.add_metric(labels, one.grant.memory_mib or 0)
                core.add_metric(labels, one.grant.core_percent)
        return (memory, core)

    def _kept_for_idle_cards(self) -> Iterable[Metric]:
        cpu = GaugeMetricFamily(
            names.BALLAST_CPU_CORES, "CPU that a node's ballast keeps for idle cards.", labels=["Hostname"]
        )
        memory = GaugeMetricFamily(
            names.BALLAST_MEMORY_BYTES,
            "Memory that a node's ballast keeps for idle cards.",
            labels=["Hostname"],
        )
        for node, pod in self._ballast.pods.items():
            if pod.ballast and pod.node:
                cpu.add_metric([node], pod.ballast.counted.cpu_milli / 1000)
                memory.add_metric([node], pod.ballast.counted.memory_bytes)
        return (cpu, memory)

    def _waiting(self) -> Metric:
        """Each waiting pod counts once, under the reason that most cards or nodes give."""
        counts: Tally[Reason] = Tally()
        for record in self._state.records.values():
            if record.stage is Stage.WAITING and record.facts and record.facts.gated:
                reasons = record.no_room.reasons if record.no_room else {}
                counts[max(reasons, key=lambda one: reasons[one], default=Reason.UNDECIDED)] += 1
        waiting = GaugeMetricFamily(names.WAITING_PODS, "Pods behind our gate.", labels=["reason"])
        for reason, count in sorted(counts.items()):
            waiting.add_metric([reason], count)
        return waiting
