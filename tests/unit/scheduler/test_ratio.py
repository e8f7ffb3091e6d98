"""The arithmetic of what is kept for idle cards, with the examples of Volcano's documents and tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet_scheduler.core.ratio import LEAST, Ratio, ballast_size, ratio_for
from sublet_scheduler.core.size import Size

G = 10**9


def ratio(cores: int, gigabytes: int, **selector: str) -> Ratio:
    return Ratio(selector=selector, cpu_milli=cores * 1000, memory_bytes=gigabytes * G)


def size(cores: int, gigabytes: int) -> Size:
    return Size(cpu_milli=cores * 1000, memory_bytes=gigabytes * G)


def passes(pod: Size, *, free: Size, idle: int, kept: Ratio) -> bool:
    """Whether kube-scheduler finds room for a pod without cards beside the ballast."""
    ballast = ballast_size(kept, idle_cards=idle, free=free)
    left = Size(
        cpu_milli=free.cpu_milli - ballast.cpu_milli, memory_bytes=free.memory_bytes - ballast.memory_bytes
    )
    return pod.within(left)


def test_of_two_jobs_the_first_leaves_enough_and_the_second_does_not() -> None:
    """74 cores, 128 GB and 8 cards at 1:8:8: the first leaves 66 cores for 64, the second would leave 58."""
    kept = ratio(8, 8)
    assert passes(size(8, 8), free=size(74, 128), idle=8, kept=kept)
    assert not passes(size(8, 8), free=size(66, 120), idle=8, kept=kept)


def test_a_pod_that_leaves_exactly_the_ratio_passes() -> None:
    assert passes(size(10, 10), free=size(74, 74), idle=8, kept=ratio(8, 8))


@pytest.mark.parametrize(
    ("free", "idle", "cores", "expected"), [(30, 6, 4, True), (30, 6, 10, False), (26, 2, 10, True)]
)
def test_a_pod_passes_where_it_leaves_four_to_one(free: int, idle: int, cores: int, expected: bool) -> None:
    assert passes(size(cores, cores), free=size(free, free), idle=idle, kept=ratio(4, 4)) is expected


def test_a_pod_with_a_card_finds_the_room_that_was_kept_for_it() -> None:
    """30 cores and 6 cards at 1:4: ten cores and a card leave 20 cores for five cards."""
    after = ballast_size(ratio(4, 4), idle_cards=5, free=size(20, 20))
    assert after == size(20, 20)


def test_more_than_is_free_is_never_kept() -> None:
    assert ballast_size(ratio(8, 8), idle_cards=8, free=size(50, 10)) == size(50, 10)


def test_a_ballast_that_keeps_nothing_still_asks_for_the_least() -> None:
    assert ballast_size(ratio(8, 8), idle_cards=0, free=size(50, 10)) == LEAST
    assert ballast_size(ratio(8, 8), idle_cards=8, free=size(-1, -1)) == LEAST


def test_the_first_pool_that_a_node_is_in_counts() -> None:
    first, second, rest = ratio(1, 1, pool="a"), ratio(2, 2, pool="a", zone="z"), ratio(3, 3)
    assert ratio_for({"pool": "a", "zone": "z"}, [first, second, rest]) is first
    assert ratio_for({"zone": "z"}, [first, second, rest]) is rest
    assert ratio_for({"zone": "z"}, [first, second]) is None


@given(
    free=st.integers(0, 200),
    idle=st.integers(0, 16),
    per_card=st.integers(0, 32),
    asked=st.integers(1, 100),
)
def test_whoever_passes_leaves_enough_and_whoever_leaves_enough_passes(
    free: int, idle: int, per_card: int, asked: int
) -> None:
    kept = Ratio(selector={}, cpu_milli=per_card, memory_bytes=0)
    ballast = ballast_size(kept, idle_cards=idle, free=Size(cpu_milli=free, memory_bytes=0))
    fits = asked <= free - ballast.cpu_milli
    if ballast != LEAST:
        assert fits is (free - asked >= idle * per_card)
