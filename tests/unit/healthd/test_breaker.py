"""The breaker: how much automation may take out, and what happens to what it holds back."""

from sublet_healthd.core.breaker import Fleet, asked, closed, due_ms, half_opened, opened, returned
from sublet_healthd.core.event import Acted, BreakerActed, BreakerChanged
from sublet_healthd.core.fold import Manual
from sublet_healthd.core.policy import Limits

from sublet.model.health import Breaker, BreakerState, Mode, Signal, SignalKind, Taken
from sublet.model.ids import CardId, NodeName
from tests.unit.healthd.words import Clocked, ms

LIMITS = Limits()
LARGE = Fleet(cards=100, pool=100)
S = 1_000


def want(card: int, at_s: float, *, node: int | None = None, reason: str = "", model: str = "") -> Taken:
    """By default each card sits in a node of its own and has a fault of its own."""
    return Taken(
        node=NodeName(f"n{card if node is None else node}"),
        card=CardId(f"C{card}"),
        reason=reason or f"xid:{card}",
        model=model,
        at_ms=round(at_s * S),
    )


def all_of(
    *wanted: Taken, fleet: Fleet = LARGE, breaker: Breaker | None = None
) -> tuple[Breaker, list[bool]]:
    now, answers = breaker or Breaker(), []
    for one in wanted:
        now, allowed = asked(now, LIMITS, fleet, one)
        answers.append(allowed)
    return now, answers


def test_a_tenth_of_the_fleet_may_go_within_ten_minutes_and_the_next_opens_it() -> None:
    breaker, answers = all_of(*(want(n, n) for n in range(11)))
    assert answers == [True] * 10 + [False]
    assert (breaker.state, breaker.since_ms) == (BreakerState.OPEN, 10 * S)
    assert breaker.why == "11 of 100 cards of the fleet within 600 s, limit 10"


def test_the_window_slides() -> None:
    breaker, answers = all_of(*(want(n, n * 61) for n in range(30)))
    assert all(answers)
    assert len(breaker.taken) == 10


def test_two_cards_may_go_in_a_fleet_however_small() -> None:
    assert all_of(want(0, 0), want(1, 1), want(2, 2), fleet=Fleet(cards=4, pool=4))[1] == [True, True, False]


def test_the_cards_of_one_node_may_go_all_together() -> None:
    eight = [want(n, 0, node=1, reason="sxid:22003") for n in range(8)]
    assert all(all_of(*eight, fleet=Fleet(cards=16, pool=16))[1])


def test_a_third_of_a_model_is_a_limit_of_its_own() -> None:
    pool = Fleet(cards=1_000, pool=10)
    wanted = [want(n, n, model="B200") for n in range(4)]
    breaker, answers = all_of(*wanted, fleet=pool)
    assert answers == [True, True, True, False]
    assert breaker.why.startswith("4 of 10 cards of model B200")


def test_one_code_on_three_nodes_within_two_minutes_opens_it_and_later_does_not() -> None:
    quick = [want(n, n * 50, reason="xid:119") for n in range(3)]
    assert all_of(*quick)[1] == [True, True, False]
    slow = [want(n, n * 70, reason="xid:119") for n in range(3)]
    assert all_of(*slow)[1] == [True, True, True]


def test_a_card_that_came_back_counts_no_longer() -> None:
    breaker, _ = all_of(want(0, 0), want(1, 1), fleet=Fleet(cards=4, pool=4))
    breaker = returned(breaker, (NodeName("n0"), CardId("C0")))
    assert asked(breaker, LIMITS, Fleet(cards=4, pool=4), want(2, 2))[1]


def test_an_open_breaker_says_no_to_everything_until_somebody_closes_it() -> None:
    breaker = opened(Breaker(), why="by hand", at_ms=0, by="ada")
    assert all_of(want(1, 90_000), breaker=breaker)[1] == [False]
    assert all_of(want(1, 90_000), breaker=closed(at_ms=0, by="ada"))[1] == [True]


def test_a_half_open_one_lets_one_card_out_at_a_time() -> None:
    breaker = half_opened(Breaker(), at_ms=0, by="ada")
    breaker, answers = all_of(want(1, 1), want(2, 2), want(3, 121), breaker=breaker)
    assert answers == [True, False, True]
    assert due_ms(breaker, LIMITS, waiting=True) == 241 * S
    assert due_ms(breaker, LIMITS, waiting=False) == 600 * S


# -- in the judge of the fleet


def fleet(cards: int, *, mode: Mode = Mode.ENFORCE) -> Clocked:
    judge = Clocked(mode=mode)
    judge.at(0, *(told("card", n, 0) for n in range(cards)))
    return judge


def told(kind: str, card: int, second: float, *, code: int = 0) -> Signal:
    return Signal(
        node=NodeName(f"n{card}"),
        card=CardId(f"C{card}"),
        kind=SignalKind(kind),
        code=code,
        at_ms=ms(second),
    )


def taking(judge: Clocked) -> list[int]:
    """Numbers of the cards that are ill and take shares all the same."""
    verdicts = [state.verdict for state in judge.engine.cards.values() if state.verdict]
    return sorted(int(one.card[1:]) for one in verdicts if one.reasons and one.schedulable)


def test_what_is_held_back_is_judged_from_what_is_when_it_closes() -> None:
    judge = fleet(5)
    judge.at(1, *(told("xid", n, 1, code=code) for n, code in enumerate((48, 62, 95, 79))))
    assert taking(judge) == [2, 3]
    judge.at(50, told("reset", 2, 50))
    judge.at(700, BreakerActed(what="breaker_close", by="ada"))
    assert taking(judge) == []
    assert judge.engine.breaker.state is BreakerState.CLOSED
    assert len([one for one in judge.transitions if one[1] == "C2"]) == 3  # condemned, recovering, healthy


def test_a_trial_lets_them_out_one_by_one_and_ends_by_itself() -> None:
    judge = fleet(40)
    judge.at(1, *(told("xid", n, 1, code=119) for n in range(5)))
    assert taking(judge) == [2, 3, 4]
    judge.at(100, BreakerActed(what="breaker_half_open", by="ada"))
    assert taking(judge) == [3, 4]
    judge.at(219)
    assert taking(judge) == [3, 4]
    judge.at(220)
    assert taking(judge) == [4]
    judge.at(340)
    assert taking(judge) == []
    changes = judge.at(700)
    assert any(isinstance(one, BreakerChanged) for one in changes)
    assert judge.engine.breaker.state is BreakerState.CLOSED


def test_a_person_puts_a_card_aside_whatever_the_breaker_says() -> None:
    judge = fleet(1)
    judge.at(1, BreakerActed(what="breaker_open", by="ada"))
    judge.at(2, told("xid", 0, 2, code=48))
    assert taking(judge) == [0]
    key = (NodeName("n0"), CardId("C0"))
    manual = Manual(what="hold", by="ada", at_ms=ms(3))
    judge.at(3, Acted(node=key[0], card=key[1], manual=manual))
    assert taking(judge) == []


def test_where_nothing_is_done_the_breaker_is_not_asked() -> None:
    judge = fleet(10, mode=Mode.OBSERVE)
    judge.at(1, *(told("xid", n, 1, code=48) for n in range(10)))
    assert judge.engine.breaker == Breaker()
