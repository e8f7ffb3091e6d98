"""Short words for tests of the judge: one node, its cards, and a clock in seconds."""

from dataclasses import replace
from typing import Any

from sublet_healthd.core.engine import Engine
from sublet_healthd.core.event import Acted, Effect, Event, Told
from sublet_healthd.core.fold import Manual
from sublet_healthd.core.judge import Tick, Transition
from sublet_healthd.core.policy import Policy
from sublet_healthd.core.policyfile import shipped_policy

from sublet.model.card import Card, Heartbeat, Inventory
from sublet.model.claim import ContainerKind
from sublet.model.health import HealthState, Mode, Signal, SignalKind, Verdict
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid, SlotId
from sublet.model.placement import (
    CardGrant,
    CardUse,
    GrantState,
    LedgerGrant,
    LedgerMeta,
    NodeLedger,
    Occupancy,
    Prepared,
    SlotUse,
)

NODE = NodeName("n1")
A, B = CardId("GPU-A"), CardId("GPU-B")
START_MS = 1_700_000_000_000
POLICY = shipped_policy()


def ms(second: float) -> int:
    return START_MS + round(second * 1000)


class Clocked:
    """An engine that is told things at a second and fires its timers before them."""

    def __init__(self, *, policy: Policy = POLICY, mode: Mode = Mode.ENFORCE) -> None:
        self.engine = Engine(replace(policy, mode=mode))
        self.transitions: list[tuple[float, str, str, str]] = []

    def at(self, second: float, *events: Event) -> list[Effect]:
        """Let time pass until `second` and take the events in."""
        found: list[Effect] = []
        while (due_ms := self.engine.due_ms()) is not None and due_ms <= ms(second):
            found += self._note(self.engine.handle(Tick(), now_ms=due_ms), due_ms)
        for event in events:
            found += self._note(self.engine.handle(event, now_ms=ms(second)), ms(second))
        return found

    def verdict(self, card: CardId = A) -> Verdict:
        verdict = self.engine.cards[NODE, card].verdict
        assert verdict is not None
        return verdict

    def state(self, card: CardId = A) -> HealthState:
        return self.verdict(card).state

    def reasons(self, card: CardId = A) -> list[str]:
        return [reason.id for reason in self.verdict(card).reasons]

    def _note(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        self.transitions += [
            ((now_ms - START_MS) / 1000, effect.verdict.card, effect.previous, effect.verdict.state)
            for effect in effects
            if isinstance(effect, Transition)
        ]
        return effects


def sees(second: float, kind: str, card: CardId | None = A, **more: Any) -> Signal:
    return Signal(node=NODE, card=card, kind=SignalKind(kind), at_ms=ms(second), **more)


def xid(second: float, code: int, card: CardId | None = A, **more: Any) -> Signal:
    return sees(second, "xid", card, code=code, **more)


def nobody(card: CardId = A) -> Told:
    return Told(node=NODE, card=card, pods=())


def somebody(*pods: str, card: CardId = A) -> Told:
    return Told(node=NODE, card=card, pods=pods or ("default/p",))


def person(second: float, what: str, card: CardId = A) -> Acted:
    manual = Manual(what=what, by="ada", note="looked at it", at_ms=ms(second))
    return Acted(node=NODE, card=card, manual=manual)


def inventory(
    second: float,
    *cards: CardId,
    boot: str = "b1",
    epoch: str = "e1",
    verdicts: tuple[Verdict, ...] = (),
) -> Inventory:
    return Inventory(
        node=NODE,
        boot_id=boot,
        epoch=epoch,
        seq=1,
        at_ms=ms(second),
        cards=tuple(Card(id=card, index=n, pci=f"0000:0{n}:00.0") for n, card in enumerate(cards)),
        shares_per_card=16,
        slots=64,
        registered=True,
        verdicts=verdicts,
    )


def heartbeat(second: float, *, epoch: str = "e1", boot: str = "b1") -> Heartbeat:
    return Heartbeat(node=NODE, boot_id=boot, epoch=epoch, seq=1, at_ms=ms(second))


def ledger(
    revision: int, *, closed: tuple[CardId, ...] = (), grants: tuple[LedgerGrant, ...] = ()
) -> NodeLedger:
    return NodeLedger(node=NODE, term=1, grants=grants, closed=closed, revision=revision)


def grant(card: CardId = A, state: GrantState = GrantState.COMMITTED) -> LedgerGrant:
    return LedgerGrant(
        pod=PodRef("default", "p"),
        uid=PodUid("u1"),
        decision=DecisionId("d1"),
        container="main",
        kind=ContainerKind.MAIN,
        dialect="sublet",
        grant=CardGrant(card=card, index=0, memory_mib=1024, core_percent=0),
        state=state,
    )


COMPLETE = LedgerMeta(epoch="l1", complete=True, term=1)


def occupancy(
    second: float,
    revision: int,
    *,
    epoch: str = "e1",
    boot: str = "b1",
    holds: CardId | None = None,
    slot_held: bool = True,
    processes: int = 0,
    unreadable: str = "",
) -> Occupancy:
    """What runs on the node; `holds` is a card that pod u1 was given."""
    slot = SlotUse(slot=SlotId("s1"), uid=PodUid("u1"), pod=PodRef("default", "p"), container="main")
    given = holds and Prepared(
        slot=SlotId("s1"), uid=PodUid("u1"), container="main", decision=DecisionId("d1"), cards=(holds,)
    )
    return Occupancy(
        node=NODE,
        boot_id=boot,
        epoch=epoch,
        seq=1,
        at_ms=ms(second),
        ledger_revision=revision,
        slots=(slot,) if holds and slot_held else (),
        prepared=(given,) if given else (),
        cards=(CardUse(card=A, processes=processes, used_mib=0),),
        checkpoint_read=unreadable != "checkpoint",
        pod_resources_read=unreadable != "pod_resources",
        cgroups_read=True,
        processes_read=unreadable != "processes",
    )
