"""Laws of partitions in healthd: what is told of a card is told of all its partitions, and only that."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from sublet.model.card import Inventory, Partition
from sublet.model.health import HealthState
from sublet.model.ids import CardId
from tests.unit.healthd.words import A, B, Clocked, inventory, person, sees, xid

PARTS = {CardId(f"MIG-{gi}"): gi for gi in (1, 2, 3)}
CODES = st.sampled_from([13, 48, 63, 79, 94, 95, 119])
OF_THE_CARD = st.one_of(
    st.tuples(st.just("xid"), CODES),
    st.tuples(st.just("level"), st.sampled_from(["true", "false"])),
    st.tuples(st.just("reset"), st.none()),
    st.tuples(st.sampled_from(["hold", "release", "ack"]), st.none()),
)
OF_ONE = st.tuples(st.just("one"), st.tuples(st.sampled_from(sorted(PARTS)), CODES))


def divided(second: float) -> Inventory:
    seen = inventory(second, A, B)
    parts = tuple(
        Partition(uuid=part, profile="1g.5gb", memory_mib=4864, gi=gi, ci=0) for part, gi in PARTS.items()
    )
    return replace(seen, cards=(replace(seen.cards[0], mig=True, partitions=parts), seen.cards[1]))


def tell(judge: Clocked, second: float, what: str, value: Any) -> None:
    match what:
        case "xid":
            judge.at(second, xid(second, value))
        case "level":
            judge.at(second, sees(second, "level", name="remap_failed", value=value))
        case "reset":
            judge.at(second, sees(second, "reset"))
        case "one":
            part, code = value
            judge.at(second, xid(second, code, gi=PARTS[part], ci=0))
        case _:
            judge.at(second, person(second, what))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(OF_THE_CARD, st.integers(1, 90)), max_size=12))
def test_partitions_are_as_their_card_is_while_nothing_names_one(told: list[Any]) -> None:
    judge = Clocked()
    judge.at(0, divided(0))
    second = 0.0
    for (what, value), pause in told:
        second += pause
        tell(judge, second, what, value)
        shown = {(judge.state(card), tuple(judge.reasons(card))) for card in (A, *PARTS)}
        assert len(shown) == 1


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.one_of(OF_THE_CARD, OF_ONE), st.integers(1, 90)), max_size=12))
def test_a_partition_is_never_better_than_its_card_and_no_other_card_hears_of_it(told: list[Any]) -> None:
    judge = Clocked()
    judge.at(0, divided(0))
    second = 0.0
    for (what, value), pause in told:
        second += pause
        tell(judge, second, what, value)
        for part in PARTS:
            assert set(judge.reasons(A)) <= set(judge.reasons(part))
            if not judge.verdict(A).schedulable:
                assert not judge.verdict(part).schedulable
        assert judge.state(B) is HealthState.HEALTHY
