"""What the agent tells of what it sees: each fault once, each level as it changes, a flood by its number."""

import tracemalloc
from collections import Counter
from itertools import cycle

import pytest
from sublet_agent.core.bucket import BURST, KINDS, Bucket, Held
from sublet_agent.core.twins import Twins
from sublet_agent.shell.intake import MOST_CARDS, Intake

from sublet.cards.port import Observation
from sublet.model.health import SignalKind
from sublet.model.ids import CardId
from sublet.model.level import LEFTOVER, SUPPRESSED
from tests.unit.agent.words import A, B

MEASURED_FROM = 540_000
NVML, KMSG = "nvml", "kmsg"


def xid(code: int, card: CardId | None = A, *, source: str = NVML, raw: str = "") -> Observation:
    return Observation(card=card, kind=SignalKind.XID, code=code, source=source, raw=raw)


def level(name: str, value: str, card: CardId = A) -> Observation:
    return Observation(card=card, kind=SignalKind.LEVEL, name=name, value=value)


class Tap:
    """An intake in virtual time; collects what it tells."""

    def __init__(self, *busy: CardId) -> None:
        self.intake = Intake(lambda card: card in busy)
        self.now_s = 0.0
        self.told: list[Held[Observation]] = []

    def put(self, *observations: Observation, every_s: float = 0) -> None:
        for one in observations:
            at_ms = round(self.now_s * 1000)
            if (held := self.intake.take(one, at_ms=at_ms, now_s=self.now_s)) is not None:
                self.told.append(held)
            self.now_s += every_s
            self.look()

    def look(self) -> None:
        if (due_s := self.intake.due_s()) is not None and due_s <= self.now_s:
            self.told += self.intake.due(self.now_s)

    def wait(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while (due_s := self.intake.due_s()) is not None and due_s <= until_s:
            self.now_s = max(self.now_s, due_s)
            self.look()
        self.now_s = until_s

    def codes(self) -> list[tuple[int, int]]:
        return [(held.value.code, held.count) for held in self.told]


def test_a_burst_is_told_one_by_one() -> None:
    tap = Tap()
    tap.put(*(xid(31) for _ in range(BURST)))
    assert tap.codes() == [(31, 1)] * BURST


def test_what_comes_too_fast_is_told_later_with_its_number() -> None:
    tap = Tap()
    tap.put(*(xid(31) for _ in range(BURST + 7)))
    tap.wait(10)
    assert tap.codes() == [*[(31, 1)] * BURST, (31, 7)]
    assert tap.intake.folded == 6


def test_one_card_in_a_flood_slows_no_other_card() -> None:
    tap = Tap()
    tap.put(*(xid(31) for _ in range(BURST * 3)))
    tap.put(xid(79, B))
    assert tap.told[-1].value == xid(79, B)


def test_what_was_seen_last_is_told_last() -> None:
    tap = Tap()
    tap.put(*(xid(31) for _ in range(BURST)))
    reset = Observation(card=A, kind=SignalKind.RESET)
    tap.put(xid(48), reset, xid(48))
    tap.wait(10)
    assert [held.value for held in tap.told[BURST:]] == [reset, xid(48)]


def test_things_beyond_the_kinds_that_wait_are_told_by_their_number() -> None:
    tap = Tap()
    tap.put(*(xid(code) for code in range(BURST + KINDS + 5)))
    tap.wait(60)
    assert len(tap.told) == BURST + KINDS + 1
    assert (tap.told[-1].value.name, tap.told[-1].count) == (SUPPRESSED, 5)


def test_names_beyond_any_nodes_cards_share_one_bucket() -> None:
    tap = Tap()
    tap.put(*(xid(31, CardId(f"GPU-{number}")) for number in range(MOST_CARDS * 4)))
    tap.wait(3600)
    assert sum(held.count for held in tap.told) == MOST_CARDS * 4


@pytest.mark.timeout(30)  # 600,000 of them, on a machine that may be busy
def test_a_flood_of_ten_thousand_a_second_for_a_minute_is_counted_in_little_memory() -> None:
    """The grave one of each card comes through within seconds, and every single one is counted."""
    tap, cards = Tap(), [CardId(f"GPU-{number}") for number in range(8)]
    kinds = [xid(code, card) for card in cards for code in (13, 31, 43)]
    flood, grave = cycle(kinds), {600 * number: xid(79, card) for number, card in enumerate(cards)}
    told, delay_s = Counter[tuple[CardId | None, int]](), 0.0
    for number in range(600_000):
        if number == MEASURED_FROM:
            tracemalloc.start()
        now_s = number / 10_000
        one = grave.get(number) or next(flood)
        held = tap.intake.take(one, at_ms=number // 10, now_s=now_s)
        if number % 1_000 == 0 or held is not None:
            due = [*tap.intake.due(now_s), *([held] if held else [])]
            told.update({(each.value.card, each.value.code): each.count for each in due})
            graves = [each for each in due if each.value.code == 79]
            delay_s = max([delay_s, *(now_s - each.at_ms / 1000 for each in graves)])
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    told.update({(each.value.card, each.value.code): each.count for each in tap.intake.due(3_600)})
    assert sum(told.values()) == 600_000
    assert [told[card, 79] for card in cards] == [1] * 8
    assert delay_s < 3
    assert grown < 64 * 1024


def test_a_fault_told_by_driver_and_kernel_is_one() -> None:
    tap = Tap()
    tap.put(xid(79), xid(79, source=KMSG, raw="NVRM: Xid"), every_s=1)
    tap.put(xid(31, source=KMSG), xid(31), every_s=1)
    assert tap.codes() == [(79, 1), (31, 1)]


def test_a_fault_that_the_other_way_tells_later_than_five_seconds_is_another() -> None:
    tap = Tap()
    tap.put(xid(31), xid(31, source=KMSG), every_s=5)
    assert tap.codes() == [(31, 1), (31, 1)]


def test_each_of_two_faults_has_its_own_twin() -> None:
    tap = Tap()
    tap.put(xid(31), xid(31), xid(31, source=KMSG), xid(31, source=KMSG), xid(31, source=KMSG))
    assert sum(count for _, count in tap.codes()) == 3


@pytest.mark.parametrize("code", [74, 149, 154])
def test_a_line_that_says_what_to_do_is_passed_on_even_as_the_second(code: int) -> None:
    tap = Tap()
    tap.put(xid(code), xid(code, source=KMSG, raw="NVRM: Xid ... Link 08"))
    assert [held.value.source for held in tap.told] == [NVML, KMSG]


def test_the_same_code_of_another_instance_is_another_fault() -> None:
    twins = Twins()
    told = [("nvml", 1), ("kmsg", 1), ("kmsg", 2), ("nvml", None)]
    assert [twins.news(A, 94, way, text="", count=1, at_ms=0, gi=gi) for way, gi in told] == [1, 0, 1, 1]


def test_other_ways_than_these_two_have_no_twins() -> None:
    assert [Twins().news(A, 31, way, text="", count=1, at_ms=0) for way in ("file", "file")] == [1, 1]


def test_a_level_is_told_when_it_changes() -> None:
    tap = Tap()
    tap.put(level("power_brake", "true"), level("power_brake", "true"), level("power_brake", "false"))
    assert [held.value.value for held in tap.told] == ["true", "false"]
    assert [one.value for one in tap.intake.levels()] == ["false"]


def test_what_lies_in_a_busy_cards_memory_is_no_leftover() -> None:
    tap = Tap(B)
    for card in (A, B):
        tap.put(level(LEFTOVER, "512", card))
    assert [held.value.value for held in tap.told] == ["512", "0"]


def test_memory_that_stays_when_a_card_falls_idle_becomes_a_leftover() -> None:
    busy = {A}
    intake = Intake(lambda card: card in busy)
    told = [intake.take(level(LEFTOVER, "512"), at_ms=0, now_s=0)]
    busy.clear()
    told.append(intake.take(level(LEFTOVER, "512"), at_ms=0, now_s=1))
    assert [held and held.value.value for held in told] == ["0", "512"]


def test_equal_numbers_of_what_was_left_out_are_each_told() -> None:
    tap = Tap()
    tap.put(level(SUPPRESSED, "5"), level(SUPPRESSED, "5"))
    assert len(tap.told) == 2


def test_a_bucket_fills_up_again() -> None:
    bucket: Bucket[str] = Bucket(str)
    for _ in range(2 * BURST):
        bucket.offer("a", "a", count=1, at_ms=0, now_s=0)
    list(bucket.due(100))
    told = [bucket.offer("a", "a", count=1, at_ms=0, now_s=100) for _ in range(BURST)]
    assert sum(held is not None for held in told) == BURST - 1
