"""Whatever is delayed, lost, repeated, paused or killed: what is released or runs is in the ledger, no card
is promised beyond what it has, and when nothing goes wrong any more nothing is stuck."""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.property.chaos.history import History

seeds = st.integers(0, 2**32 - 1)
# a history is not a list of steps, so a failing one cannot be made smaller
random_histories = settings(
    max_examples=40,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.timeout(120)
@random_histories
@given(seeds)
def test_one_scheduler_that_is_killed_and_paused_keeps_the_laws(seed: int) -> None:
    History(seed, schedulers_most=1, may_lose_data=False).run(800)


@pytest.mark.timeout(120)
@random_histories
@given(seeds)
def test_two_schedulers_that_know_nothing_of_each_other_keep_the_laws(seed: int) -> None:
    History(seed, schedulers_most=2, may_lose_data=False).run(800)


@pytest.mark.timeout(120)
@random_histories
@given(seeds)
def test_the_laws_hold_though_the_ledger_is_lost_with_its_bucket(seed: int) -> None:
    History(seed, schedulers_most=2, may_lose_data=True).run(800)
