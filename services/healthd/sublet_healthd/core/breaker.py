"""Limits how much automation takes out: many cards at once are an error of policy or of the whole.

It only ever says no to taking out. What it holds back is judged anew from the present when it closes.
"""

from dataclasses import dataclass, replace

from sublet.model.health import Breaker, BreakerState, Taken
from sublet.model.ids import CardId, NodeName
from sublet_healthd.core.policy import Limits

Key = tuple[NodeName, CardId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How many cards there are, in all and of the model in question."""

    cards: int
    pool: int


def asked(breaker: Breaker, limits: Limits, fleet: Fleet, wanted: Taken) -> tuple[Breaker, bool]:
    """Whether `wanted` may be taken out now, and the breaker after that question."""
    now = _forgotten(breaker, limits, wanted.at_ms)
    match now.state:
        case BreakerState.OPEN:
            return now, False
        case BreakerState.HALF_OPEN:
            tried = any(one.at_ms > wanted.at_ms - limits.nodes_window_ms for one in now.taken)
            return (now, False) if tried else (_with(now, wanted), True)
        case BreakerState.CLOSED:
            if why := too_many(limits, fleet, now.taken, wanted):
                return opened(now, why=why, at_ms=wanted.at_ms), False
            return _with(now, wanted), True


def returned(breaker: Breaker, key: Key) -> Breaker:
    """A card that came back no longer counts against the limits."""
    left = tuple(one for one in breaker.taken if (one.node, one.card) != key)
    return breaker if len(left) == len(breaker.taken) else replace(breaker, taken=left)


def opened(breaker: Breaker, *, why: str, at_ms: int, by: str = "") -> Breaker:
    return replace(breaker, state=BreakerState.OPEN, why=why, by=by, since_ms=at_ms)


def half_opened(breaker: Breaker, *, at_ms: int, by: str) -> Breaker:
    """Let one card out at a time and, if all goes well, close after the window."""
    return Breaker(state=BreakerState.HALF_OPEN, why=breaker.why, by=by, since_ms=at_ms)


def closed(*, at_ms: int, by: str = "") -> Breaker:
    """Count from nothing: whoever closes it has looked at what went before."""
    return Breaker(by=by, since_ms=at_ms)


def trial_ends_ms(breaker: Breaker, limits: Limits) -> int:
    return breaker.since_ms + limits.window_ms


def due_ms(breaker: Breaker, limits: Limits, *, waiting: bool) -> int | None:
    """When a trial ends, or the next of the cards that wait may be tried."""
    if breaker.state is not BreakerState.HALF_OPEN:
        return None
    ends_ms = trial_ends_ms(breaker, limits)
    if not waiting or not breaker.taken:
        return ends_ms
    return min(ends_ms, max(one.at_ms for one in breaker.taken) + limits.nodes_window_ms)


def too_many(limits: Limits, fleet: Fleet, taken: tuple[Taken, ...], wanted: Taken) -> str:
    """What is wrong with taking out one more, or nothing."""
    since_ms = wanted.at_ms - limits.nodes_window_ms
    hit = {one.node for one in (*taken, wanted) if one.reason == wanted.reason and one.at_ms > since_ms}
    if len(hit) >= limits.nodes:
        return f"{wanted.reason} hit {len(hit)} nodes within {limits.nodes_window_ms // 1000} s"
    pool = tuple(one for one in taken if one.model == wanted.model)
    within_s = limits.window_ms // 1000
    for name, out, total, percent in (
        ("the fleet", taken, fleet.cards, limits.fleet_percent),
        (f"model {wanted.model or 'unknown'}", pool, fleet.pool, limits.pool_percent),
    ):
        cards = {(one.node, one.card) for one in (*out, wanted)}
        most = max(limits.cards, int(total * percent / 100))
        if len(cards) > most and len({node for node, _ in cards}) > 1:
            return f"{len(cards)} of {total} cards of {name} within {within_s} s, limit {most}"
    return ""


def _with(breaker: Breaker, wanted: Taken) -> Breaker:
    return replace(breaker, taken=(*breaker.taken, wanted))


def _forgotten(breaker: Breaker, limits: Limits, now_ms: int) -> Breaker:
    kept = tuple(one for one in breaker.taken if one.at_ms > now_ms - limits.window_ms)
    return breaker if len(kept) == len(breaker.taken) else replace(breaker, taken=kept)
