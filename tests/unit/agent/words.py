"""Short words for the agent's core: everything has a default but the point of a test."""

from dataclasses import replace
from typing import Any

from sublet_agent.core import event as ev
from sublet_agent.core.edits import Node
from sublet_agent.core.engine import Config, Engine
from sublet_agent.core.identity import Identity
from sublet_agent.core.observation import Checkpoint, Holding, Listing, Observation
from sublet_agent.core.slots import slot_id

from sublet.model.card import Card
from sublet.model.claim import ContainerKind
from sublet.model.health import HealthState, Verdict
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid, SlotId
from sublet.model.placement import CardGrant, LedgerGrant, LedgerMeta, NodeLedger

NODE = NodeName("n1")
A, B, C = CardId("GPU-a"), CardId("GPU-b"), CardId("GPU-c")
UID = PodUid("11111111-aaaa")
POD = PodRef("ns", "p")
SLOT = slot_id(0)


def engine(**config: Any) -> Engine:
    return Engine(Config(node=NODE, boot_id="b1", epoch="e1", **config))


def cards(*ids: CardId) -> ev.CardsSeen:
    return ev.CardsSeen(
        cards=tuple(Card(id=one, index=number, memory_mib=1000) for number, one in enumerate(ids)),
        nodes={
            one: (Node(host_path=f"/dev/nvidia{number}", container_path=f"/dev/nvidia{number}"),)
            for number, one in enumerate(ids)
        },
    )


def verdict(
    card: CardId, *, withheld: bool, node: NodeName = NODE, seq: int = 0, since_ms: int = 0
) -> ev.VerdictSeen:
    state = HealthState.QUARANTINED if withheld else HealthState.HEALTHY
    return ev.VerdictSeen(
        Verdict(
            node=node,
            card=card,
            state=state,
            schedulable=not withheld,
            withheld=withheld,
            seq=seq,
            since_ms=since_ms,
        )
    )


def grant(card: CardId, *, memory_mib: int | None = 100, core_percent: int = 10, **more: Any) -> LedgerGrant:
    index = more.pop("index", 0)
    whole = LedgerGrant(
        pod=POD,
        uid=UID,
        decision=DecisionId("d1"),
        container="main",
        kind=ContainerKind.MAIN,
        dialect="sublet",
        grant=CardGrant(card=card, index=index, memory_mib=memory_mib, core_percent=core_percent),
    )
    return replace(whole, **more)


def ledger(*grants: LedgerGrant, revision: int = 1, closed: tuple[CardId, ...] = ()) -> NodeLedger:
    return NodeLedger(node=NODE, term=1, grants=grants, revision=revision, closed=closed)


def meta(*, epoch: str = "m1", complete: bool = True) -> LedgerMeta:
    return LedgerMeta(epoch=epoch, complete=complete, term=1)


def who(*containers: str, listed: set[str] | None = None, **more: Any) -> Identity:
    names = frozenset(containers or ("main",))
    values: dict[str, Any] = {
        "slot": SLOT,
        "uid": UID,
        "containers": names,
        "pod": POD,
        "listed": frozenset(listed if listed is not None else {"main"} & names),
    }
    return Identity(**(values | more))


def holding(number: int, uid: PodUid = UID, container: str = "main") -> Holding:
    return Holding(slot=slot_id(number), uid=uid, container=container)


def listing(number: int, pod: PodRef = POD, container: str = "main") -> Listing:
    return Listing(slot=slot_id(number), pod=pod, container=container)


def observed(
    *holdings: Holding,
    listings: tuple[Listing, ...] | None = (),
    cgroups: frozenset[PodUid] | None = frozenset({UID}),
    began_s: float = 100.0,
    **more: Any,
) -> ev.Observed:
    values: dict[str, Any] = {
        "began_s": began_s,
        "at_ms": 1,
        "generation": 0,
        "revision": 0,
        "checkpoint": Checkpoint(holdings=holdings),
        "listings": listings,
        "pods_with_cgroups": cgroups,
    }
    return ev.Observed(Observation(**(values | more)))


def written(one: Engine, effects: list[ev.Effect], *, now: float = 0) -> list[ev.Effect]:
    """What `Started` asks for is on disk; the same effects, for who wants to look at them."""
    for effect in effects:
        if isinstance(effect, ev.Started):
            one.handle(ev.Prepared(effect.record), now=now)
    return effects


def shown(effects: list[ev.Effect]) -> ev.ShowSlots:
    [one] = [effect for effect in effects if isinstance(effect, ev.ShowSlots)]
    return one


def slots(*numbers: int) -> frozenset[SlotId]:
    return frozenset(slot_id(number) for number in numbers)
