"""A judge that is killed over and over comes to the verdicts of one that lived; laws of a fleet."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sublet_healthd.core.annotation import read_annotation, write_annotation
from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import (
    Acted,
    BreakerActed,
    BreakerChanged,
    BreakerRestored,
    CaughtUp,
    Event,
    Restored,
    Told,
)
from sublet_healthd.core.fold import Manual
from sublet_healthd.core.judge import Refreshed, Tick, Transition
from sublet_healthd.core.policyfile import shipped_policy

from sublet.model.health import HealthState, Signal, SignalKind, Verdict
from sublet.model.ids import CardId, NodeName
from sublet.wire.health import breaker_in, breaker_out, verdict_in, verdict_out

NODES, CARDS_A_NODE = 3, 3
STEPS, KILLS = 300, 100
IN_HAND_MS = 150_000
START_MS = 1_700_000_000_000
Key = tuple[NodeName, CardId]
KEYS: list[Key] = [
    (NodeName(f"n{node}"), CardId(f"C{node}{card}")) for node in range(NODES) for card in range(CARDS_A_NODE)
]


@dataclass(slots=True)
class Stored:
    """What outlives a judge: verdicts, breaker, the newest observations, and who is on each card."""

    verdicts: dict[Key, Verdict] = field(default_factory=dict)
    annotations: dict[NodeName, str | None] = field(default_factory=dict)
    breaker: bytes = b""
    signals: deque[Signal] = field(default_factory=deque)
    users: dict[Key, Told] = field(default_factory=dict)


class Life:
    """A judge and what it has stored; `told` are the changes that it announced, over all lives."""

    def __init__(self) -> None:
        self.engine = Engine(shipped_policy())
        self.stored = Stored()
        self.told: list[Transition] = []

    def take(self, event: Event, now_ms: int) -> None:
        while (due_ms := self.engine.due_ms()) is not None and due_ms <= now_ms:
            self._store(Tick(), due_ms)
        if isinstance(event, Signal):
            self.stored.signals.append(event)
        if isinstance(event, Told):
            self.stored.users[event.node, event.card] = event
        self._store(event, now_ms)

    def lose(self, event: Event, now_ms: int) -> None:
        """Judge an event and die before anything of it is stored; it is told again to the next life."""
        while (due_ms := self.engine.due_ms()) is not None and due_ms <= now_ms:
            self._store(Tick(), due_ms)
        self.engine.handle(event, now_ms=now_ms)

    def die(self, dice: Random, now_ms: int) -> None:
        self.engine = Engine(self.engine.policy)
        if dice.random() < 0.5:
            verdicts = [verdict_in(verdict_out(one)) for one in self.stored.verdicts.values()]
        else:  # the bus was lost as well
            verdicts = [
                one.verdict
                for node, text in self.stored.annotations.items()
                for one in (read_annotation(node, text) if text else [])
            ]
        for verdict in verdicts:
            self.engine.handle(Restored(verdict=verdict), now_ms=now_ms)
        if self.stored.breaker:
            self.engine.handle(BreakerRestored(breaker_in(self.stored.breaker)), now_ms=now_ms)
        recent = tuple(one for one in self.stored.signals if one.at_ms > now_ms - IN_HAND_MS)
        self._store(CaughtUp(recent), now_ms)
        for told in self.stored.users.values():
            self._store(told, now_ms)

    def _store(self, event: Event, now_ms: int) -> None:
        for effect in self.engine.handle(event, now_ms=now_ms):
            if isinstance(effect, Transition):
                self.told.append(effect)
            if isinstance(effect, Transition | Refreshed):
                node = effect.verdict.node
                self.stored.verdicts[node, effect.verdict.card] = effect.verdict
                self.stored.annotations[node] = write_annotation(self.engine.known.of_node(node))
            elif isinstance(effect, BreakerChanged):
                self.stored.breaker = breaker_out(effect.breaker)


def history(dice: Random) -> Iterator[tuple[int, Event]]:
    """Observations, people and users, in the order of time, as agents and the ledger tell them."""
    now_ms, boots, seq = START_MS, dict.fromkeys((node for node, _ in KEYS), 1), 0
    levels: dict[Key, str] = {}

    def signal(key: Key, kind: str, **more: str | int) -> Signal:
        nonlocal seq
        seq += 1
        return Signal(
            node=key[0],
            card=key[1],
            kind=SignalKind(kind),
            at_ms=now_ms,
            epoch="e",
            seq=seq,
            boot_id=f"b{boots[key[0]]}",
            **more,  # type: ignore[arg-type]  # fields by name
        )

    for key in KEYS:
        yield now_ms, signal(key, "card", pci=f"0000:{key[1][1:]}:00.0", serial=key[1])
        yield now_ms, signal(key, "probe", value="ok")
    for _ in range(STEPS):
        now_ms += dice.choice((200, 1_000, 5_000, 20_000, 40_000))
        key = dice.choice(KEYS)
        match dice.choice(("xid", "xid", "reset", "boot", "action", "probe", "use", "person", "level")):
            case "xid":
                yield now_ms, signal(key, "xid", code=dice.choice((43, 48, 54, 62, 79, 94, 95, 119)))
            case "boot":
                boots[key[0]] += 1
                for one in [one for one in KEYS if one[0] == key[0]]:
                    yield now_ms, signal(one, "probe", value="ok")
                    yield now_ms, signal(one, "level", name="remap_pending", value=levels.get(one, "false"))
            case "action":
                yield now_ms, signal(key, "recovery_action", value=dice.choice(("none", "gpu_reset")))
            case "level":
                value = dice.choice(("true", "false"))
                levels[key] = value
                yield now_ms, signal(key, "level", name="remap_pending", value=value)
            case "use":
                pods = dice.choice(((), ("default/p",)))
                yield now_ms, Told(node=key[0], card=key[1], pods=pods)
            case "person":
                what = dice.choice(("hold", "release", "ack"))
                manual = Manual(what=what, by="ada", at_ms=now_ms)
                yield now_ms, Acted(node=key[0], card=key[1], manual=manual)
            case kind:
                yield now_ms, signal(key, kind, value=dice.choice(("ok", "lost", "error")))
        if dice.random() < 0.05:
            what = dice.choice(("breaker_open", "breaker_close", "breaker_half_open"))
            yield now_ms, BreakerActed(what=what, by="ada")
    yield now_ms + 1_000, BreakerActed(what="breaker_close", by="ada")
    for key in KEYS:
        yield now_ms + 2_000, signal(key, "probe", value="ok")
    for hour in range(1, 4):
        now_ms += 3_600_000
        for key in KEYS:
            yield now_ms, signal(key, "probe", value="ok" if hour else "")


@pytest.mark.parametrize("seed", range(3))
def test_a_judge_killed_a_hundred_times_comes_to_the_verdicts_of_one_that_lived(seed: int) -> None:
    told = list(history(Random(seed)))
    lived = Life()
    for now_ms, event in told:
        lived.take(event, now_ms)
    dice, killed = Random(seed + 1_000), Life()
    deaths = set(dice.sample(range(len(told) - 2 * len(KEYS)), KILLS))
    for number, (now_ms, event) in enumerate(told):
        if number not in deaths:
            killed.take(event, now_ms)
            continue
        if dice.random() < 0.5:
            killed.lose(event, now_ms)
            killed.die(dice, now_ms)
            killed.take(event, now_ms)
        else:
            killed.take(event, now_ms)
            killed.die(dice, now_ms)
    assert {key: summary(one) for key, one in killed.stored.verdicts.items()} == {
        key: summary(one) for key, one in lived.stored.verdicts.items()
    }
    for key in KEYS:
        changes = [one for one in killed.told if (one.verdict.node, one.verdict.card) == key]
        assert [one.verdict.seq for one in changes] == list(range(1, len(changes) + 1))
        assert [one.previous for one in changes[1:]] == [one.verdict.state for one in changes[:-1]]


def summary(verdict: Verdict) -> tuple[HealthState, bool, bool, list[str]]:
    latched = [one.id for one in verdict.reasons if one.latched]
    return verdict.state, verdict.schedulable, verdict.withheld, latched


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_automation_never_has_out_more_than_the_limit_within_a_window(seed: int) -> None:
    life, out = Life(), dict[Key, int]()
    limits = life.engine.policy.limits
    for now_ms, event in history(Random(seed)):
        if isinstance(event, BreakerActed | Acted):
            continue  # a person may
        life.take(event, now_ms)
        for key, state in life.engine.cards.items():
            if state.verdict and not state.verdict.schedulable and state.automatic:
                out.setdefault(key, now_ms)
            else:
                out.pop(key, None)
        recent = [key for key, at_ms in out.items() if at_ms > now_ms - limits.window_ms]
        most = max(limits.cards, int(len(KEYS) * limits.fleet_percent / 100))
        assert len(recent) <= most or len({node for node, _ in recent}) == 1


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_clearing_one_reason_never_clears_another(seed: int) -> None:
    """What a reset, a release or a good level takes back is only what waits for it."""
    life = Life()
    for now_ms, event in history(Random(seed)):
        life.take(Tick(), now_ms)
        before = dict(life.stored.verdicts)
        life.take(event, now_ms)
        for key, verdict in before.items():
            left = {one.id for one in life.stored.verdicts[key].reasons}
            gone = {one.clears_on for one in verdict.reasons if one.id not in left and one.latched}
            if isinstance(event, Acted) and event.manual.what == "release":
                assert gone <= {"manual"}
            elif isinstance(event, Signal) and event.kind is SignalKind.RESET:
                assert gone <= {"reset", "presence", "reboot"}
