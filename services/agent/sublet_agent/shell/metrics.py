"""The agent's metrics; labels of cards are those of dcgm-exporter, so that the two can be joined."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sublet.bus.port import Bus
from sublet.contract import metrics as names
from sublet.model.health import HealthState
from sublet.model.ids import CardId, PodUid
from sublet_agent.core.engine import Engine
from sublet_agent.core.observation import Process
from sublet_agent.shell.signals import SignalBox


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._start = Histogram(
            names.START_SECONDS,
            "How long a PreStartContainer call took, by whether the container could start",
            ("allowed",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30),
            registry=registry,
        )

    def measured(self, seconds: float, allowed: bool) -> None:
        self._start.labels(str(allowed).lower()).observe(seconds)


class Scrape(Collector):
    """Read from the engine when asked, so that nothing has to be kept in step."""

    def __init__(
        self,
        engine: Engine,
        box: SignalBox,
        bus: Bus,
        *,
        judged_ms: Callable[[], int],
        unix_ms: Callable[[], int],
    ) -> None:
        """`judged_ms`: when healthd last said that its verdicts stand, 0 where it never did."""
        self._judged_ms = judged_ms
        self._unix_ms = unix_ms
        self._engine = engine
        self._box = box
        self._bus = bus

    def collect(self) -> Iterator[Metric]:
        yield from self._cards()
        yield from self._grants()
        yield from self._verdicts()
        engine = self._engine
        held = engine.held
        slots = GaugeMetricFamily(names.SLOTS, "Slots by state", labels=("state",))
        slots.add_metric(("healthy",), engine.slot_count - len(engine.withheld))
        slots.add_metric(("unhealthy",), len(engine.withheld))
        slots.add_metric(("held",), float("nan") if held is None else len(held))
        yield slots
        yield _gauge(names.REGISTERED, "1 while the kubelet follows the slots", engine.registered)
        yield _gauge(names.STARTS_WAITING, "Container starts that wait now", len(engine.pending))
        yield _gauge(names.BUS_CONNECTED, "1 while the bus is reachable", self._bus.state().connected)
        yield _gauge(names.SIGNALS_WAITING, "Signals not yet stored on the bus", self._box.waiting)
        yield CounterMetricFamily(names.SIGNALS_SENT, "Signals stored on the bus", self._box.sent)
        yield CounterMetricFamily(
            names.SIGNALS_FOLDED, "Signals that came too fast and were counted with others", self._box.folded
        )
        yield CounterMetricFamily(
            names.SIGNALS_DROPPED, "Signals given up because the box was full", self._box.dropped
        )

    def _cards(self) -> Iterator[Metric]:
        memory = GaugeMetricFamily(names.CARD_MEMORY_MIB, "Usable memory of a card", labels=names.CARD_LABELS)
        lost = GaugeMetricFamily(names.CARD_LOST, "1 while the driver misses it", labels=names.CARD_LABELS)
        used = GaugeMetricFamily(names.CARD_USED_MIB, "Memory of a card in use", labels=names.CARD_LABELS)
        outside = GaugeMetricFamily(
            names.CARD_OUTSIDE_MIB, "Memory of a card that others use", labels=names.CARD_LABELS
        )
        users = GaugeMetricFamily(
            names.CARD_OUTSIDE_USERS,
            "Pods and processes that use or see a card which was not given to them",
            labels=names.CARD_LABELS,
        )
        uses = {use.card: use for use in self._engine.uses}
        for card in (self._engine.cards or {}).values():
            labels = names.labels_of(self._engine.config.node, card)
            if card.memory_mib is not None:
                memory.add_metric(labels, card.memory_mib)
            lost.add_metric(labels, card.health is HealthState.LOST)
            parts = [uses[each.id] for each in card.offered if each.id in uses]
            if parts:
                used.add_metric(labels, sum(use.used_mib for use in parts))
                outside.add_metric(labels, sum(use.outside_mib for use in parts))
                users.add_metric(labels, len({who for use in parts for who in use.outside_by}))
        yield from (memory, lost, used, outside, users)

    def _verdicts(self) -> Iterator[Metric]:
        """A verdict stands as long as healthd says that it judges; of one that changed later, since then."""
        age = GaugeMetricFamily(
            names.VERDICT_AGE_SECONDS,
            "Since when nobody vouches for the verdict that the node acts on",
            labels=names.CARD_LABELS,
        )
        cards = self._engine.cards or {}
        for verdict in self._engine.verdicts.values():
            if (card := cards.get(verdict.card)) is not None:
                last_ms = max(verdict.at_ms, self._judged_ms())
                labels = names.labels_of(self._engine.config.node, card)
                age.add_metric(labels, max(0, self._unix_ms() - last_ms) / 1000)
        yield age

    def _grants(self) -> Iterator[Metric]:
        promised = GaugeMetricFamily(
            names.GRANT_MEMORY_MIB, "Memory that a container was granted", labels=names.GRANT_LABELS
        )
        used = GaugeMetricFamily(
            names.GRANT_USED_MIB,
            "Memory of a card that a pod uses; no container is named where several of the pod share the card",
            labels=names.GRANT_LABELS,
        )
        holders: dict[tuple[CardId, PodUid], set[tuple[str, ...]]] = defaultdict(set)
        engine = self._engine
        cards = engine.cards or {}
        for grant in engine.entry.grants if engine.entry else ():
            if (card := cards.get(grant.grant.card)) is not None:
                pod = (*names.labels_of(engine.config.node, card), grant.pod.namespace, grant.pod.name)
                promised.add_metric((*pod, grant.container), grant.grant.memory_mib or 0)
                holders[card.id, grant.uid].add((*pod, grant.container))
        use = used_by_pods(engine.seen.processes if engine.seen else ())
        for held, labels in holders.items():
            [one, *others] = labels
            used.add_metric((*one[:-1], "") if others else one, use[held])
        yield from (promised, used)


def used_by_pods(processes: Iterable[Process]) -> Counter[tuple[CardId, PodUid]]:
    """MiB that the processes of each pod use on each card."""
    used: Counter[tuple[CardId, PodUid]] = Counter()
    for process in processes:
        if process.uid is not None:
            used[process.card, process.uid] += process.used_mib
    return used


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family
