"""What a scrape of the agent shows of grants."""

from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry
from sublet_agent.core import event as ev
from sublet_agent.core.observation import Process
from sublet_agent.shell.metrics import Scrape
from sublet_agent.shell.signals import SignalBox

from sublet.bus.layout import LAYOUT
from sublet.bus.memory import MemoryBus
from sublet.contract import metrics as names
from sublet.model.ids import CardId, PodUid
from tests.unit.agent.words import NODE, UID, A, B, cards, engine, grant, ledger, observed, verdict


def scraped(
    *grants: Any,
    processes: tuple[Process, ...] = (),
    verdicts: tuple[ev.VerdictSeen, ...] = (),
    judged_ms: int = 0,
) -> CollectorRegistry:
    one = engine()
    one.handle(cards(A, B), now=0)
    for told in verdicts:
        one.handle(told, now=0)
    one.handle(ev.LedgerSeen(ledger(*grants)), now=0)
    one.handle(observed(processes=processes), now=1)
    registry, bus = CollectorRegistry(), MemoryBus(LAYOUT)
    box = SignalBox(bus, node=NODE, boot_id="b1", epoch="e1", unix_ms=lambda: 1)
    registry.register(Scrape(one, box, bus, judged_ms=lambda: judged_ms, unix_ms=lambda: 100_000))
    return registry


def used(registry: CollectorRegistry, card: CardId, container: str) -> float | None:
    where = names.card_labels(NODE, card, index=(A, B).index(card))
    labels = dict(zip(names.GRANT_LABELS, (*where, "ns", "p", container), strict=True))
    return registry.get_sample_value(names.GRANT_USED_MIB, labels)


def process(card: CardId, pid: int, used_mib: int, uid: PodUid | None = UID) -> Process:
    return Process(card=card, pid=pid, used_mib=used_mib, uid=uid)


def test_memory_in_use_is_told_by_card_and_container() -> None:
    seen = (process(A, 1, 100), process(A, 2, 50), process(B, 1, 7), process(B, 9, 1_000, None))
    registry = scraped(grant(A), grant(B, container="side"), processes=seen)
    assert (used(registry, A, "main"), used(registry, B, "side")) == (150, 7)


def test_those_who_use_a_card_without_having_been_given_it_are_counted() -> None:
    seen = (process(A, 1, 100), process(A, 2, 50, None), process(A, 3, 1, None))
    registry = scraped(grant(A), processes=seen)
    where = dict(zip(names.CARD_LABELS, names.card_labels(NODE, A, index=0), strict=True))
    assert registry.get_sample_value(names.CARD_OUTSIDE_MIB, where) == 151
    assert registry.get_sample_value(names.CARD_OUTSIDE_USERS, where) == 3


def test_containers_of_one_pod_that_share_a_card_are_told_together() -> None:
    registry = scraped(grant(A), grant(A, container="side"), processes=(process(A, 1, 100),))
    assert used(registry, A, "") == 100
    assert used(registry, A, "main") is None


def age_s(registry: CollectorRegistry) -> float | None:
    where = dict(zip(names.CARD_LABELS, names.card_labels(NODE, A, index=0), strict=True))
    return registry.get_sample_value(names.VERDICT_AGE_SECONDS, where)


def test_a_verdict_is_as_old_as_the_last_word_of_whoever_judges() -> None:
    told = ev.VerdictSeen(replace(verdict(A, withheld=False).verdict, at_ms=10_000))
    assert age_s(scraped(verdicts=(told,))) == 90
    assert age_s(scraped(verdicts=(told,), judged_ms=95_000)) == 5
    assert age_s(scraped()) is None
