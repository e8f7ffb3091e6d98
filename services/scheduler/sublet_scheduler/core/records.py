"""What the engine remembers of one claiming pod: its stage between first sight and proven end."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sublet.contract.dialects.interface import NATIVE_NAME, Options
from sublet.contract.queue import Order, order
from sublet.contract.results import pod_results
from sublet.model.card import Card
from sublet.model.claim import ContainerKind, PodAsk
from sublet.model.ids import CardId, DecisionId, NodeName, PodRef, PodUid
from sublet.model.placement import CardGrant, GrantState, LedgerGrant, NoRoom, Placement
from sublet_scheduler.core.facts import PodFacts
from sublet_scheduler.core.node import Booking, Held, HostUse


class Stage(StrEnum):
    WAITING = "waiting"  # nothing is booked
    COMMITTING = "committing"  # booked, the ledger does not show it yet
    RELEASING = "releasing"  # in the ledger, the release patch is on its way
    FENCING = "fencing"  # in the ledger; a guarded patch makes all release patches fail, then it is dropped
    RELEASED = "released"  # without our gate: it may run
    ENDING = "ending"  # its object is gone or terminal; counts until nothing of it is left on the node


PENDING = (Stage.COMMITTING, Stage.RELEASING, Stage.FENCING)
"""Booked, and not released yet."""
HOLDING = (Stage.COMMITTING, Stage.RELEASING, Stage.FENCING, Stage.RELEASED, Stage.ENDING)


@dataclass(slots=True)
class PodRecord:
    """`since` is when the stage was entered (monotonic seconds); `patching` that a patch is on its way."""

    uid: PodUid
    ref: PodRef
    decision: DecisionId
    facts: PodFacts | None
    stage: Stage
    since: float
    placement: Placement | None = None
    grants: tuple[LedgerGrant, ...] = ()
    guessed_env: bool = False
    """The grants' variables were made without knowing the cards; made anew when the inventory comes."""
    patching: bool = False
    again_s: float = 0.0
    """No patch is tried before this time."""
    no_room: NoRoom | None = None
    hopeless: tuple[PodAsk, int] | None = None
    """What it asked when it was larger than any node, and how often the fleet had grown by then."""
    told: frozenset[str] = frozenset()
    """The reasons that the pod's waiting annotation gives."""
    told_s: float = float("-inf")
    notes: set[str] = field(default_factory=set)
    """The resourceVersions after which we wrote that it waits, or found that somebody had."""
    ending_revision: int = 0
    """The ledger revision that first said `ending`; only later occupancy is evidence."""
    ending_boot: str = ""
    sought: bool = False
    """Only the ledger told of it, and the pod watch, which may lag, did not: the API server is being asked
    whether it is there, and until it says no, nothing proves its end."""
    gone: bool = False
    """Its object was seen to be gone, whatever its last facts say."""
    stuck_s: float | None = None
    forged: bool = False

    @property
    def ask(self) -> PodAsk | None:
        return self.facts.ask if self.facts else None

    @property
    def node(self) -> NodeName | None:
        return self.placement.node if self.placement else None

    @property
    def order(self) -> Order:
        """Its place in the queue."""
        created_s = self.facts.created_s if self.facts else 0.0
        return order(rank=self.ask.rank if self.ask else 0, created_s=created_s, pod=self.ref, uid=self.uid)

    def ledger_grants(self) -> tuple[LedgerGrant, ...]:
        """The grants as the ledger shall show them now."""
        state = GrantState.ENDING if self.stage is Stage.ENDING else GrantState.COMMITTED
        return tuple(g if g.state is state else replace(g, state=state) for g in self.grants)


def make_grants(
    ask: PodAsk,
    placement: Placement,
    *,
    uid: PodUid,
    ref: PodRef,
    decision: DecisionId,
    cards: Mapping[CardId, Card],
    labels: Mapping[str, str],
    options: Options,
) -> tuple[LedgerGrant, ...]:
    """The ledger's grants of a placed pod, with the variables that its containers shall see.

    `labels` are those of the node.
    """
    known = {
        grant.card: cards.get(grant.card) or Card(id=grant.card, index=grant.index)
        for grants in placement.containers.values()
        for grant in grants
    }
    env = pod_results(ask, placement, known, options, at_ns=0, labels=labels).env
    return tuple(
        LedgerGrant(
            pod=ref,
            uid=uid,
            decision=decision,
            container=claim.container,
            kind=claim.kind,
            dialect=claim.dialect,
            grant=grant,
            env=env[claim.container],
            heir=claim.heir,
        )
        for claim in ask.claims
        for grant in placement.containers[claim.container]
    )


def bare_grants(
    placement: Placement, *, uid: PodUid, ref: PodRef, decision: DecisionId
) -> tuple[LedgerGrant, ...]:
    """What a placed pod holds, of which nobody can read any more what it asked for."""
    return tuple(
        LedgerGrant(
            pod=ref,
            uid=uid,
            decision=decision,
            container=container,
            kind=ContainerKind.MAIN,
            dialect=NATIVE_NAME,
            grant=grant,
        )
        for container, grants in placement.containers.items()
        for grant in grants
    )


def placement_of(node: NodeName, grants: tuple[LedgerGrant, ...]) -> Placement:
    containers: dict[str, tuple[CardGrant, ...]] = {}
    for one in grants:
        containers[one.container] = (*containers.get(one.container, ()), one.grant)
    return Placement(node=node, containers=containers)


def promised(ask: PodAsk, placement: Placement) -> Booking:
    """What a placement books before there is a grant of it."""
    held = (
        Held(
            container=claim.container,
            kind=claim.kind,
            grants=placement.containers[claim.container],
            counted=not claim.heir,
            profile=claim.profile or "",
        )
        for claim in ask.claims
    )
    return _booking(ask.pod, ask, tuple(held))


def booking_of(ref: PodRef, ask: PodAsk | None, grants: tuple[LedgerGrant, ...]) -> Booking:
    held: dict[str, Held] = {}
    profiles = {claim.container: claim.profile or "" for claim in (ask.claims if ask else ())}
    for one in grants:
        before = held[one.container].grants if one.container in held else ()
        held[one.container] = Held(
            container=one.container,
            kind=one.kind,
            grants=(*before, one.grant),
            counted=not one.heir,
            profile=profiles.get(one.container, ""),
        )
    return _booking(ref, ask, tuple(held.values()))


def _booking(ref: PodRef, ask: PodAsk | None, held: tuple[Held, ...]) -> Booking:
    same_card = ask.wishes.same_card if ask else None
    apart = ask is not None and ask.wishes.apart is not None
    return Booking(
        ref=ref,
        held=held,
        same_card=(ref.namespace, same_card) if same_card else None,
        replica_of=ask.owner if ask and apart else "",
        service_class=ask.wishes.service_class if ask else None,
    )


def host_use(ask: PodAsk) -> HostUse:
    return HostUse(cpu_milli=ask.cpu_milli, memory_mib=ask.memory_mib, resources=ask.resources)
